// Package rates bounds what each caller asks: so many reads and changes a second, and so many dear
// requests at a time, of a caller and of all. Callers are told apart by a name, wherever they come
// from. It waits for nothing but a dear request that is about to end.
package rates

import (
	"context"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/recent"
	"github.com/tidemill/tidemill/policy"
)

const (
	callersMost = 4096        // that are remembered: less than a MB. Of more, those that were silent the longest are forgotten
	idleFor     = time.Minute // after it a caller is forgotten
	dearWithin  = time.Second // a dear request waits for its turn
)

// Limits are what a caller may. The zero value sets none.
type Limits struct {
	Reads, Changes policy.Limiter
	Dear           int // at a time, of a caller; 0: any number
	DearOfAll      int // at a time; 0: any number
}

// Limiter holds callers to limits. It may be used by many.
type Limiter struct {
	now    func() time.Time
	limits func() Limits

	mu      sync.Mutex // guards what follows; held for work in memory only
	callers recent.Cache[string, caller]
	dear    int           // at work, of all
	ended   chan struct{} // closed when a dear one ends, for those that wait
}

// caller is one who asked not long ago.
type caller struct {
	reads, changes *policy.Bucket
	dear           int // at work
	last           time.Time
}

// New makes a limiter. The limits may be others from one call to the next.
func New(now func() time.Time, limits func() Limits) *Limiter {
	return &Limiter{now: now, limits: limits, callers: recent.New[string, caller](callersMost), ended: make(chan struct{})}
}

// Standing is how a caller stands after a request.
type Standing struct {
	Limit policy.Limiter // zero: there is none
	Wait  time.Duration  // until there is another one; 0: this one is let in
	Left  int
	Full  time.Duration // until all of the burst is there
}

// Take counts a read or a change of a caller, unless there are too many.
func (l *Limiter) Take(who string, change bool) Standing {
	limits := l.limits()
	limit := limits.Reads
	if change {
		limit = limits.Changes
	}
	if limit.Rate == 0 {
		return Standing{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	c := l.of(who, now)
	b := &c.reads
	if change {
		b = &c.changes
	}
	if *b == nil || (*b).Limiter() != limit {
		*b = limit.Bucket()
	}
	s := Standing{Limit: limit}
	s.Wait, s.Left, s.Full = (*b).Try(now)
	return s
}

// of is a caller; those who are idle are forgotten. The lock is held.
func (l *Limiter) of(who string, now time.Time) *caller {
	c := l.callers.Of(who)
	c.last = now
	for {
		name, oldest, ok := l.callers.GetOldest()
		if !ok || now.Sub(oldest.last) < idleFor {
			return c
		}
		if oldest.dear > 0 { // it is at work
			oldest.last = now
			l.callers.Get(name)
			continue
		}
		l.callers.Remove(name)
	}
}

// Full is why there is no turn for a dear request.
type Full struct {
	OfAll bool // all callers together have as many as may be; else this one has
	Most  int
}

// Begin is the turn of a dear request, which end ends. Where there is none it waits for a second at
// most; full says why there was none.
func (l *Limiter) Begin(ctx context.Context, who string) (end func(), full *Full) {
	late := time.NewTimer(dearWithin)
	defer late.Stop()
	for {
		end, full, next := l.begin(who)
		if full == nil {
			return end, nil
		}
		select {
		case <-next:
		case <-late.C:
			return nil, full
		case <-ctx.Done():
			return nil, full
		}
	}
}

func (l *Limiter) begin(who string) (end func(), full *Full, next <-chan struct{}) {
	limits := l.limits()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of(who, l.now())
	switch {
	case limits.Dear > 0 && c.dear >= limits.Dear:
		return nil, &Full{false, limits.Dear}, l.ended
	case limits.DearOfAll > 0 && l.dear >= limits.DearOfAll:
		return nil, &Full{true, limits.DearOfAll}, l.ended
	}
	c.dear++
	l.dear++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.dear--
		l.dear--
		close(l.ended)
		l.ended = make(chan struct{})
	}, nil, nil
}

// Known is how many callers are remembered.
func (l *Limiter) Known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.callers.Len()
}
