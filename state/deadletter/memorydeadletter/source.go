package memorydeadletter

import (
	"cmp"
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// source hands out the replaying dead letters of one pipeline.
type source struct {
	s        *Store
	pipeline string
	out      map[int64]tidemill.Mark // handed out, with leases to keep, by Seq; guarded by s.mu
}

var (
	_ tidemill.Source     = (*source)(nil)
	_ tidemill.Keeper     = (*source)(nil)
	_ tidemill.Bookkeeper = (*source)(nil)
)

// Open implements deadletter.Store.
func (s *Store) Open(pipeline string) tidemill.Source {
	return &source{s: s, pipeline: pipeline, out: map[int64]tidemill.Mark{}}
}

// Traits implements tidemill.Source.
func (c *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Keep: c.s.o.Lease / 3}
}

// Receive implements tidemill.Source.
func (c *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if len(into) == 0 {
		return 0, ctx.Err()
	}
	return c.s.bell.Receive(ctx, func() (int, time.Duration, error) {
		n, wait := c.take(into)
		return n, wait, nil
	})
}

// take hands out due dead letters, or says how long to wait at most.
func (c *source) take(into []*tidemill.Message) (n int, wait time.Duration) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	for _, seq := range s.seqs {
		r := s.bySeq[seq]
		if r == nil || r.Pipeline != c.pipeline || r.State != deadletter.Replaying || r.Next().After(now) {
			continue
		}
		r.Lease(now, s.o.Lease)
		r.Fill(into[n])
		c.out[seq] = r.Position()
		if n++; n == len(into) {
			break
		}
	}
	wait = bell.Idle
	if at, any := s.next(c.pipeline); any {
		wait = at.Sub(now)
	}
	return n, wait
}

// Settle implements tidemill.Source.
func (c *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := cmp.Or(ctx.Err(), rules.CheckSettle(ends)); err != nil {
		return err
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	again := false
	for i := range tidemill.ByIDFirst(ends) {
		e := &ends[i]
		if e.Outcome != tidemill.Unanswered {
			continue
		}
		r := c.find(e)
		if r == nil || !r.Holds(e.Mark) {
			e.Outcome = tidemill.Stale
			if seq := int64(e.Mark.Lo); c.out[seq] == e.Mark {
				delete(c.out, seq)
			}
			continue
		}
		e.Outcome = tidemill.Applied
		delete(c.out, r.Seq)
		again = again || e.End == tidemill.Again
		if r.Settle(e, now) {
			s.remove(r)
			s.book(c.pipeline).Settled.Add(rules.Ended(e))
		}
	}
	if again {
		s.bell.Ring()
	}
	return nil
}

// find returns the dead letter of a settlement: by position, else by ID, the oldest that is
// handed out.
func (c *source) find(e *tidemill.Settlement) *deadletter.Record {
	if (e.Mark != tidemill.Mark{}) {
		if r := c.s.bySeq[int64(e.Mark.Lo)]; r != nil && r.Pipeline == c.pipeline {
			return r
		}
		return nil
	}
	for _, seq := range c.s.seqs {
		if r := c.s.bySeq[seq]; r != nil && r.Pipeline == c.pipeline && r.ID == e.ID && r.Holds(e.Mark) {
			return r
		}
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
	until := s.o.Now().Add(s.o.Lease)
	for seq, m := range c.out {
		if r := s.bySeq[seq]; r != nil && r.Holds(m) {
			r.Until = until
		} else {
			delete(c.out, seq) // lost
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
	b := *s.book(c.pipeline)
	b.Pending = 0
	for _, r := range s.letters {
		if r.Pipeline == c.pipeline {
			b.Pending++
		}
	}
	return b, nil
}
