// Package memorylock keeps locks in memory: for one process, for tests and simulation.
package memorylock

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/internal/rules"
)

// Options tune Locks; the zero value is ready to use.
type Options struct {
	Now  func() time.Time // nil means time.Now
	Rand io.Reader        // of owners; nil means crypto/rand
}

// Locks implements lock.Locks.
type Locks struct {
	o     Options
	mu    sync.Mutex // guards what follows; held for work in memory only
	held  map[string]held
	fence uint64
}

type held struct {
	lock.Held
	until time.Time
}

var _ lock.Locks = (*Locks)(nil)

// New makes free locks.
func New(o Options) *Locks {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return &Locks{o: o, held: map[string]held{}}
}

// Acquire implements lock.Locks.
func (l *Locks) Acquire(ctx context.Context, name string, d time.Duration) (lock.Held, bool, error) {
	if err := rules.Check(name, d); err != nil {
		return lock.Held{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return lock.Held{}, false, err
	}
	owner, err := rules.NewOwner(l.o.Rand)
	if err != nil {
		return lock.Held{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.o.Now()
	maps.DeleteFunc(l.held, func(_ string, h held) bool { return !now.Before(h.until) })
	if _, ok := l.held[name]; ok {
		return lock.Held{}, false, nil
	}
	l.fence++
	h := lock.Held{Name: name, Owner: owner, Fence: l.fence}
	l.held[name] = held{h, now.Add(d)}
	return h, true, nil
}

// Extend implements lock.Locks.
func (l *Locks) Extend(ctx context.Context, h lock.Held, d time.Duration) error {
	if err := rules.Check(h.Name, d); err != nil {
		return err
	}
	return l.change(ctx, h, func(now time.Time) { l.held[h.Name] = held{h, now.Add(d)} })
}

// Release implements lock.Locks.
func (l *Locks) Release(ctx context.Context, h lock.Held) error {
	return l.change(ctx, h, func(time.Time) { delete(l.held, h.Name) })
}

// change applies do to a lock that h still holds.
func (l *Locks) change(ctx context.Context, h lock.Held, do func(now time.Time)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.o.Now()
	if k, ok := l.held[h.Name]; !ok || k.Held != h || !now.Before(k.until) {
		return fmt.Errorf("lock %q: %w", h.Name, lock.ErrLost)
	}
	do(now)
	return nil
}
