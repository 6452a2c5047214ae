package tablewindow

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/state/internal/leases"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// receiveMax is how many windows one Receive hands out.
const receiveMax = 500

// source hands out closed windows.
type source[Raw any] struct {
	s   *Store[Raw]
	out leases.Book
}

var (
	_ tidemill.Source     = (*source[int])(nil)
	_ tidemill.Keeper     = (*source[int])(nil)
	_ tidemill.Bookkeeper = (*source[int])(nil)
	_ tidemill.Counter    = (*source[int])(nil)
)

// Open implements window.Store.
func (s *Store[Raw]) Open() tidemill.Source {
	return &source[Raw]{s: s}
}

// Traits implements tidemill.Source.
func (c *source[Raw]) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Ordered: true, Keep: c.s.o.Lease / 3}
}

// Receive implements tidemill.Source.
func (c *source[Raw]) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if len(into) == 0 {
		return 0, ctx.Err()
	}
	return c.s.bell.Receive(ctx, func() (int, time.Duration, error) {
		leased, wait, err := c.take(ctx, min(len(into), receiveMax))
		if err != nil {
			return 0, 0, fmt.Errorf("receive windows: %w", err)
		}
		for i, r := range leased {
			if err := r.Fill(into[i]); err != nil {
				return i, 0, err
			}
			c.out.Add(r.Position(), closedKey(r.Revision))
		}
		return len(leased), min(wait, c.s.o.Look), nil
	})
}

// take leases due windows, or says how long to wait at most. Those without records end.
func (c *source[Raw]) take(ctx context.Context, most int) (leased []*Record, wait time.Duration, err error) {
	err = c.s.update(ctx, func(x *change) error {
		leased, wait = nil, bell.Idle
		for len(leased) == 0 {
			due, err := x.windows.Page(table.Query[Record]{By: "waits", Most: most, Where: []table.Cond{waiting(toGo), {Field: "due", Op: "<=", Value: entry.Instant(x.now)}}})
			if err != nil {
				return err
			}
			there, err := x.there(due)
			if err != nil {
				return err
			}
			for _, r := range due {
				if !there[r] {
					if err := x.gone(r); err != nil {
						return err
					}
					continue
				}
				x.books.count(r, -1)
				r.Lease(x.now, c.s.o.Lease, c.s.o.Owner)
				x.books.count(r, 1)
				leased = append(leased, r.seal())
			}
			if len(due) == 0 {
				break
			}
		}
		if len(leased) > 0 {
			return x.windows.Put(leased, "state", "due", "owner", "handed", "epoch")
		}
		next, err := x.windows.Page(table.Query[Record]{By: "due", Where: []table.Cond{waiting(toGo)}, Most: 1, Only: []string{"due"}})
		if len(next) > 0 {
			wait = next[0].Due.Sub(x.now)
		}
		return err
	})
	return leased, wait, err
}

// Settle implements tidemill.Source.
func (c *source[Raw]) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := cmp.Or(ctx.Err(), leases.Check(ends)); err != nil || len(ends) == 0 {
		return err
	}
	keys := make([]string, len(ends))
	for i := range ends {
		revision := ends[i].Mark.Lo
		if (ends[i].Mark == tidemill.Mark{}) {
			_, revision, _ = window.ParseID(ends[i].ID)
		}
		keys[i] = closedKey(revision)
	}
	var took []tidemill.Outcome
	var over []tidemill.Mark
	if err := c.s.update(ctx, func(x *change) error {
		took, over = make([]tidemill.Outcome, len(ends)), nil
		found, err := x.windows.Get(keys)
		if err != nil {
			return err
		}
		var back, gone []*Record
		for i := range tidemill.ByIDFirst(ends) {
			e, r := &ends[i], found[keys[i]]
			switch took[i] = e.Outcome; {
			case took[i] != tidemill.Unanswered:
				continue
			case r == nil || !r.fill().Holds(e.Mark) || e.Mark == tidemill.Mark{} && r.ID != e.ID:
				took[i] = tidemill.Stale
				continue
			}
			took[i], over = tidemill.Applied, append(over, r.Position())
			ended, err := x.settle(r, e)
			if err != nil {
				return err
			}
			if ended {
				gone = append(gone, r)
			} else {
				back = append(back, r)
			}
		}
		return cmp.Or(x.windows.Put(back, changed...), x.remove(gone))
	}); err != nil {
		return fmt.Errorf("settle %d windows: %w", len(ends), err)
	}
	for i := range ends {
		ends[i].Outcome = took[i]
		over = append(over, ends[i].Mark) // the stale ones too
	}
	c.out.Forget(over...)
	c.s.bell.Ring()
	return nil
}

// settle ends a hand-out, and says whether the window is to be deleted.
func (x *change) settle(r *Record, e *tidemill.Settlement) (gone bool, err error) {
	line := r.Line
	x.books.row.Add(entry.Booked(e, r.Records, r.Lost))
	x.books.count(r, -1)
	if gone = r.Settle(e, x.now); gone {
		r.State = settled
	} else {
		x.books.count(r, 1)
	}
	if gone || r.State == window.Parked {
		err = x.next(r, line)
	}
	r.seal()
	return gone, err
}

// Keep implements tidemill.Keeper.
func (c *source[Raw]) Keep(ctx context.Context) error {
	out, keys := c.out.Out()
	if len(out) == 0 {
		return ctx.Err()
	}
	var lost []tidemill.Mark
	err := c.s.update(ctx, func(x *change) error {
		lost = nil
		found, err := x.windows.Get(keys, reading...)
		if err != nil {
			return err
		}
		var kept []*Record
		for i, m := range out {
			if r := found[keys[i]]; r != nil && r.fill().Holds(m) {
				r.Renew(x.now, c.s.o.Lease)
				kept = append(kept, r)
			} else {
				lost = append(lost, m)
			}
		}
		return x.windows.Put(kept, "due")
	})
	if err != nil {
		return fmt.Errorf("keep %d windows: %w", len(out), err)
	}
	c.out.Forget(lost...)
	return nil
}

// Books implements tidemill.Bookkeeper, at one moment. Pending is counted in the store.
func (c *source[Raw]) Books(ctx context.Context) (tidemill.Books, error) {
	return c.books(ctx, window.Active, window.Ready, window.Leased)
}

// Counters implements tidemill.Counter. It reads one record.
func (c *source[Raw]) Counters(ctx context.Context) (tidemill.Books, error) { return c.books(ctx) }

// books are those of the counters, and what is pending in states.
func (c *source[Raw]) books(ctx context.Context, pending ...window.State) (b tidemill.Books, err error) {
	err = c.s.windows.View(ctx, func(tx table.Reader[Record]) error {
		found, err := tx.Get([]string{booksKey}, "books")
		if err != nil {
			return err
		}
		counted, err := booksOf(found)
		b = tidemill.Books{Accepted: counted.accepted, Settled: counted.row}
		for _, state := range pending {
			if err != nil {
				return err
			}
			var all []*Record
			all, err = table.All(tx, table.Query[Record]{By: "state", Where: in(state), Most: pageMax, Only: []string{"state", "revision", "records"}})
			for _, r := range all {
				b.Pending += r.records
			}
		}
		return err
	})
	if err != nil {
		return tidemill.Books{}, fmt.Errorf("read the books of windows: %w", err)
	}
	return b, nil
}
