package memorywindow

import (
	"cmp"
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// source hands out closed windows.
type source struct {
	s   *Store
	out map[uint64]tidemill.Mark // handed out, with leases to keep, by revision; guarded by s.mu
}

var (
	_ tidemill.Source     = (*source)(nil)
	_ tidemill.Keeper     = (*source)(nil)
	_ tidemill.Bookkeeper = (*source)(nil)
)

// Open implements window.Store.
func (s *Store) Open() tidemill.Source { return &source{s: s, out: map[uint64]tidemill.Mark{}} }

// Traits implements tidemill.Source.
func (c *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Ordered: true, Keep: c.s.o.Lease / 3}
}

// Receive implements tidemill.Source.
func (c *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if len(into) == 0 {
		return 0, ctx.Err()
	}
	return c.s.bell.Receive(ctx, func() (int, time.Duration, error) { return c.take(into) })
}

// take hands out due windows, or says how long to wait at most.
func (c *source) take(into []*tidemill.Message) (n int, wait time.Duration, err error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	wait = bell.Idle
	for _, w := range s.all() {
		line := s.lines[w.Batch]
		if len(line) == 0 || line[0] != w {
			continue
		}
		if w.Due.After(now) {
			wait = min(wait, w.Due.Sub(now))
			continue
		}
		if n == len(into) {
			break
		}
		w.Lease(now, s.o.Lease, s.o.Owner)
		if err := w.Fill(into[n]); err != nil {
			return n, 0, err
		}
		c.out[w.Revision] = w.Position()
		n++
	}
	return n, wait, nil
}

// Settle implements tidemill.Source.
func (c *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := cmp.Or(ctx.Err(), entry.CheckSettle(ends)); err != nil {
		return err
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	wake := false
	for i := range tidemill.ByIDFirst(ends) {
		e := &ends[i]
		if e.Outcome != tidemill.Unanswered {
			continue
		}
		w := s.find(e)
		if w == nil || !w.Holds(e.Mark) {
			e.Outcome = tidemill.Stale
			if c.out[e.Mark.Lo] == e.Mark {
				delete(c.out, e.Mark.Lo)
			}
			continue
		}
		e.Outcome = tidemill.Applied
		delete(c.out, w.Revision)
		s.books.Settled.Add(entry.Booked(e, w.Records, w.Lost))
		gone := w.Settle(e, now)
		if gone {
			delete(s.windows, w.Revision)
		}
		if gone || w.State == window.Parked {
			s.leaveLine(w)
		}
		wake = wake || w.State != window.Leased || gone
	}
	if wake {
		s.bell.Ring()
	}
	return nil
}

// find is the window of a settlement: by position, else by ID.
func (s *Store) find(e *tidemill.Settlement) *kept {
	if (e.Mark != tidemill.Mark{}) {
		return s.windows[e.Mark.Lo]
	}
	return s.byID(e.ID)
}

func (s *Store) byID(id string) *kept {
	_, revision, ok := window.ParseID(id)
	if w := s.windows[revision]; ok && w != nil && w.ID == id {
		return w
	}
	return nil
}

// Keep implements tidemill.Keeper.
func (c *source) Keep(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	for no, m := range c.out {
		if w := s.windows[no]; w != nil && w.Holds(m) {
			w.Renew(now, s.o.Lease)
		} else {
			delete(c.out, no) // lost
		}
	}
	return nil
}

// Books implements tidemill.Bookkeeper. Pending is counted in the store.
func (c *source) Books(ctx context.Context) (tidemill.Books, error) {
	if err := ctx.Err(); err != nil {
		return tidemill.Books{}, err
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books
	for _, w := range s.windows {
		if w.State != window.Parked {
			b.Pending += uint64(len(w.records))
		}
	}
	return b, nil
}
