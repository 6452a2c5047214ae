// What the checkers find needs no race detector: make sim runs these.

//go:build !race

package sim

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// The bugs below are the classic ones. Each is planted by itself, and the checker must
// find it: a checker that finds nothing proves nothing.

type ackBeforeDurable struct{ queue.Intake }

func (q ackBeforeDurable) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if q.Intake.Add(ctx, jobs, added) != nil { // the client was told before
		for i := range added {
			added[i] = queue.New
		}
	}
	return nil
}

type settleBeforeWrite struct{ warehouse.Store }

func (s settleBeforeWrite) Insert(ctx context.Context, rows []*event.Event, took []warehouse.Outcome) error {
	if err := s.Store.Insert(ctx, rows, took); err != nil && tidemill.KindOf(err) == tidemill.Transient {
		for i := range took {
			took[i] = warehouse.Stored
		}
	}
	return nil
}

type dropOnDeadLetterError struct{ deadletter.Store }

func (s dropOnDeadLetterError) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	_ = s.Store.Put(ctx, letters)
	return nil
}

type lostMerge struct{ person.Store }

func (s lostMerge) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	if s.Store.Merge(ctx, merges, outcomes) != nil {
		for i := range outcomes {
			outcomes[i] = person.Merged
		}
	}
	return nil
}

type lostProperties struct{ person.Store }

func (s lostProperties) Apply(ctx context.Context, changes []person.Change) error {
	_ = s.Store.Apply(ctx, changes)
	return nil
}

// arrivalWins orders events by their arrival.
type arrivalWins struct {
	person.Store
	clock *arrivals
}

type arrivals struct {
	mu sync.Mutex
	n  int64
}

func (s arrivalWins) Apply(ctx context.Context, changes []person.Change) error {
	s.clock.mu.Lock()
	late := make([]person.Change, len(changes))
	for i, c := range changes {
		s.clock.n++
		c.At = epoch.Add(-1<<40 + 1000*1000*1000) // the same for all, so that the tie decides
		c.Event = uuid.UUID{8: byte(s.clock.n >> 16), 9: byte(s.clock.n >> 8), 10: byte(s.clock.n)}
		late[i] = c
	}
	s.clock.mu.Unlock()
	return s.Store.Apply(ctx, late)
}

// movedByLatency treats latency and retries as a slow clock.
type movedByLatency struct{ queue.Intake }

func (q movedByLatency) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	sent, _ := ctx.Value(sentKey{}).(time.Time)
	for _, j := range jobs {
		if m, err := event.ParseMeta(j.Get(event.MetaHeader)); err == nil {
			m.At = m.At.Add(m.Received.Sub(sent).Truncate(time.Millisecond))
			j.Header[0].Value = m.Append(nil)
		}
	}
	return q.Intake.Add(ctx, jobs, added)
}

// idsDecide ignores the positions in a request.
type idsDecide struct{ person.Store }

func (s idsDecide) Apply(ctx context.Context, changes []person.Change) error {
	for i := range changes {
		changes[i].Order = 0
	}
	return s.Store.Apply(ctx, changes)
}

// youngestFirst hands out each batch in reverse.
type youngestFirst struct {
	tidemill.Source
	tidemill.Keeper
	tidemill.Gater
	tidemill.Bookkeeper
}

func (s youngestFirst) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := s.Source.Receive(ctx, into)
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		*into[i], *into[j] = *into[j], *into[i]
	}
	return n, err
}

type relayedTooSoon struct{ person.Store }

func (s relayedTooSoon) Overrides(ctx context.Context, most int) ([]person.Override, error) {
	os, err := s.Store.Overrides(ctx, most)
	if err == nil && len(os) > 0 {
		_ = s.Store.Relayed(ctx, os[len(os)-1].Seq)
	}
	return os, err
}

type keptMergesForgotten struct{ person.Store }

func (s keptMergesForgotten) Keep(context.Context, []person.Merge) error { return nil }

// skipsOnError skips events that failed.
type skipsOnError struct {
	tidemill.Source
	tidemill.Keeper
	tidemill.Gater
	tidemill.Bookkeeper
}

func (s skipsOnError) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		if e := &ends[i]; e.End == tidemill.Again || e.End == tidemill.Left {
			e.End, e.Fate = tidemill.Done, tidemill.Skipped
		}
	}
	return s.Source.Settle(ctx, ends)
}

// partlyWritten writes the first of a batch and reports all as written.
type partlyWritten struct{ warehouse.Store }

func (s partlyWritten) Insert(ctx context.Context, rows []*event.Event, took []warehouse.Outcome) error {
	if len(rows) < 5 {
		return s.Store.Insert(ctx, rows, took)
	}
	if err := s.Store.Insert(ctx, rows[:len(rows)-1], took[:len(rows)-1]); err != nil {
		return err
	}
	took[len(rows)-1] = warehouse.Stored
	return nil
}

// payloadChanged decodes and encodes payloads again on the way to the dead letters.
type payloadChanged struct{ deadletter.Store }

func (s payloadChanged) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	for _, l := range letters {
		l.Message.Payload = []byte(string([]rune(string(l.Message.Payload)))) // invalid UTF-8 becomes U+FFFD
	}
	return s.Store.Put(ctx, letters)
}

// seenIsDone treats an event that it has seen as durable.
type seenIsDone struct {
	queue.Intake
	seen *sync.Map
}

func (q seenIsDone) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	var fresh []*tidemill.Message
	for i, j := range jobs {
		if _, known := q.seen.LoadOrStore(j.Tenant+j.ID, true); known {
			added[i] = queue.Known
			continue
		}
		added[i] = queue.New
		fresh = append(fresh, j)
	}
	if len(fresh) == 0 {
		return nil
	}
	return q.Intake.Add(ctx, fresh, make([]queue.Added, len(fresh)))
}

func TestTheCheckerFindsPlantedBugs(t *testing.T) {
	with := analyticsWith
	findBugs(t, 2000, []planted{
		{"acknowledged before it is durable", with(func(p *Parts) { p.Intake = ackBeforeDurable{p.Intake} })},
		{"settled although the write failed", with(func(p *Parts) { p.Warehouse = settleBeforeWrite{p.Warehouse} })},
		{"dropped when the dead letters fail", with(func(p *Parts) { p.DeadLetters = dropOnDeadLetterError{p.DeadLetters} })},
		{"a merge is lost when it fails", with(func(p *Parts) { p.Persons = lostMerge{p.Persons} })},
		{"properties are lost when the write fails", with(func(p *Parts) { p.Persons = lostProperties{p.Persons} })},
		{"the order of arrival decides", func(seed uint64) scene {
			clock := new(arrivals)
			return newWorld(seed, func(p *Parts) { p.Persons = arrivalWins{p.Persons, clock} })
		}},
		{"latency and retries move times", with(func(p *Parts) { p.Intake = movedByLatency{p.Intake} })},
		{"of equal times the id decides", with(func(p *Parts) { p.Persons = idsDecide{p.Persons} })},
		{"claims are not in the order of acknowledgement", with(func(p *Parts) {
			p.Source = youngestFirst{p.Source, p.Source.(tidemill.Keeper), p.Source.(tidemill.Gater), p.Source.(tidemill.Bookkeeper)}
		})},
		{"the outbox is emptied before it is copied", with(func(p *Parts) { p.Persons = relayedTooSoon{p.Persons} })},
		{"failed merges are not kept", with(func(p *Parts) { p.Persons = keptMergesForgotten{p.Persons} })},
		{"what failed is skipped", with(func(p *Parts) {
			p.Source = skipsOnError{p.Source, p.Source.(tidemill.Keeper), p.Source.(tidemill.Gater), p.Source.(tidemill.Bookkeeper)}
		})},
		{"a batch is written in part", with(func(p *Parts) { p.Warehouse = partlyWritten{p.Warehouse} })},
		{"dead letters are decoded and encoded again", with(func(p *Parts) { p.DeadLetters = payloadChanged{p.DeadLetters} })},
		{"de-duplicated when seen, not when durable", func(seed uint64) scene {
			seen := new(sync.Map)
			return newWorld(seed, func(p *Parts) { p.Intake = seenIsDone{p.Intake, seen} })
		}},
	})
}
