package analyticstest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

var outages = []promise{
	{name: "A12 a warehouse that fails twice costs nothing but time", reason: "most outages are short", holds: failsTwice},
	{name: "A12 events that fail three times are dead, with the finished row", reason: "they must not hold up those behind them", holds: failsThrice},
	{name: "A12 persons that fail three times make dead letters, and a replay loses no property", reason: "persons first: without them the event is not stored", holds: personsFail},
	{name: "A12 one row that the warehouse refuses does not take its batch along", reason: "one bad event never stops the others", holds: oneRowRefused},
	{name: "A12 after five failed flushes reading pauses until the warehouse is back", reason: "in a long outage events wait in the stream, not in dead letters", holds: longOutage},
	{name: "A12 while dead letters cannot be written nothing is acked", reason: "what is neither here nor there is lost", holds: deadLettersFail},
	{name: "A15 full dead letters pause flushing with an alarm", reason: "nothing is cut off", holds: deadLettersFull},
}

func (b *bench) startWith(o analytics.Options, w *events) *system {
	b.Helper()
	return b.start(o, func(p *analytics.Parts) { w.Store, p.Warehouse = p.Warehouse, w })
}

func failsTwice(b *bench) {
	w := &events{}
	w.insert.fail(2, errOutage)
	b.put(entry("e", "u"))
	begun := time.Now()
	s := b.startWith(options(), w)
	b.drained()
	if took := time.Since(begun); took < 3*time.Second || took > 10*time.Second {
		b.Errorf("three tries took %v, want 1 s and 2 s between them, and chance", took)
	}
	s.stop()
	b.wantBooks(1, 0, 0)
	if n := w.insert.called(); n != 3 || len(b.letters()) > 0 {
		b.Errorf("%d tries, %d letters; want 3 and none", n, len(b.letters()))
	}
}

func failsThrice(b *bench) {
	w := &events{}
	w.insert.fail(3, errOutage)
	b.put(entry("e", "u", "properties", `{"a":1}`), entry("f", "v"))
	s := b.startWith(options(), w)
	b.drained()
	b.put(entry("behind", "u"))
	b.drained()
	s.stop()
	b.wantBooks(1, 0, 2)
	if got := b.catalogue(); !slices.Equal(got, []string{"event behind"}) {
		b.Errorf("the catalogue is %q; want nothing of what is not stored", got)
	}
	for _, l := range b.letters() {
		var e event.Event
		if err := event.ParseRow(l.Row, &e); err != nil || e.Name == "" || e.Person != derived(e.DistinctID) {
			b.Errorf("letter %s has the row %s: %v", l.ID, l.Row, err)
		}
		if l.Kind != tidemill.Transient || len(l.History) != 1 || l.History[0].Tries != 3 {
			b.Errorf("letter %s is of kind %v with the history %+v; want transient after 3 tries", l.ID, l.Kind, l.History)
		}
	}
}

// replayAll replays every dead letter by hand.
func (b *bench) replayAll() {
	b.Helper()
	_, err := b.Letters.Replay(b.Context(), deadletter.Filter{Pipeline: analytics.Name})
	b.must(err)
}

// replayed waits until no dead letter is being replayed.
func (b *bench) replayed() {
	b.Helper()
	b.until("no letter is being replayed", func() bool {
		for _, l := range b.letters() {
			if l.State == deadletter.Replaying {
				return false
			}
		}
		return true
	})
}

func personsFail(b *bench) {
	ps := &persons{}
	ps.apply.fail(3, errOutage)
	b.put(set("u", 1, `{"a":1}`), set("u", 2, `{"b":2}`), entry("e", "v"))
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.drained()
	b.wantBooks(0, 0, 3)
	if len(b.events()) > 0 {
		b.Errorf("events were stored though their persons are not: %v", ids(b.events()))
	}
	for _, l := range b.letters() {
		if l.Row == nil {
			b.Errorf("letter %s has no row", l.ID)
		}
	}
	b.put(set("u", 3, `{"c":3}`))
	b.drained()
	b.has("u", map[string]string{"c": "3"})
	b.replayAll()
	b.replayed()
	s.stop()
	b.has("u", map[string]string{"a": "1", "b": "2", "c": "3"})
	if n := len(b.events()); n != 4 {
		b.Errorf("%d rows, want 4", n)
	}
	b.balanced()
}

func oneRowRefused(b *bench) {
	for i := range 40 {
		b.put(entry(fmt.Sprint("e", i), "u"))
	}
	w := &events{inserting: func(_ context.Context, rows []*event.Event) error {
		for _, e := range rows {
			if e.Name == "e17" {
				return tidemill.Fail(tidemill.Business, "column too small")
			}
		}
		return nil
	}}
	s := b.startWith(options(), w)
	b.drained()
	s.stop()
	b.wantBooks(39, 0, 1)
	if l := b.letter(); l.Kind != tidemill.Business || l.Row == nil {
		b.Errorf("the letter is of kind %v, its row %s", l.Kind, l.Row)
	}
}

func longOutage(b *bench) {
	const total, batch = 2000, 20
	for i := range total {
		b.put(entry("e", fmt.Sprint("u", i%50)))
	}
	w := &events{}
	w.insert.fail(-1, errOutage)
	o := options()
	o.Batch, o.InFlight, o.Handouts, o.Replay = batch, 2*batch, 5, b.of(5*time.Minute)
	s := b.startWith(o, w)
	b.pass(45 * time.Minute)
	if !b.fake {
		b.until("the breaker is open", func() bool { return s.Pipeline.Stats().Breaker == policy.Open })
	}
	if st := s.Pipeline.Stats(); st.Breaker == policy.Closed {
		b.Errorf("the breaker is closed after 45 minutes of outage")
	}
	books := b.books()
	if books.Settled.Dead > 5*batch || books.Settled.Delivered > 0 {
		b.Errorf("in the outage %+v have ended, want at most five flushes of %d dead", books.Settled, batch)
	}
	if n := w.insert.called(); n > 45*60/10 {
		b.Errorf("the warehouse was asked %d times in the outage", n)
	}
	w.insert.heal()
	b.drained()
	b.until("the letters of the outage are replayed by themselves", func() bool { return len(b.letters()) == 0 })
	s.stop()
	if n := len(b.events()); n != total {
		b.Errorf("%d rows of %d events", n, total)
	}
	if a := b.balanced(); a.Delivered+a.Letters.Replayed != total {
		b.Errorf("the books say %+v", a)
	}
}

func deadLettersFail(b *bench) {
	w, d := &events{}, &dead{}
	w.insert.fail(-1, errOutage)
	d.put.fail(-1, errOutage)
	b.put(entry("e", "u"), entry("f", "v"))
	s := b.start(options(), func(p *analytics.Parts) {
		w.Store, p.Warehouse = p.Warehouse, w
		d.Store, p.DeadLetters = p.DeadLetters, d
	})
	b.pass(2 * time.Minute)
	if books := b.books(); books.Pending != 2 || books.Settled.Total() != 0 {
		b.Errorf("with nowhere to go the books are %+v", books)
	}
	d.put.heal()
	b.drained()
	s.stop()
	b.wantBooks(0, 0, 2)
}

func deadLettersFull(b *bench) {
	w, d := &events{}, &dead{}
	w.insert.fail(3, errOutage)
	d.put.fail(-1, deadletter.Full(analytics.Name, 1, 100_000, 100_000))
	b.put(entry("e", "u"))
	s := b.start(options(), func(p *analytics.Parts) {
		w.Store, p.Warehouse = p.Warehouse, w
		d.Store, p.DeadLetters = p.DeadLetters, d
	})
	b.pass(2 * time.Minute)
	for i := range 30 {
		b.put(entry(fmt.Sprint("behind", i), "u"))
	}
	b.pass(20 * time.Minute) // an operator takes his time
	if books := b.books(); books.Settled.Total() != 0 {
		b.Errorf("with full dead letters the books are %+v, want everything pending", books)
	}
	if !b.log.alarmed(slog.LevelWarn, "dead letters are full") {
		b.Error("nobody was alarmed")
	}
	d.put.heal()
	b.drained()
	s.stop()
	b.wantBooks(30, 0, 1)
}
