package analyticstest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
)

var letters = []promise{
	{name: "A15 a letter has the entry as received, the reason, the tries and the finished row", reason: "a person must see what it was and why it failed", holds: letterHas},
	{name: "A15 a replay stores the event once, and ends the letter", reason: "that is what letters are kept for", holds: replayDelivers},
	{name: "A15 a replayed row is not enriched again", reason: "databases change, the event happened then", holds: notEnrichedAgain},
	{name: "A15 a replayed event follows merges made since", reason: "its person may be gone by now", holds: replayFollows},
	{name: "A15 a replay applies properties and definitions too", reason: "it is the whole way again", holds: replayWhole},
	{name: "A15 a letter with a damaged row is worked out from the entry", reason: "what was received is still there", holds: damagedRow},
	{name: "A15 a refusal that is replayed by hand and still wrong is held again, with its history", reason: "nothing vanishes by being replayed", holds: refusedAgain},
	{name: "A15 a project made later lets its refused events be replayed", reason: "that is what a replay by hand is for", holds: projectLater},
	{name: "A15 a row in an entry from outside is not believed", reason: "only our own letters hold finished rows", holds: rowFromOutside},
}

// dieAtTheWarehouse makes events die there, and returns once they have.
func (b *bench) dieAtTheWarehouse(change func(*analytics.Parts), ms ...*tidemill.Message) {
	b.Helper()
	before := len(b.letters())
	b.put(ms...)
	w := &events{}
	w.insert.fail(3, errOutage)
	o := options()
	o.Age = 50 * time.Millisecond // one flush
	s := b.start(o, func(p *analytics.Parts) {
		if change != nil {
			change(p)
		}
		w.Store, p.Warehouse = p.Warehouse, w
	})
	b.drained()
	s.stop()
	if n := len(b.letters()) - before; n != len(ms) {
		b.Fatalf("%d letters of %d entries\n%s", n, len(ms), b.log.String())
	}
}

// replay replays every dead letter in its own process.
func (b *bench) replay(change func(*analytics.Parts)) {
	b.Helper()
	b.replayAll()
	s := b.start(options(), change)
	b.replayed()
	s.stop()
}

func letterHas(b *bench) {
	m := entry("pay", "u", everything...)
	b.dieAtTheWarehouse(nil, m)
	l := b.letter()
	if len(l.Header) != len(m.Header) || !bytes.Equal(l.Payload, m.Payload) || l.ID != m.ID {
		b.Errorf("the entry was\n%v\nthe letter has\n%v", m.Header, l.Header)
	}
	for _, f := range m.Header {
		if !bytes.Equal(l.Get(string(f.Name)), f.Value) {
			b.Errorf("the letter has %s %q, received was %q", f.Name, l.Get(string(f.Name)), f.Value)
		}
	}
	if l.Pipeline != analytics.Name || l.Kind != tidemill.Transient || l.Cause == "" || l.First.IsZero() || l.State != deadletter.Held ||
		len(l.History) != 1 || l.History[0].Tries != 3 || l.Replays != 0 {
		b.Errorf("the letter is %+v", l)
	}
	b.replay(nil)
	direct := *m
	direct.ID = "direct"
	direct.Header = entry("pay", "u", append(append([]string{}, everything...), "event_id", uid(2))...).Header
	b.put(&direct)
	b.process()
	rows := b.events()
	if len(rows) != 2 {
		b.Fatalf("%d rows, want the replayed and the direct one", len(rows))
	}
	for i := range rows { // what differs
		rows[i].ID, rows[i].Origin, rows[i].Order, rows[i].IngestedAt = rows[0].ID, 0, 0, time.Time{}
	}
	if got, want := string(rows[0].AppendJSON(nil)), string(rows[1].AppendJSON(nil)); got != want {
		b.Errorf("the replayed row is\n%s\nwithout an outage it is\n%s", got, want)
	}
}

func replayDelivers(b *bench) {
	b.dieAtTheWarehouse(nil, entry("e", "u"), entry("f", "v", "event_id", uid(1)), entry("again", "v", "event_id", uid(1)))
	b.replay(nil)
	if n := len(b.letters()); n != 0 {
		b.Errorf("%d letters are left", n)
	}
	if n := len(b.events()); n != 2 {
		b.Errorf("%d rows of 2 events", n)
	}
	if a := b.balanced(); a.Dead != 3 || a.Letters.Put != 3 || a.Letters.Replayed != 2 || a.Letters.Discarded != 1 || a.Letters.Held != 0 {
		b.Errorf("the books say %+v; want 3 dead, 2 of them replayed, a duplicate skipped", a)
	}
}

func notEnrichedAgain(b *bench) {
	as := func(a enrich.Agent, country string) func(*analytics.Parts) {
		return func(p *analytics.Parts) {
			p.Agent = func(string) enrich.Agent { return a }
			p.Country = func(string) string { return country }
		}
	}
	then := as(enrich.Agent{Browser: "then"}, "")
	b.dieAtTheWarehouse(then, entry("e", "u", "user_agent", "x", "ip", "9.9.9.9"))

	ps := &persons{}
	ps.apply.fail(3, errOutage)
	b.put(entry("f", "u", "user_agent", "x", "ip", "9.9.9.9", "user_properties", `{"a":1}`))
	s := b.start(options(), func(p *analytics.Parts) {
		then(p)
		ps.Store, p.Persons = p.Persons, ps
	})
	b.drained()
	s.stop()
	b.replay(as(enrich.Agent{Browser: "now", OS: "now"}, "DE"))
	for _, name := range []string{"e", "f"} {
		if e := b.one(name); e.Browser != "then" || e.OS != "" || e.Country != "" {
			b.Errorf("%s was replayed with browser %q, system %q and country %q; want what was known then", name, e.Browser, e.OS, e.Country)
		}
	}
}

func replayFollows(b *bench) {
	b.dieAtTheWarehouse(nil, set("anon", 1, `{"a":1}`), entry("e", "anon"))
	b.put(identify("user", "anon"))
	b.process()
	b.put(force("boss", "user"))
	b.process()
	b.replay(nil)
	if e := b.one("e"); e.Person != derived("boss") {
		b.Errorf("the replayed event belongs to %v, want the survivor", e.Person)
	}
	if p := b.somebody("anon"); p.ID != derived("boss") || len(p.Distinct) != 3 {
		b.Errorf("the person is %+v", p)
	}
	b.has("boss", map[string]string{"a": "1"})
}

func replayWhole(b *bench) {
	ps := &persons{}
	ps.apply.fail(3, errOutage)
	b.put(identify("user", "anon", "user_properties", `{"$set":{"a":1},"$set_once":{"b":2},"$unset":["c"]}`, "properties", `{"x":1}`))
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.drained()
	s.stop()
	if n := len(b.catalogue()); n != 0 {
		b.Errorf("%d definitions of an event that is not stored", n)
	}
	b.replay(nil)
	b.has("user", map[string]string{"a": "1", "b": "2"})
	if got := b.somebody("anon"); got.ID != derived("user") || !got.Identified {
		b.Errorf("the person of the anonymous id is %+v", got)
	}
	if n := len(b.catalogue()); n != 7 {
		b.Errorf("the catalogue is %q", b.catalogue())
	}
}

func damagedRow(b *bench) {
	for i, row := range []string{"", "{", `{"event_id":1}`, `{"project_id":"x"}`} {
		m := entry(fmt.Sprint("e", i), "u", "ip", "9.9.9.9")
		m.ID, m.To, m.Mark = fmt.Sprint("damaged-", i), analytics.Name, tidemill.Mark{Hi: 1, Lo: uint64(i) + 1}
		b.must(b.Letters.Put(b.Context(), []tidemill.DeadLetter{{Pipeline: analytics.Name, Message: m, Kind: tidemill.Transient, Cause: "outage", Row: []byte(row), At: noon}}))
	}
	b.replay(func(p *analytics.Parts) { p.Country = func(string) string { return "AT" } })
	for i := range 4 {
		if e := b.one(fmt.Sprint("e", i)); e.Person != derived("u") || e.Country != "AT" {
			b.Errorf("e%d belongs to %v in %q; want it worked out and enriched", i, e.Person, e.Country)
		}
	}
}

func refusedAgain(b *bench) {
	b.put(entry("e", "guest"))
	b.process()
	for range 2 {
		b.replay(nil)
	}
	ls := b.letters()
	if len(ls) != 1 || ls[0].Replays != 2 || len(ls[0].History) != 3 || ls[0].Kind != tidemill.Validation || ls[0].State != deadletter.Held {
		b.Fatalf("letters are %+v; want the refusal held after 2 replays", ls[0])
	}
	n, err := b.Letters.Delete(b.Context(), deadletter.Filter{Pipeline: analytics.Name})
	b.must(err)
	if a := b.balanced(); n != 1 || a.Letters.Discarded != 1 || a.Letters.Held != 0 || a.Letters.Put != 1 {
		b.Errorf("discarded %d, the books say %+v", n, a.Letters)
	}
}

func projectLater(b *bench) {
	other := Project
	other.ID[0] = 0x55
	b.put(entry("e", "u", "project_id", other.ID.String()))
	b.process()
	b.must(b.Projects.Ensure(b.Context(), other, [32]byte{1}))
	b.replay(nil)
	n, err := b.Warehouse.Count(b.Context(), other.ID)
	b.must(err)
	if n != 1 || len(b.letters()) != 0 {
		b.Errorf("%d rows, %d letters; want the event stored", n, len(b.letters()))
	}
}

func rowFromOutside(b *bench) {
	forged := fmt.Sprintf(`{"event_id":%q,"project_id":%q,"event_name":"forged","distinct_id":"admin","timestamp":"2024-01-01T00:00:00Z"}`, uid(1), Project.ID)
	b.put(entry("true", "u", deadletter.RowHeader, forged))
	b.process()
	b.dieAtTheWarehouse(nil, entry("later", "u", deadletter.RowHeader, forged))
	b.replay(nil)
	b.one("true")
	b.one("later")
	if b.show("admin") != nil {
		b.Error("the forged row was believed")
	}
}
