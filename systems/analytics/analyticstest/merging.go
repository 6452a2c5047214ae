package analyticstest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

var merging = storiesOf(stories)

// A story is a history of events and their persons in the end. Each is told twice: all in one
// batch, and event by event.
type story struct {
	name, reason string
	events       []*tidemill.Message
	count        int               // of events, if not all of them are told
	people       []string          // distinct ids of one person each, the surviving one first: "user anon"
	identified   string            // the survivors that are identified
	has          map[string]string // distinct id → JSON of its properties, names sorted: "a=1 b=2"
	warned       map[string]int    // warnings by type
	created      map[string]int    // survivor → seconds after noon
}

func identify(user, anonymous string, more ...string) *tidemill.Message {
	return entry("$identify", user, append([]string{"anonymous_id", anonymous}, more...)...)
}

func alias(user, other string) *tidemill.Message {
	return entry("$create_alias", user, "properties", fmt.Sprintf(`{"alias":%q}`, other))
}

func force(user, other string) *tidemill.Message {
	return entry("$merge_dangerously", user, "properties", fmt.Sprintf(`{"alias":%q}`, other))
}

func set(who string, seconds int, bag string) *tidemill.Message {
	return entry("$set", who, "timestamp", at(seconds), "user_properties", bag)
}

var stories = []story{
	{name: "A10 $identify moves the anonymous id, events before it included", reason: "the history before the log-in is the user's",
		events: []*tidemill.Message{entry("e", "anon"), entry("e", "anon"), identify("user", "anon"), entry("e", "user")},
		people: []string{"user anon"}, identified: "user"},
	{name: "A10 events that come late under the old id are the survivor's", reason: "browsers send $identify before what waits in their queue",
		events: []*tidemill.Message{identify("user", "anon"), entry("e", "anon"), set("anon", 5, `{"late":1}`)},
		people: []string{"user anon"}, identified: "user", has: map[string]string{"user": "late=1"}},
	{name: "A10 the user's person survives, whoever was there first", reason: "a person id must follow from the user's id",
		events: []*tidemill.Message{set("user", 0, `{"a":1}`), set("anon", 1, `{"b":2}`), identify("user", "anon")},
		people: []string{"user anon"}, identified: "user", has: map[string]string{"anon": "a=1 b=2"}},
	{name: "A10 properties are joined by their times", reason: "an event before the merge counts as one after it",
		events: []*tidemill.Message{set("user", 5, `{"a":"user","b":"user"}`), set("anon", 9, `{"a":"anon"}`), set("anon", 1, `{"b":"anon","$set_once":{"c":"anon"}}`),
			set("user", 3, `{"$set_once":{"c":"user"}}`), identify("user", "anon", "timestamp", at(20), "user_properties", `{"d":1}`)},
		people: []string{"user anon"}, identified: "user", has: map[string]string{"user": `a="anon" b="user" c="anon" d=1`}},
	{name: "A10 the earlier date of creation stays", reason: "who came back is not new",
		events: []*tidemill.Message{entry("e", "user", "timestamp", at(0)), entry("e", "anon", "timestamp", at(-7200)), identify("user", "anon", "timestamp", at(60))},
		people: []string{"user anon"}, identified: "user", created: map[string]int{"user": -7200}},
	{name: "A10 an alias merges the same way", reason: "servers know both ids",
		events: []*tidemill.Message{entry("e", "old"), alias("user", "old"), entry("e", "old")},
		people: []string{"user old"}, identified: "user"},
	{name: "A10 one user's many devices are one person", reason: "people have more than one",
		events: []*tidemill.Message{entry("e", "phone"), entry("e", "tablet"), identify("user", "phone"), identify("user", "tablet"), identify("user", "laptop"), entry("e", "laptop")},
		people: []string{"user laptop phone tablet"}, identified: "user"},
	{name: "A10 a shared device never fuses two users", reason: "one browser without a log-out would make two customers one",
		events: []*tidemill.Message{entry("e", "device"), identify("alice", "device"), identify("bob", "device", "user_properties", `{"name":"bob"}`), entry("e", "device"), entry("e", "bob")},
		people: []string{"alice device", "bob"}, identified: "alice bob", has: map[string]string{"bob": `name="bob"`, "alice": ""},
		warned: map[string]int{"cannot_merge_already_identified": 1}},
	{name: "A10 an alias of an identified user is refused", reason: "the guard is for every way but the dangerous one",
		events: []*tidemill.Message{identify("alice", "a"), identify("bob", "b"), alias("bob", "alice")},
		people: []string{"alice a", "bob b"}, identified: "alice bob", warned: map[string]int{"cannot_merge_already_identified": 1}},
	{name: "A10 $merge_dangerously has no guard", reason: "that is what it is for",
		events: []*tidemill.Message{identify("alice", "a"), identify("bob", "b"), force("bob", "alice"), entry("e", "a"), entry("e", "alice")},
		people: []string{"bob a alice b"}, identified: "bob"},
	{name: "A10 an illegal other id merges nobody, and the event is kept", reason: "half the world is called null",
		events: []*tidemill.Message{identify("u1", "null"), identify("u2", " Anonymous "), alias("u3", "undefined"), force("u4", `"0"`), set("u1", 1, `{"a":1}`)},
		people: []string{"u1", "u2", "u3", "u4"}, has: map[string]string{"u1": "a=1"}, warned: map[string]int{"cannot_merge_with_illegal_distinct_id": 4}},
	{name: "A10 the id itself, or none, is no merge and identifies nobody", reason: "SDKs send it at every page",
		events: []*tidemill.Message{identify("u1", "u1"), identify("u2", ""), alias("u3", "u3"), entry("$create_alias", "u4"), entry("e", "u1")},
		people: []string{"u1", "u2", "u3", "u4"}},
	{name: "A10 merging twice is merging once", reason: "SDKs and streams send again",
		events: []*tidemill.Message{identify("user", "anon"), identify("user", "anon"), entry("e", "anon"), identify("user", "anon")},
		people: []string{"user anon"}, identified: "user"},
	{name: "A10 a cycle ends in one person", reason: "two systems may each claim the other's id",
		events: []*tidemill.Message{entry("e", "a"), entry("e", "b"), force("a", "b"), force("b", "a"), force("a", "b"), entry("e", "b"), entry("e", "a")},
		people: []string{"* a b"}, identified: "*"},
	{name: "A10 a chain moves every distinct id to its end", reason: "an id that points at a person who is gone has lost its events",
		events: []*tidemill.Message{entry("e", "a"), entry("e", "b"), entry("e", "c"), force("b", "a"), force("c", "b"), force("d", "c"), entry("e", "a"), entry("e", "b"), set("a", 9, `{"x":1}`)},
		people: []string{"d a b c"}, identified: "d", has: map[string]string{"d": "x=1"}},
	{name: "A10 an anonymous id never seen before is remembered", reason: "its first event may come in a year",
		events: []*tidemill.Message{identify("user", "never"), entry("e", "other")},
		people: []string{"user never", "other"}, identified: "user"},
	{name: "A10 without a profile nobody is merged", reason: "the project asked for no persons",
		events: []*tidemill.Message{identify("user", "anon", "properties", `{"$process_person_profile":false}`), entry("e", "anon")},
		people: []string{"anon"}},
	{name: "A10 events without a profile follow a later merge", reason: "posthog-js sends anonymous events so by default",
		events: []*tidemill.Message{entry("e", "anon", "properties", `{"$process_person_profile":false}`), identify("user", "anon")},
		people: []string{"user anon"}, identified: "user"},
}

func storiesOf(all []story) []promise {
	var ps []promise
	for _, s := range all {
		for _, way := range []struct {
			name  string
			batch int
		}{{"in one batch", 100}, {"one by one", 1}} {
			ps = append(ps, promise{name: s.name + ", " + way.name, reason: s.reason, holds: func(b *bench) { s.tell(b, way.batch) }})
		}
	}
	return ps
}

func (s *story) tell(b *bench, batch int) {
	for i, m := range s.events {
		c := *m // told more than once
		c.ID = fmt.Sprint("event-", i)
		b.put(&c)
	}
	o := options()
	o.Batch, o.InFlight = batch, 2*batch
	b.processWith(o, nil)
	s.check(b)
}

func (s *story) check(b *bench) {
	b.wantBooks(uint64(len(s.events)+s.count), 0, 0)
	owner := map[string]string{}
	var identified []string
	for _, line := range s.people {
		ids := strings.Fields(line)
		survivor := ids[0]
		if survivor == "*" { // one of the others
			ids = ids[1:]
			for _, id := range ids {
				if b.somebody(ids[0]).ID == derived(id) {
					survivor = id
				}
			}
		}
		p := b.somebody(ids[0])
		if p.ID != derived(survivor) {
			b.Errorf("the person of %q is %v, want %s's own", ids[0], p.ID, survivor)
		}
		want := slices.Sorted(slices.Values(ids))
		if !slices.Equal(p.Distinct, want) {
			b.Errorf("the person of %q has the distinct ids %q, want %q", survivor, p.Distinct, want)
		}
		if p.Identified {
			identified = append(identified, strings.Fields(line)[0])
		}
		for _, id := range ids {
			owner[id] = survivor
			if q := b.somebody(id); q.ID != p.ID {
				b.Errorf("%q belongs to %v, not to %s", id, q.ID, survivor)
			}
		}
		if want, ok := s.created[survivor]; ok && !p.Created.Equal(noon.Add(time.Duration(want)*time.Second)) {
			b.Errorf("%s was created %v, want %d seconds from %v", survivor, p.Created, want, noon)
		}
	}
	if got := strings.Join(identified, " "); got != s.identified {
		b.Errorf("identified are %q, want %q", got, s.identified)
	}
	for _, e := range b.events() {
		if who, ok := owner[e.DistinctID]; ok && e.Person != derived(who) {
			b.Errorf("event %s of %q is %v's, want %s's", e.Name, e.DistinctID, e.Person, who)
		}
	}
	for who, want := range s.has {
		var got []string
		for k, v := range b.somebody(who).Properties {
			got = append(got, k+"="+string(v))
		}
		if slices.Sort(got); strings.Join(got, " ") != want {
			b.Errorf("%s has %s, want %s", who, got, want)
		}
	}
	for _, typ := range []string{"cannot_merge_already_identified", "cannot_merge_with_illegal_distinct_id"} {
		if got := b.warnings(typ); len(got) != s.warned[typ] {
			b.Errorf("%d warnings %s, want %d: %+v", len(got), typ, s.warned[typ], got)
		}
	}
	if left, err := b.Persons.Overrides(b.Context(), 10); err != nil || len(left) > 0 {
		b.Errorf("overrides not in the warehouse yet: %v, %v", left, err)
	}
}
