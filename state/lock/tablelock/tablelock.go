// Package tablelock keeps locks in a table of any backend. A name has at most 500 bytes.
package tablelock

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/internal/rules"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Record is a lock that is held, or the newest fence of all.
type Record struct{ record }

// record is in it as one, so that the names of functions of the table, which have all fields in them, are short.
type record struct {
	key   string // "lock/" and a name, or newest
	owner string
	fence uint64
	until time.Time // never before the lock's end
}

// newest is the key of the newest fence. It is of all names, so that a name need not be kept when
// it is free. Each Acquire that takes a lock reads and writes it: so fences grow in the order of
// owners.
const newest = "fence"

// Spec is what a record is.
func Spec() table.Spec[Record] {
	return table.Spec[Record]{Name: "lock", Fields: []table.Field[Record]{
		{Name: "key", At: func(r *Record) any { return &r.key }},
		{Name: "owner", At: func(r *Record) any { return &r.owner }},
		{Name: "fence", At: func(r *Record) any { return &r.fence }},
		{Name: "until", At: func(r *Record) any { return &r.until }},
	}, Orders: []table.Order{{Name: "end", By: []string{"until"}}}}
}

// Options tune Locks; the zero value is ready to use.
type Options struct {
	Now  func() time.Time // nil means time.Now. Processes that share locks must agree on it: give them the clock of their server
	Rand io.Reader        // of owners; nil means crypto/rand
}

// Locks implements lock.Locks.
type Locks[Raw any] struct {
	t table.Store[Record, Raw]
	o Options
}

var _ lock.Locks = (*Locks[any])(nil)

// New makes locks of a table; those held in it stay held.
func New[Raw any](t table.Store[Record, Raw], o Options) *Locks[Raw] {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return &Locks[Raw]{t, o}
}

// Memory makes free locks in memory.
func Memory(o Options) *Locks[*memorytable.Tx] {
	return New(memorytable.Alone(Spec()), o)
}

func keyOf(name string) string { return "lock/" + name }

// end is when a lock for d from now runs out: in whole milliseconds, as a table keeps times, and
// never early.
func end(now time.Time, d time.Duration) time.Time { return now.Add(d).Add(time.Millisecond - 1) }

// Acquire implements lock.Locks. Calls that find the lock held do not wait for each other.
func (l *Locks[Raw]) Acquire(ctx context.Context, name string, d time.Duration) (h lock.Held, ok bool, err error) {
	if err := rules.Check(name, d); err != nil {
		return lock.Held{}, false, err
	}
	h.Name = name
	if h.Owner, err = rules.NewOwner(l.o.Rand); err != nil {
		return lock.Held{}, false, err
	}
	key, now := keyOf(name), l.o.Now()
	held := func(found map[string]*Record) bool { return found[key] != nil && now.Before(found[key].until) }
	err = l.t.View(ctx, func(tx table.Reader[Record]) error {
		found, err := tx.Get([]string{key}, "until")
		ok = !held(found)
		return err
	})
	if err == nil && ok {
		err = l.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
			found, err := tx.Get([]string{key, newest}, "fence", "until")
			if ok = err == nil && !held(found); !ok {
				return err
			}
			h.Fence = 1
			if last := found[newest]; last != nil {
				h.Fence += last.fence
			}
			if err := sweep(tx, now); err != nil {
				return err
			}
			return tx.Put([]*Record{{record{key: newest, fence: h.Fence}}, {record{key, h.Owner, h.Fence, end(now, d)}}})
		})
	}
	if err != nil {
		return lock.Held{}, false, fmt.Errorf("acquire lock %q: %w", name, err)
	}
	if !ok {
		return lock.Held{}, false, nil
	}
	return h, true, nil
}

// sweep deletes locks that ran out.
func sweep(tx table.Tx[Record], now time.Time) error {
	page, err := tx.Page(table.Query[Record]{By: "end", Most: 100, Only: []string{"until"},
		Where: []table.Cond{{Field: "until", Op: ">", Value: time.Time{}}, {Field: "until", Op: "<=", Value: now}}})
	if err != nil {
		return err
	}
	gone := make([]string, len(page))
	for i, r := range page {
		gone[i] = r.key
	}
	return tx.Delete(gone)
}

// Extend implements lock.Locks.
func (l *Locks[Raw]) Extend(ctx context.Context, h lock.Held, d time.Duration) error {
	if err := rules.Check(h.Name, d); err != nil {
		return err
	}
	return l.change(ctx, "extend", h, func(tx table.Tx[Record], now time.Time) error {
		return tx.Put([]*Record{{record{key: keyOf(h.Name), until: end(now, d)}}}, "until")
	})
}

// Release implements lock.Locks.
func (l *Locks[Raw]) Release(ctx context.Context, h lock.Held) error {
	return l.change(ctx, "release", h, func(tx table.Tx[Record], _ time.Time) error {
		return tx.Delete([]string{keyOf(h.Name)})
	})
}

// change applies do to a lock that h still holds.
func (l *Locks[Raw]) change(ctx context.Context, what string, h lock.Held, do func(table.Tx[Record], time.Time) error) error {
	key, now := keyOf(h.Name), l.o.Now()
	err := l.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		found, err := tx.Get([]string{key})
		if err != nil {
			return err
		}
		if r := found[key]; r == nil || r.owner != h.Owner || r.fence != h.Fence || !now.Before(r.until) {
			return lock.ErrLost
		}
		return do(tx, now)
	})
	if err != nil {
		return fmt.Errorf("%s lock %q: %w", what, h.Name, err)
	}
	return nil
}
