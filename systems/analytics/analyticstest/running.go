package analyticstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

var running = []promise{
	{name: "A16 an idle pipeline turns, and so does a paused one", reason: "a probe must not kill who has nothing to do", holds: idleTurns},
	{name: "A16 a pipeline that is stuck does not turn", reason: "a probe must kill who will never go on", holds: stuckDoesNot},
	{name: "A16 100 errors in a row end it", reason: "a new process on another machine may fare better", holds: tooManyErrors},
	{name: "A16 only work that was done ends a row of errors", reason: "an empty read proves nothing", holds: emptyReads},
	{name: "A17 what is held is bounded whatever the backlog", reason: "memory is", holds: bounded},
	{name: "A18 a stop in the middle of a flush waits for it", reason: "what was begun is finished", holds: stopsInAFlush},
	{name: "A18 stops at any moment lose nothing, and store nothing twice", reason: "every release is a restart", holds: stopsAnywhere},
	{name: "A18 one step of a stop that fails does not stop the next", reason: "each has something to save", holds: stepsOfAStop},
	{name: "A18 stops while the warehouse is away lose nothing", reason: "that is when people restart things", holds: stopsInAnOutage},
}

func idleTurns(b *bench) {
	s := b.start(options(), nil)
	turned := func(what string) {
		b.Helper()
		b.pass(10 * time.Minute)
		if ago := time.Since(s.Pipeline.Stats().Turned); ago > 15*time.Second {
			b.Errorf("%s it turned %v ago", what, ago)
		}
	}
	turned("idle")
	b.must(s.Pause())
	b.put(entry("e", "u"))
	turned("paused")
	if n := len(b.events()); n != 0 {
		b.Errorf("%d events were processed while paused", n)
	}
	b.must(s.Resume())
	b.drained()
	s.stop()
	b.wantBooks(1, 0, 0)
}

func stuckDoesNot(b *bench) {
	w := &events{inserting: func(ctx context.Context, _ []*event.Event) error { <-ctx.Done(); return ctx.Err() }}
	o := options()
	o.Batch, o.InFlight = 5, 10
	for range 50 {
		b.put(entry("e", "u"))
	}
	s := b.startWith(o, w)
	b.pass(10 * time.Minute)
	if ago := time.Since(s.Pipeline.Stats().Turned); ago < b.of(5*time.Minute) {
		b.Errorf("it turned %v ago, and was stuck for ten minutes", ago)
	}
	s.halt()
	b.process()
	b.wantBooks(50, 0, 0)
}

func tooManyErrors(b *bench) {
	if !b.fake {
		b.Skip("a hundred pauses take six minutes, and no server has a part in them")
	}
	var src *stream
	s := b.start(options(), func(p *analytics.Parts) {
		src = &stream{source: p.Source.(source), receive: fault{err: errOutage, left: -1}}
		p.Source = src
	})
	begun := time.Now()
	s.ends()
	if !errors.Is(s.err, flow.ErrTooManyErrors) || !errors.Is(s.err, errOutage) {
		b.Errorf("it ended with %v", s.err)
	}
	if !strings.Contains(s.err.Error(), "(100)") {
		b.Errorf("it ended with %v, want 100 errors", s.err)
	}
	if n := src.receive.called(); n != 100 {
		b.Errorf("it ended after %d errors of reads, want 100", n)
	}
	if took := time.Since(begun); took < time.Minute {
		b.Errorf("100 errors in %v: it does not wait between them", took)
	}
}

// flickering is a source whose every second read fails, while the others are empty until
// something comes.
type flickering struct {
	source
	reads, wrong int
	works        func() bool // reads pass now and then
}

func (f *flickering) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	f.reads++
	if f.works() && f.reads%60 == 0 {
		return f.source.Receive(ctx, into)
	}
	if f.reads%2 == 0 {
		return 0, nil
	}
	f.wrong++
	return 0, errOutage
}

func emptyReads(b *bench) {
	var src *flickering
	s := b.start(options(), func(p *analytics.Parts) {
		src = &flickering{source: p.Source.(source), works: func() bool { return false }}
		p.Source = src
	})
	s.ends()
	if !errors.Is(s.err, flow.ErrTooManyErrors) || src.wrong != 100 {
		b.Errorf("it ended with %v after %d errors", s.err, src.wrong)
	}
	o := options()
	o.InFlight, o.Batch = 1, 1
	for range 20 {
		b.put(entry("e", "u"))
	}
	src = nil
	s = b.start(o, func(p *analytics.Parts) {
		src = &flickering{source: p.Source.(source), works: func() bool { return true }}
		p.Source = src
	})
	b.drained() // 20 × 30 errors, and work done between
	s.halt()
	if errors.Is(s.err, flow.ErrTooManyErrors) || src.wrong < 200 {
		b.Errorf("it ended with %v after %d errors that were not in a row", s.err, src.wrong)
	}
	b.wantBooks(20, 0, 0)
}

func bounded(b *bench) {
	var ms []*tidemill.Message
	for i := range 10_000 {
		ms = append(ms, entry("e", fmt.Sprint("u", i%100)))
	}
	b.put(ms...)
	wait := make(chan struct{})
	w := &events{inserting: func(ctx context.Context, _ []*event.Event) error {
		select {
		case <-wait:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	s := b.startWith(analytics.Options{}, w)
	b.pass(5 * time.Minute)
	st := s.Pipeline.Stats()
	if st.Received > 3000 || st.InFlight > 3000 || st.Received < 2000 {
		b.Errorf("%d were read and %d are held while nothing can be written; want 2,000 and a flush", st.Received, st.InFlight)
	}
	if q := b.books(); q.Pending != 10_000 {
		b.Errorf("%d are pending", q.Pending)
	}
	close(wait)
	b.drained()
	s.stop()
	b.wantBooks(10_000, 0, 0)
}

func stopsInAFlush(b *bench) {
	begun, wait := make(chan struct{}, 1), make(chan struct{})
	w := &events{inserting: func(ctx context.Context, _ []*event.Event) error {
		begun <- struct{}{}
		select {
		case <-wait:
		case <-ctx.Done():
		}
		return ctx.Err()
	}}
	b.put(entry("e", "u"), entry("refused", "guest"))
	s := b.startWith(options(), w)
	<-begun
	s.cancel()
	b.pass(50 * time.Millisecond)
	select {
	case <-s.ended:
		b.Error("it did not wait for the flush")
	default:
	}
	close(wait)
	s.stop()
	b.wantBooks(1, 0, 1)
	if n := len(b.catalogue()); n != 1 || len(b.warnings("illegal_distinct_id")) != 1 {
		b.Errorf("after the stop there are %d definitions and warnings %v", n, b.warnings("illegal_distinct_id"))
	}
}

func stopsAnywhere(b *bench) {
	rnd := rand.New(rand.NewPCG(18, 18))
	const total = 600
	sent := 0
	for round := 0; round < 25 || sent < total; round++ {
		n := min(rnd.IntN(60), total-sent)
		for range n {
			b.put(entry(fmt.Sprint("e", sent), fmt.Sprint("anon", sent%20), "user_properties", fmt.Sprintf(`{"p%d":1}`, sent/20)))
			sent++
		}
		if round == 10 {
			for i := range 20 {
				b.put(identify(fmt.Sprint("user", i), fmt.Sprint("anon", i)))
			}
		}
		o := options()
		o.Batch, o.Lanes = 1+rnd.IntN(30), 1+rnd.IntN(2)
		s := b.start(o, nil)
		b.pass(time.Duration(rnd.IntN(int(8 * time.Millisecond))))
		s.stop()
		if b.Reopen != nil && round%3 == 0 {
			b.Harness = b.Reopen()
		}
	}
	b.process()
	b.wantBooks(total+20, 0, 0)
	for i := range total {
		if e := b.one(fmt.Sprint("e", i)); e.Person != derived(fmt.Sprint("user", i%20)) {
			b.Errorf("e%d belongs to %v", i, e.Person)
		}
	}
	for i := range 20 {
		if n := len(b.somebody(fmt.Sprint("anon", i)).Properties); n != total/20 {
			b.Errorf("user%d has %d properties, want %d", i, n, total/20)
		}
	}
}

func stepsOfAStop(b *bench) {
	c := &catalogue{}
	c.upsert.fail(-1, errOutage)
	o := options()
	b.put(entry("e", "u"), entry("refused", "guest"))
	s := b.start(o, func(p *analytics.Parts) { c.Definitions, p.Definitions = p.Definitions, c })
	b.drained()
	s.halt()
	if !errors.Is(s.err, errOutage) {
		b.Errorf("it ended with %v, and said nothing of the definitions", s.err)
	}
	if n := len(b.warnings("illegal_distinct_id")); n != 1 {
		b.Errorf("%d warnings were saved, want 1", n)
	}
	b.wantBooks(1, 0, 1)
}

func stopsInAnOutage(b *bench) {
	for i := range 200 {
		b.put(entry(fmt.Sprint("e", i), "u"))
	}
	o := options()
	o.Batch, o.InFlight = 200, 200
	for range 5 {
		w := &events{}
		w.insert.fail(-1, errOutage)
		s := b.startWith(o, w)
		b.pass(500 * time.Millisecond) // between the first try and the second
		s.halt()
	}
	b.process()
	b.replay(nil)
	if n := len(b.events()); n != 200 {
		b.Errorf("%d rows of 200 events", n)
	}
	b.balanced()
}
