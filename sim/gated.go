package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// clientKey is the context key of a client's name through ingest.
type clientKey struct{}

// sentKey is the context key of the time of sending through ingest.
type sentKey struct{}

// gatedIntake is a queue's intake behind the gate.
type gatedIntake struct {
	queue.Intake
	g *Gate
	p *process
}

func (q gatedIntake) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	who, _ := ctx.Value(clientKey{}).(string)
	return q.g.do(q.p, "add", who, func() error { return q.Intake.Add(ctx, jobs, added) })
}

// gatedRegister is the queues' register, behind the gate.
type gatedRegister struct {
	queue.Register
	g *Gate
	p *process
}

func (q gatedRegister) Knows(ctx context.Context, names []queue.Name, known []bool) error {
	who, _ := ctx.Value(clientKey{}).(string)
	return q.g.do(q.p, "look for names", who, func() error { return q.Register.Knows(ctx, names, known) })
}

// gatedSource is a source behind the gate. It asks again and again instead of waiting, so that
// the gate chooses which of two processes gets a message.
type gatedSource struct {
	tidemill.Source
	name string
	idle func() time.Duration // whether nothing can be asked for: see Gate.await
	g    *Gate
	p    *process
}

// How often a source is asked, in fake time, that has something, but not now: at first, and
// in the end.
const (
	poll    = 50 * time.Millisecond
	longest = 800 * time.Millisecond
)

func (s gatedSource) Receive(ctx context.Context, into []*tidemill.Message) (n int, err error) {
	for wait := poll; ; wait = min(2*wait, longest) {
		err = s.g.await(ctx, s.p, "receive "+s.name, "", s.idle, func() error {
			short, cancel := context.WithTimeout(ctx, time.Nanosecond)
			defer cancel()
			var err error
			if n, err = s.Source.Receive(short, into); n == 0 && short.Err() != nil && ctx.Err() == nil {
				return nil // nothing to hand out
			}
			return err
		})
		if err != nil || n > 0 || ctx.Err() != nil {
			break
		}
		_ = sleep.For(ctx, wait)
	}
	if err == nil && n == 0 {
		err = ctx.Err()
	}
	if err != nil {
		s.forget(ctx, into[:n])
		n = 0
	}
	return n, err
}

// forget leaves messages whose hand-out lost its answer: no process knows of them, so none
// extends their lease.
func (s gatedSource) forget(ctx context.Context, out []*tidemill.Message) {
	if len(out) == 0 {
		return
	}
	ends := make([]tidemill.Settlement, len(out))
	for i, m := range out {
		ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Left}
	}
	_ = s.Source.Settle(context.WithoutCancel(ctx), ends)
}

func (s gatedSource) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	asked := slices.Clone(ends)
	err := s.g.do(s.p, "settle "+s.name, ends[0].ID, func() error { return s.Source.Settle(ctx, asked) })
	if err == nil { // else it is unknown what it applied: the answer was lost with the error
		copy(ends, asked)
	}
	return err
}

func (s gatedSource) Keep(ctx context.Context) error {
	return s.g.do(s.p, "keep "+s.name, "", func() error { return s.Source.(tidemill.Keeper).Keep(ctx) })
}

func (s gatedSource) Gate(ctx context.Context, until time.Time, probes int) error {
	return s.g.do(s.p, "gate "+s.name, "", func() error { return s.Source.(tidemill.Gater).Gate(ctx, until, probes) })
}

func (s gatedSource) Books(ctx context.Context) (tidemill.Books, error) {
	return s.Source.(tidemill.Bookkeeper).Books(ctx)
}

// onRecord is a source below the gate: it records what really happens, and the books must
// balance after it.
type onRecord struct {
	tidemill.Source
	fault  func(format string, args ...any)
	handed func(*tidemill.Message)
	took   func(*tidemill.Settlement) // each applied settlement
}

func (s onRecord) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := s.Source.Receive(ctx, into)
	for _, m := range into[:n] {
		s.handed(m)
	}
	return n, err
}

func (s onRecord) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	err := s.Source.Settle(ctx, ends)
	for i := range ends {
		if e := &ends[i]; e.Outcome == tidemill.Applied {
			s.took(e)
		}
	}
	if b, wrong := s.Books(context.WithoutCancel(ctx)); wrong != nil || b.Off() != 0 {
		s.fault("the books do not balance after a settlement: %+v, %v", b, wrong)
	}
	return err
}

func (s onRecord) Keep(ctx context.Context) error { return s.Source.(tidemill.Keeper).Keep(ctx) }

func (s onRecord) Gate(ctx context.Context, until time.Time, probes int) error {
	return s.Source.(tidemill.Gater).Gate(ctx, until, probes)
}

func (s onRecord) Books(ctx context.Context) (tidemill.Books, error) {
	return s.Source.(tidemill.Bookkeeper).Books(ctx)
}

// idleQueue says when a queue's source is idle: when no job is due. A job becomes due by time,
// or by an addition.
func idleQueue(q queue.Inspector, name string) func() time.Duration {
	return func() time.Duration {
		switch s, err := q.Stats(context.Background(), name); {
		case err != nil || s.Waiting > 0:
			return 0
		case s.Delayed+s.Leased > 0:
			return poll
		}
		return -1
	}
}

// idleLetters says the same of a pipeline's dead letters: when none has to be replayed.
func idleLetters(l deadletter.Store, pipeline string) func() time.Duration {
	return func() time.Duration {
		if n, err := l.Count(context.Background(), deadletter.Filter{Pipeline: pipeline, State: deadletter.Replaying, Max: 1}); err != nil || n > 0 {
			return 0
		}
		return -1
	}
}

// parkedSource is a gatedSource that cannot gate, as dead letters cannot.
type parkedSource struct{ s gatedSource }

func (p parkedSource) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	return p.s.Receive(ctx, into)
}
func (p parkedSource) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	return p.s.Settle(ctx, ends)
}
func (p parkedSource) Traits() tidemill.Traits                           { return p.s.Traits() }
func (p parkedSource) Keep(ctx context.Context) error                    { return p.s.Keep(ctx) }
func (p parkedSource) Books(ctx context.Context) (tidemill.Books, error) { return p.s.Books(ctx) }

// gatedPersons are persons behind the gate.
type gatedPersons struct {
	person.Store
	g *Gate
	p *process
}

func (s gatedPersons) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	return s.g.do(s.p, "resolve", refs[0].Distinct+fmt.Sprint(len(refs)), func() error { return s.Store.Resolve(ctx, refs, into) })
}

func (s gatedPersons) Apply(ctx context.Context, changes []person.Change) error {
	return s.g.do(s.p, "apply", changes[0].Event.String(), func() error { return s.Store.Apply(ctx, changes) })
}

func (s gatedPersons) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	return s.g.do(s.p, "merge", merges[0].Event.String(), func() error { return s.Store.Merge(ctx, merges, outcomes) })
}

func (s gatedPersons) Overrides(ctx context.Context, most int) (os []person.Override, err error) {
	err = s.g.do(s.p, "overrides", "", func() (err error) { os, err = s.Store.Overrides(ctx, most); return err })
	return os, err
}

func (s gatedPersons) Relayed(ctx context.Context, seq int64) error {
	return s.g.do(s.p, "relayed", "", func() error { return s.Store.Relayed(ctx, seq) })
}

func (s gatedPersons) Keep(ctx context.Context, merges []person.Merge) error {
	return s.g.do(s.p, "keep merges", merges[0].Event.String(), func() error { return s.Store.Keep(ctx, merges) })
}

func (s gatedPersons) Oldest(ctx context.Context, most int) (ms []person.Merge, err error) {
	err = s.g.do(s.p, "oldest merges", "", func() (err error) { ms, err = s.Store.Oldest(ctx, most); return err })
	return ms, err
}

func (s gatedPersons) Done(ctx context.Context, merges []person.Merge) error {
	return s.g.do(s.p, "done merges", "", func() error { return s.Store.Done(ctx, merges) })
}

// gatedWarehouse is the warehouse behind the gate. It rejects poison, and panics at worse.
type gatedWarehouse struct {
	warehouse.Store
	g *Gate
	p *process
}

func (s gatedWarehouse) Insert(ctx context.Context, rows []*event.Event, took []warehouse.Outcome) error {
	return s.g.do(s.p, "insert", fmt.Sprint(rows[0].ID, len(rows)), func() error {
		for _, r := range rows {
			switch r.Name {
			case poison:
				return tidemill.Fail(tidemill.Validation, "sim: the warehouse does not take %s", r.ID)
			case bomb:
				panic("sim: " + r.ID.String())
			}
		}
		return s.Store.Insert(ctx, rows, took)
	})
}

func (s gatedWarehouse) Override(ctx context.Context, os []person.Override) error {
	return s.g.do(s.p, "override", "", func() error { return s.Store.Override(ctx, os) })
}

func (s gatedWarehouse) Warn(ctx context.Context, ws []warehouse.Warning) error {
	return s.g.do(s.p, "warn", "", func() error { return s.Store.Warn(ctx, ws) })
}

// gatedLetters are dead letters behind the gate.
type gatedLetters struct {
	deadletter.Store
	g *Gate
	p *process
}

func (s gatedLetters) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	return s.g.do(s.p, "put letters", letters[0].Message.ID, func() error { return s.Store.Put(ctx, letters) })
}

func (s gatedLetters) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) (has []bool, err error) {
	err = s.g.do(s.p, "has letters", ids[0], func() (err error) { has, err = s.Store.Has(ctx, pipeline, ids, marks); return err })
	return has, err
}

func (s gatedLetters) Replay(ctx context.Context, f deadletter.Filter) (n int, err error) {
	err = s.g.do(s.p, "replay", "", func() (err error) { n, err = s.Store.Replay(ctx, f); return err })
	return n, err
}

func (s gatedLetters) Open(pipeline string) tidemill.Source {
	return parkedSource{gatedSource{s.Store.Open(pipeline), "letters of " + pipeline, idleLetters(s.Store, pipeline), s.g, s.p}}
}

// gatedDefinitions are definitions behind the gate.
type gatedDefinitions struct {
	definition.Definitions
	g *Gate
	p *process
}

func (s gatedDefinitions) Upsert(ctx context.Context, b *definition.Batch) error {
	return s.g.do(s.p, "definitions", "", func() error { return s.Definitions.Upsert(ctx, b) })
}

// gatedLocks are locks behind the gate.
type gatedLocks struct {
	lock.Locks
	g *Gate
	p *process
}

func (s gatedLocks) Acquire(ctx context.Context, name string, d time.Duration) (h lock.Held, ok bool, err error) {
	err = s.g.do(s.p, "acquire", name, func() (err error) { h, ok, err = s.Locks.Acquire(ctx, name, d); return err })
	return h, ok && err == nil, err
}

func (s gatedLocks) Release(ctx context.Context, h lock.Held) error {
	return s.g.do(s.p, "release", h.Name, func() error { return s.Locks.Release(ctx, h) })
}
