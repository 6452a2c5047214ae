package analyticstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

var flushing = []promise{
	{name: "A12 a flush is at 1,000 events or after 5 seconds", reason: "large batches are what makes it fast, and nobody waits for more", holds: flushSize},
	{name: "A12 persons are written before events", reason: "a reader who sees the event finds the person", holds: personsFirst},
	{name: "A12 nothing is acked before it is durable", reason: "an ack is a promise", holds: ackedAfter},
	{name: "A13 a redelivered event shows once, and is delivered", reason: "delivery is at least once, its effect once", holds: redelivered},
	{name: "A13 a duplicate of another origin is skipped with its reason", reason: "books must tell a resend from a redelivery", holds: duplicates},
	{name: "A14 names and types are catalogued", reason: "people build queries from them", holds: catalogued},
	{name: "A14 of far more new names than may wait none is dropped, also in an outage", reason: "an import has every name once", holds: cataloguedWhole},
	{name: "A14 definitions that cannot be written fail no event, and are written later", reason: "a convenience must not cost data", holds: cataloguedLater},
	{name: "A14 what was not stored is not catalogued", reason: "a name nobody can query is noise", holds: notCatalogued},
}

func flushSize(b *bench) {
	var mu sync.Mutex
	type flush struct {
		size int
		at   time.Duration
	}
	var flushes []flush
	begun := time.Now()
	w := &events{inserting: func(_ context.Context, rows []*event.Event) error {
		mu.Lock()
		defer mu.Unlock()
		flushes = append(flushes, flush{len(rows), time.Since(begun)})
		return nil
	}}
	var ms []*tidemill.Message
	for i := range 2500 {
		ms = append(ms, entry("e", fmt.Sprint("u", i%20)))
	}
	b.put(ms...)
	s := b.start(analytics.Options{}, func(p *analytics.Parts) { w.Store, p.Warehouse = p.Warehouse, w })
	b.drained()
	s.stop()
	b.wantBooks(2500, 0, 0)
	mu.Lock()
	defer mu.Unlock()
	if len(flushes) != 3 || flushes[0].size != 1000 || flushes[1].size != 1000 || flushes[2].size != 500 {
		b.Fatalf("flushes are %v, want two of 1000 and one of 500", flushes)
	}
	slack := time.Second
	if !b.fake {
		slack = 20 * time.Second // other cases use the machine too
	}
	if flushes[1].at > slack || flushes[2].at < 5*time.Second || flushes[2].at > 5*time.Second+slack {
		b.Errorf("flushes are %v, want the full ones at once and the rest after 5 s", flushes)
	}
}

// order notes in which order two stores are written.
type order struct {
	mu    sync.Mutex // guards calls
	calls []string
}

func (o *order) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, what)
}

type noting struct {
	person.Store
	o *order
}

func (n noting) Apply(ctx context.Context, changes []person.Change) error {
	n.o.note("persons")
	return n.Store.Apply(ctx, changes)
}

func personsFirst(b *bench) {
	var o order
	b.put(entry("e", "u", "user_properties", `{"a":1}`))
	b.processWith(options(), func(p *analytics.Parts) {
		p.Persons = noting{p.Persons, &o}
		p.Warehouse = &events{Store: p.Warehouse, inserting: func(context.Context, []*event.Event) error { o.note("events"); return nil }}
	})
	if got := strings.Join(o.calls, ", "); got != "persons, events" {
		b.Errorf("written were %s", got)
	}
}

func ackedAfter(b *bench) {
	wait := make(chan struct{})
	w := &events{inserting: func(ctx context.Context, _ []*event.Event) error {
		select {
		case <-wait:
		case <-ctx.Done():
		}
		return ctx.Err()
	}}
	b.put(entry("e", "u"))
	s := b.start(options(), func(p *analytics.Parts) { w.Store, p.Warehouse = p.Warehouse, w })
	b.until("the person is stored", func() bool { return b.show("u") != nil })
	b.pass(20 * time.Millisecond)
	if books := b.books(); books.Pending != 1 || books.Settled.Total() != 0 {
		b.Errorf("before the event is durable the books are %+v", books)
	}
	close(wait)
	b.drained()
	s.stop()
	b.wantBooks(1, 0, 0)
}

func redelivered(b *bench) {
	b.put(entry("e", "anon", "event_id", uid(1), "user_properties", `{"n":1}`), identify("user", "anon"))
	for range 3 { // processes that end before they could report that it is done
		s := b.start(options(), func(p *analytics.Parts) {
			p.Source = &stream{source: p.Source.(source), settle: fault{err: errOutage, left: -1}}
		})
		b.until("they are stored", func() bool { return len(b.events()) >= 2 })
		b.pass(time.Minute)
		s.halt()
		b.pass(time.Minute)
	}
	b.process()
	b.wantBooks(2, 0, 0)
	if n := len(b.events()); n != 2 {
		b.Errorf("%d rows of 2 events", n)
	}
	if e := b.one("e"); e.Person != derived("user") || e.ID.String() != uid(1) {
		b.Errorf("the event is %v of %v", e.ID, e.Person)
	}
	b.has("user", map[string]string{"n": "1"})
}

func duplicates(b *bench) {
	var mu sync.Mutex
	reasons := map[string]int{}
	o := options()
	o.Settled = func(ends []tidemill.Settlement) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range ends {
			if e.Fate == tidemill.Skipped && e.Outcome == tidemill.Applied {
				reasons[e.Cause]++
			}
		}
	}
	b.put(entry("first", "u", "event_id", uid(1)), entry("same batch", "u", "event_id", uid(1)), entry("other", "u", "event_id", uid(2)))
	b.processWith(o, nil)
	b.put(entry("later", "u", "event_id", uid(1)))
	b.processWith(o, nil)
	b.wantBooks(2, 2, 0)
	if len(reasons) != 1 || reasons["duplicate"] != 2 {
		b.Errorf("skipped for %v, want 2 as duplicate", reasons)
	}
	if n := len(b.events()); n != 2 {
		b.Errorf("%d rows of 2 events", n)
	}
	b.one("first")
}

// catalogue is the definitions as sorted text, a line each.
func (b *bench) catalogue() (lines []string) {
	b.Helper()
	all, err := b.Definitions.List(b.Context(), Project.ID)
	b.must(err)
	for _, e := range all.Events {
		lines = append(lines, "event "+e.Name)
	}
	for _, p := range all.Properties {
		lines = append(lines, fmt.Sprintf("%s property %s %s", p.Of, p.Name, p.Type))
	}
	for _, p := range all.EventProperties {
		lines = append(lines, fmt.Sprintf("%s of %s %s", p.Property, p.Of, p.Event))
	}
	slices.Sort(lines)
	return lines
}

func catalogued(b *bench) {
	b.put(entry("pay", "u", "properties", `{"amount":12.5,"ok":true,"when":"2024-05-06T07:08:09Z","what":"tea","number":"42","utm_source":1,"list":[1],"later":null,"$groups":{},"$set":{"plan":"pro"}}`,
		"user_properties", `{"age":7}`),
		entry("pay", "u", "properties", `{"later":1}`), entry(strings.Repeat("x", 201), "u", "properties", `{"unseen":1}`),
		entry("visit", "u", "properties", fmt.Sprintf(`{%q:1,"amount":"a text"}`, strings.Repeat("y", 201))))
	b.process()
	want := []string{
		"event pay", "event visit",
		"event property properties.amount Numeric", "event property properties.later Numeric", "event property properties.list ", "event property properties.number Numeric", "event property properties.ok Boolean",
		"event property properties.utm_source String", "event property properties.what String", "event property properties.when DateTime",
		"person property user_properties.age Numeric", "person property user_properties.plan String",
		"user_properties.age of person pay", "properties.amount of event pay", "properties.amount of event visit", "properties.later of event pay", "properties.list of event pay", "properties.number of event pay", "properties.ok of event pay",
		"user_properties.plan of person pay", "properties.utm_source of event pay", "properties.what of event pay", "properties.when of event pay",
	}
	slices.Sort(want)
	if got := b.catalogue(); !slices.Equal(got, want) {
		b.Errorf("the catalogue is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	all, err := b.Definitions.List(b.Context(), Project.ID)
	b.must(err)
	for _, e := range all.Events {
		if e.LastSeen.Minute() != 0 || e.LastSeen.Second() != 0 || time.Since(e.LastSeen) > 2*time.Hour {
			b.Errorf("%s was last seen %v, want the hour of now", e.Name, e.LastSeen)
		}
	}
}

func cataloguedLater(b *bench) {
	c := &catalogue{}
	c.upsert.fail(-1, errOutage)
	s := b.start(options(), func(p *analytics.Parts) { c.Definitions, p.Definitions = p.Definitions, c })
	for i := range 50 {
		b.put(entry(fmt.Sprint("e", i), "u", "properties", `{"a":1}`))
	}
	b.drained()
	b.wantBooks(50, 0, 0)
	b.until("it was tried three times", func() bool { return c.upsert.called() >= 3 })
	if n := len(b.catalogue()); n > 0 {
		b.Errorf("%d definitions in the outage", n)
	}
	c.upsert.heal()
	b.until("definitions are there", func() bool { return len(b.catalogue()) == 101 })
	s.stop()
}

// cataloguedWhole imports 60 events with 500 properties each, all with different names: 60,060
// definitions, three times what may wait to be written.
func cataloguedWhole(b *bench) {
	const events, wide = 60, 500
	c := &catalogue{}
	c.upsert.fail(-1, errOutage)
	s := b.start(options(), func(p *analytics.Parts) { c.Definitions, p.Definitions = p.Definitions, c })
	for i := range events {
		var bag strings.Builder
		for n := range wide {
			fmt.Fprintf(&bag, `%c"p%d_%d":1`, "{,"[min(n, 1)], i, n)
		}
		b.put(entry(fmt.Sprint("e", i), "u", "properties", bag.String()+"}"))
	}
	b.until("names are tried to be written", func() bool { return c.upsert.called() >= 5 })
	c.upsert.heal()
	b.drained()
	b.until("all names are there", func() bool { return len(b.catalogue()) == events+2*events*wide })
	s.stop()
	b.wantBooks(events, 0, 0)
}

func notCatalogued(b *bench) {
	b.put(entry("refused", "guest"), entry("stored", "u"))
	b.process()
	if got := b.catalogue(); !slices.Equal(got, []string{"event stored"}) {
		b.Errorf("the catalogue is %q", got)
	}
}
