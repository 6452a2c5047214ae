package analyticstest

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics"
)

var keeping = []promise{
	{name: "A11 a merge that fails is kept and done later, and its event goes on", reason: "a merge that is lost splits a person for ever", holds: keptAndDone},
	{name: "A11 a merge done later follows those made meanwhile", reason: "on either side the persons may be gone by then", holds: keptFollows},
	{name: "A11 one merge that cannot be done is not in the way of others", reason: "the list has an end", holds: keptPoison},
	{name: "A11 a merge that is refused later is told all the same", reason: "a refusal is never silent", holds: keptRefused},
	{name: "A11 a full list pauses flushing with an alarm, and nothing is cut off", reason: "what is cut off is lost", holds: keptFull},
	{name: "A11 a merge whose answer is lost is done, and not kept", reason: "its event would be dead, or the merge done twice", holds: keptNot},
	{name: "A10 overrides that cannot be copied are copied later", reason: "neither side may be ahead of the other for long", holds: overridesLater},
	{name: "A18 overrides that wait are copied at the stop", reason: "a stop may be for long", holds: overridesAtTheStop},
}

func (b *bench) kept() int {
	b.Helper()
	ms, err := b.Persons.Oldest(b.Context(), 2000)
	b.must(err)
	return len(ms)
}

func keptAndDone(b *bench) {
	ps := &persons{}
	ps.merge.fail(-1, errOutage)
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.put(set("anon", 1, `{"a":1}`), identify("user", "anon", "user_properties", `{"b":2}`), entry("e", "anon"))
	b.drained()
	if n := b.kept(); n != 1 {
		b.Errorf("%d merges are kept, want 1", n)
	}
	if got := b.one("e").Person; got != derived("anon") {
		b.Errorf("before the merge the event belongs to %v", got)
	}
	b.pass(time.Minute)
	if n := b.kept(); n != 1 {
		b.Errorf("%d merges are kept while none can be done, want 1", n)
	}
	ps.merge.heal()
	b.until("the merge is done", func() bool { return b.kept() == 0 })
	s.stop()
	(&story{count: 3, people: []string{"user anon"}, identified: "user", has: map[string]string{"user": "a=1 b=2"}}).check(b)
}

func keptNot(b *bench) {
	ps := &persons{}
	ps.answer.fail(-1, errOutage)
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.put(set("anon", 1, `{"a":1}`), identify("user", "anon", "user_properties", `{"b":2}`), entry("e", "anon"))
	b.drained()
	if n := b.kept(); n != 0 || ps.keptNone.Load() {
		b.Errorf("%d merges are kept, want 0; asked to keep nothing: %t", n, ps.keptNone.Load())
	}
	s.stop()
	(&story{count: 3, people: []string{"user anon"}, identified: "user", has: map[string]string{"user": "a=1 b=2"}}).check(b)
}

func keptFollows(b *bench) {
	ps := &persons{}
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	ps.poison = "anon"
	b.put(entry("e", "anon"), identify("user", "anon"))
	b.drained()
	b.put(force("boss", "user"), force("user2", "anon2"), entry("e", "anon2"))
	b.drained()
	if n := b.kept(); n != 1 {
		b.Fatalf("%d merges are kept, want 1", n)
	}
	s.stop()
	s = b.start(options(), nil) // a new process, on healthy persons
	b.until("the merge is done", func() bool { return b.kept() == 0 })
	s.stop()
	(&story{count: 5, people: []string{"boss anon user", "user2 anon2"}, identified: "boss user2"}).check(b)
}

func keptPoison(b *bench) {
	ps := &persons{poison: "poison"}
	b.put(identify("u0", "poison"))
	for i := range 12 {
		b.put(identify(fmt.Sprint("user", i), fmt.Sprint("anon", i)))
	}
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.drained()
	b.until("the others are done", func() bool { return b.kept() == 1 })
	for i := range 12 {
		if got := b.somebody(fmt.Sprint("anon", i)).ID; got != derived(fmt.Sprint("user", i)) {
			b.Errorf("anon%d belongs to %v", i, got)
		}
	}
	s.stop()
	b.wantBooks(13, 0, 0)
}

func keptRefused(b *bench) {
	b.put(identify("alice", "device"))
	b.process()
	ps := &persons{}
	ps.merge.fail(3, errOutage)
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.put(identify("bob", "device"))
	b.drained()
	b.until("the merge is refused", func() bool { return b.kept() == 0 })
	s.stop()
	(&story{count: 2, people: []string{"alice device", "bob"}, identified: "alice bob",
		warned: map[string]int{"cannot_merge_already_identified": 1}}).check(b)
}

func keptFull(b *bench) {
	full := make([]person.Merge, person.MaxKept)
	for i := range full {
		full[i] = person.Merge{Ref: person.Ref{Project: Project.ID, Distinct: fmt.Sprint("old", i)}, Other: fmt.Sprint("anon", i), Event: uuid.UUID{14: byte(i >> 8), 15: byte(i)}, At: noon}
	}
	b.must(b.Persons.Keep(b.Context(), full))
	ps := &persons{}
	ps.merge.fail(-1, errOutage)
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	b.put(identify("user", "anon"), entry("e", "anon"))
	b.pass(10 * time.Minute)
	if books := b.books(); books.Pending != 2 || books.Settled.Total() != 0 {
		b.Errorf("with a full list the books are %+v, want everything pending", books)
	}
	if n := b.kept(); n != person.MaxKept {
		b.Errorf("%d merges are kept, want all %d", n, person.MaxKept)
	}
	if !b.log.alarmed(slog.LevelError, "flushing waits") {
		b.Errorf("nobody was alarmed:\n%s", b.log.String())
	}
	ps.merge.heal()
	b.drained()
	b.until("all kept merges are done", func() bool { return b.kept() == 0 })
	s.stop()
	(&story{count: 2, people: []string{"user anon", "old999 anon999"}, identified: "user old999"}).check(b)
}

func overridesLater(b *bench) {
	w := &events{}
	w.override.fail(3, errOutage)
	s := b.start(options(), func(p *analytics.Parts) { w.Store, p.Warehouse = p.Warehouse, w })
	b.put(entry("e", "anon"), identify("user", "anon"))
	b.drained()
	b.until("the overrides are there", func() bool {
		left, err := b.Persons.Overrides(b.Context(), 1)
		return err == nil && len(left) == 0
	})
	s.stop()
	(&story{count: 2, people: []string{"user anon"}, identified: "user"}).check(b)
}

func overridesAtTheStop(b *bench) {
	w := &events{}
	w.override.fail(1, errOutage) // as the merge tries to copy them
	b.put(entry("e", "anon"), identify("user", "anon"))
	s := b.startWith(options(), w)
	b.until("they are stored", func() bool { return len(b.events()) == 2 })
	s.stop()
	(&story{count: 2, people: []string{"user anon"}, identified: "user"}).check(b)
}
