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
	line    *line
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
	if err := s.line.turn.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer s.line.turn.Release(1)
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
	s.line.look(now)
	if s.ordered && !s.line.settings.Ordered {
		if s.line.held() > 0 {
			return 0, next, now, rules.NotEmpty(s.line.name)
		}
		s.line.settings.Ordered = true
		s.line.version++
	}
	n = s.line.take(s, into, now)
	return n, s.line.next(now), now, nil
}

func (s *source) wait(ctx context.Context, next, now time.Time) error {
	var alarm <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(max(next.Sub(now), 0))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-s.line.wake:
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
	s.line.look(now)
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
		if err := s.room(e, now, refused); err != nil {
			refuses = err
			continue
		}
		s.apply(j, e, now)
		for _, m := range e.Next {
			s.store.line(m.To).add(m, now, s.store.o.Capacity)
		}
		e.Outcome = tidemill.Applied
	}
	return refuses
}

// find is the job that a settlement may end, or nil.
func (s *source) find(e *tidemill.Settlement, settled map[*job]bool) *job {
	if e.Mark != (tidemill.Mark{}) {
		j := s.line.jobs[e.Mark.Lo]
		if j == nil || e.Mark.Shard != s.line.no || j.state != queue.Leased || j.out.epoch != e.Mark.Epoch || settled[j] {
			return nil
		}
		return j
	}
	for _, pos := range s.line.ids[e.ID] {
		if j := s.line.jobs[pos]; !settled[j] {
			return j
		}
	}
	return nil
}

// room says whether everything that a settlement forwards can be added. Its own end makes
// room. A refused settlement stays refused for the rest of the call.
func (s *source) room(e *tidemill.Settlement, now time.Time, refused map[queued]bool) (err error) {
	more := map[string]int{}
	if e.End == tidemill.Done {
		more[s.line.name] = -1
	}
	fresh := map[queued]bool{}
	for _, m := range e.Next {
		l := s.store.line(m.To)
		l.look(now)
		q := queued{l, name{m.Tenant, m.ID}}
		if _, known := l.names[q.name]; known || fresh[q] {
			continue
		}
		fresh[q] = true
		more[m.To]++
		switch {
		case l.settings.Closed:
			err = queue.ClosedError(m.To)
		case refused[q] || l.held()+more[m.To] > rules.Capacity(&l.settings, s.store.o.Capacity):
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
	line *line
	name name
}

func (s *source) apply(j *job, e *tidemill.Settlement, now time.Time) {
	switch e.End {
	case tidemill.Done:
		s.line.drop(j, e.Fate, e.Kind, e.Cause, now)
		s.line.settled.Add(e.Row())
	case tidemill.Again:
		s.line.leave(j)
		if e.CountTry {
			j.m.Tries++
			j.cause = e.Cause
			j.fails = rules.AddFailure(j.fails, queue.Failure{At: now, Kind: e.Kind, Cause: e.Cause})
		}
		s.line.holds(j)
		s.line.putOff(j, now.Add(e.After), now)
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
	s.line.look(now)
	for _, e := range s.line.outs {
		if j := s.line.jobs[e.pos]; j != nil && j.state == queue.Leased && j.out.epoch == e.epoch && j.out.owner == s {
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
	s.line.gate = gate{closed: !until.IsZero(), until: until, probes: probes, turn: s.line.gate.turn + 1}
	s.line.signal()
	return nil
}

// Books implements tidemill.Bookkeeper.
func (s *source) Books(ctx context.Context) (tidemill.Books, error) {
	if err := ctx.Err(); err != nil {
		return tidemill.Books{}, err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return tidemill.Books{Accepted: s.line.end, Settled: s.line.settled, Pending: uint64(s.line.held())}, nil
}
