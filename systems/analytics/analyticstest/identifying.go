package analyticstest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics"
)

var identifying = []promise{
	{name: "A4 the persons of a batch are asked for at once", reason: "a round trip for each event would be the end of speed", holds: askedAtOnce},
	{name: "A5 a person's id is the UUIDv5 of project and distinct id", reason: "it must be the same on every machine, for ever", holds: checkValue},
	{name: "A5 one distinct id that cannot be resolved holds up no other", reason: "a failing group must not fail the batch", holds: oneGroupFails},
	{name: "A5 what cannot be resolved comes again, and is dead after so many times", reason: "nothing circles for ever, and nothing dies of a short outage", holds: comesAgain},
	{name: "A5 persons that are away for an hour kill no event", reason: "in a long outage events wait in the stream, not in dead letters", holds: personsAwayForAnHour},
}

func askedAtOnce(b *bench) {
	for i := range 60 {
		b.put(entry("e", fmt.Sprint("u", i%7)))
	}
	ps := &persons{}
	o := options()
	o.Age = time.Second // all are one batch
	b.processWith(o, func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	if n := ps.resolve.called(); n != 1 {
		b.Errorf("persons were asked %d times for one batch", n)
	}
}

func checkValue(b *bench) {
	b.put(entry("e", "fixture"))
	b.process()
	want := uuid.MustParse("857a5cfd-7172-5851-8048-0530d6e898c0")
	if got := b.one("e").Person; got != want {
		b.Errorf("the event belongs to %v, want %v", got, want)
	}
	if got := b.somebody("fixture"); got.ID != want || len(got.Distinct) != 1 || got.Identified {
		b.Errorf("the person is %+v", got)
	}
}

// partly is persons, one of whom cannot be resolved for a while.
type partly struct {
	person.Store
	mu   sync.Mutex // guards left
	who  string
	left int // times
}

func (p *partly) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Store.Resolve(ctx, refs, into); err != nil {
		return err
	}
	var failed tidemill.Partial
	for i := range refs {
		if refs[i].Distinct == p.who && p.left > 0 {
			into[i] = uuid.Nil
			failed.Failed = append(failed.Failed, tidemill.Failed{Index: i, Err: errOutage})
		}
	}
	if len(failed.Failed) > 0 {
		p.left--
		return &failed
	}
	return nil
}

func oneGroupFails(b *bench) {
	b.put(entry("bad 1", "bad"), entry("good 1", "good"), entry("bad 2", "bad"), entry("good 2", "good"))
	ps := &partly{who: "bad", left: 2}
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.until("the others are stored", func() bool { return len(b.events()) == 2 })
	b.one("good 1")
	b.one("good 2")
	b.drained()
	s.stop()
	b.wantBooks(4, 0, 0)
	for _, e := range b.events() {
		if e.Person != derived(e.DistinctID) {
			b.Errorf("%s belongs to %v", e.Name, e.Person)
		}
	}
}

func comesAgain(b *bench) {
	ps := &persons{}
	change := func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps }
	o := options()
	o.Handouts = 4
	b.put(entry("lucky", "u"))
	ps.resolve.fail(2, errOutage)
	b.processWith(o, change)
	b.wantBooks(1, 0, 0)

	never := &partly{who: "v", left: 1 << 30}
	b.put(entry("never", "v"))
	b.processWith(o, func(p *analytics.Parts) { never.Store, p.Persons = p.Persons, never })
	b.wantBooks(1, 0, 1)
	if l := b.letter(); l.Kind != tidemill.Transient || l.Handed != 4 {
		b.Errorf("the letter's kind is %v after %d hand-outs (%s); want transient, which is replayed by itself, after 4", l.Kind, l.Handed, l.Cause)
	}
}

func personsAwayForAnHour(b *bench) {
	for i := range 500 {
		b.put(entry("e", fmt.Sprint("u", i)))
	}
	ps := &persons{}
	ps.resolve.fail(-1, errOutage)
	o := options()
	o.InFlight, o.Handouts = 200, 10
	s := b.start(o, func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.pass(time.Hour)
	if books := b.books(); books.Settled.Total() != 0 {
		b.Errorf("after an hour without persons %+v have ended; want none", books.Settled)
	}
	if n := ps.resolve.called(); n > 1000 {
		b.Errorf("persons were asked %d times in an hour of outage", n)
	}
	ps.resolve.heal()
	b.drained()
	s.stop()
	b.wantBooks(500, 0, 0)
}
