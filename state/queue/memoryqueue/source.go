package memoryqueue

import (
	"context"
	"maps"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// source hands out the jobs of one queue.
type source struct {
	store   *Store
	queue   *queueState
	lease   time.Duration
	ordered bool
}

var (
	_ tidemill.Keeper     = (*source)(nil)
	_ tidemill.Gater      = (*source)(nil)
	_ tidemill.Bookkeeper = (*source)(nil)
)

// Traits implements tidemill.Source.
func (s *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Forwards: true, Ordered: s.ordered, Keep: s.lease / 3}
}

// Receive implements tidemill.Source.
func (s *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if len(into) == 0 {
		return 0, ctx.Err()
	}
	if err := s.queue.turn.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer s.queue.turn.Release(1)
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, next, now, err := s.take(into)
		if n > 0 || err != nil {
			return n, err
		}
		if err := s.wait(ctx, next, now); err != nil {
			return 0, err
		}
	}
}

// take hands out due jobs, or says when to look again.
func (s *source) take(into []*tidemill.Message) (n int, next, now time.Time, err error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	now = s.store.o.Now()
	s.queue.look(now)
	if s.ordered && !s.queue.settings.Ordered {
		if s.queue.held() > 0 {
			return 0, next, now, rules.NotEmpty(s.queue.name)
		}
		s.queue.settings.Ordered = true
		s.queue.version++
	}
	n = s.queue.take(s, into, now)
	return n, s.queue.next(now), now, nil
}

func (s *source) wait(ctx context.Context, next, now time.Time) error {
	var alarm <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(max(next.Sub(now), 0))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-s.queue.wake:
	case <-alarm:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Settle implements tidemill.Source.
func (s *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range ends {
		if err := rules.CheckEnd(&ends[i]); err != nil {
			return err
		}
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	now := s.store.o.Now()
	s.queue.look(now)
	var refuses error
	settled := map[*job]bool{} // in this call: a job is settled once
	refused := map[queued]bool{}
	for i := range tidemill.ByIDFirst(ends) {
		e := &ends[i]
		e.Outcome = tidemill.Unanswered
		j := s.find(e, settled)
		if j == nil {
			e.Outcome = tidemill.Stale
			continue
		}
		settled[j] = true
		if err := s.fits(e, now, refused); err != nil {
			refuses = err
			continue
		}
		s.apply(j, e, now)
		for _, m := range e.Next {
			s.store.state(m.To).add(m, now, s.store.o.Capacity)
		}
		e.Outcome = tidemill.Applied
	}
	return refuses
}

// find is the job that a settlement may end, or nil.
func (s *source) find(e *tidemill.Settlement, settled map[*job]bool) *job {
	if e.Mark != (tidemill.Mark{}) {
		j := s.queue.jobs[e.Mark.Lo]
		if j == nil || e.Mark.Shard != s.queue.no || j.state != queue.Leased || j.out.epoch != e.Mark.Epoch || settled[j] {
			return nil
		}
		return j
	}
	for _, pos := range s.queue.ids[e.ID] {
		if j := s.queue.jobs[pos]; !settled[j] {
			return j
		}
	}
	return nil
}

// fits says whether everything that a settlement forwards can be added. Its own end frees
// capacity. A refused settlement stays refused for the rest of the call.
func (s *source) fits(e *tidemill.Settlement, now time.Time, refused map[queued]bool) (err error) {
	more := map[string]int{}
	if e.End == tidemill.Done {
		more[s.queue.name] = -1
	}
	fresh := map[queued]bool{}
	for _, m := range e.Next {
		q := s.store.state(m.To)
		q.look(now)
		key := queued{q, name{m.Tenant, m.ID}}
		if _, known := q.names[key.name]; known || fresh[key] {
			continue
		}
		fresh[key] = true
		more[m.To]++
		switch {
		case q.settings.Closed:
			err = queue.ClosedError(m.To)
		case refused[key] || q.held()+more[m.To] > rules.Capacity(&q.settings, s.store.o.Capacity):
			err = queue.FullError(m.To)
		}
	}
	if err != nil {
		maps.Copy(refused, fresh)
	}
	return err
}

// queued is a name in a queue.
type queued struct {
	queue *queueState
	name  name
}

func (s *source) apply(j *job, e *tidemill.Settlement, now time.Time) {
	switch e.End {
	case tidemill.Done:
		s.queue.drop(j, e.Fate, e.Kind, e.Cause, now)
		s.queue.settled.Add(e.Row())
	case tidemill.Again:
		s.queue.leave(j)
		if e.CountTry {
			j.m.Tries++
			j.cause = e.Cause
			j.fails = rules.AddFailure(j.fails, queue.Failure{At: now, Kind: e.Kind, Cause: e.Cause})
		}
		s.queue.holds(j)
		s.queue.putOff(j, now.Add(e.After), now)
	case tidemill.Left:
		j.out.owner = nil // its lease runs out
	}
}

// Keep implements tidemill.Keeper.
func (s *source) Keep(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	now := s.store.o.Now()
	s.queue.look(now)
	for _, e := range s.queue.outs {
		if j := s.queue.jobs[e.pos]; j != nil && j.state == queue.Leased && j.out.epoch == e.epoch && j.out.owner == s {
			j.out.until = now.Add(s.lease)
		}
	}
	return nil
}

// Gate implements tidemill.Gater.
func (s *source) Gate(ctx context.Context, until time.Time, probes int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.queue.gate = gate{closed: !until.IsZero(), until: until, probes: probes, turn: s.queue.gate.turn + 1}
	s.queue.signal()
	return nil
}

// Books implements tidemill.Bookkeeper.
func (s *source) Books(ctx context.Context) (tidemill.Books, error) {
	if err := ctx.Err(); err != nil {
		return tidemill.Books{}, err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return tidemill.Books{Accepted: s.queue.end, Settled: s.queue.settled, Pending: uint64(s.queue.held())}, nil
}
