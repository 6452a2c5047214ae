package persontest

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

const (
	merged  = person.Merged
	same    = person.Same
	refused = person.Refused
)

type outcomes = []person.Outcome

var merging = []example{
	{"two stored persons become one", "an anonymous visitor has told who it is", func(w *world) {
		w.apply(w.event("a", 1, set("both", "1"), set("a", "1")), w.event("u", 2, set("both", "2"), set("u", "2")))
		w.merge(outcomes{merged}, w.claim("u", "a", 3))
		w.one(true, "u", "a")
		w.holds("u", "both", "2", "a", "1", "u", "2")
		w.lived("u", 1, 3)
		w.overridden("u", 1, "a")
	}},
	{"in a merge the later event wins, whoever survives", "processed before the merge counts as processed after it", func(w *world) {
		w.apply(w.event("a", 5, set("k", "5"), once("o", "5")), w.event("u", 2, set("k", "2"), once("o", "2")))
		w.merge(outcomes{merged}, w.claim("u", "a", 3))
		w.holds("a", "k", "5", "o", "2")
	}},
	{"the other id need not be stored", "its events may have made no person, and still are that person's", func(w *world) {
		w.apply(w.event("u", 1))
		w.merge(outcomes{merged}, w.claim("u", "a", 0))
		w.one(true, "u", "a")
		w.lived("u", 0, 1)
		w.overridden("u", 1, "a")
	}},
	{"the survivor need not be stored", "identify may be its first event", func(w *world) {
		w.apply(w.event("a", 1, set("k", "1")))
		w.merge(outcomes{merged}, w.claim("u", "a", 7200))
		w.one(true, "u", "a")
		w.holds("u", "k", "1")
		w.lived("u", 1, 7200)
		w.overridden("u", 1, "a")
	}},
	{"neither need be stored", "browsers send identify before all else", func(w *world) {
		w.merge(outcomes{merged}, w.claim("u", "a", 5))
		w.one(true, "u", "a")
		w.lived("u", 5, 5)
		w.overridden("u", 1, "a")
	}},
	{"the id itself is no merge", "an identify without an anonymous id identifies nobody", func(w *world) {
		w.merge(outcomes{same}, w.claim("u", "u", 0))
		w.unknown("u")
		w.apply(w.event("u", 0))
		w.merge(outcomes{same, same}, w.claim("u", "u", 0), force(w.claim("u", "u", 0)))
		w.one(false, "u")
		w.overridden("u", 0)
	}},
	{"merging twice is merging once", "entries are redelivered", func(w *world) {
		w.apply(w.event("a", 1))
		m := w.claim("u", "a", 2)
		w.merge(outcomes{merged, same}, m, m)
		w.merge(outcomes{same}, m)
		w.one(true, "u", "a")
		w.overridden("u", 1, "a")
	}},
	{"a cycle ends in one person", "clients alias back and forth", func(w *world) {
		w.apply(w.event("a", 1), w.event("b", 1), w.event("c", 1))
		w.merge(outcomes{merged, same}, w.claim("a", "b", 2), w.claim("b", "a", 2))
		w.merge(outcomes{merged, merged, same, same}, force(w.claim("b", "c", 2)), force(w.claim("c", "d", 2)), force(w.claim("d", "a", 2)), force(w.claim("a", "c", 2)))
		w.one(true, "a", "b", "c", "d")
	}},
	{"an identified person is not merged into another", "a shared device must never fuse two users", func(w *world) {
		w.apply(w.event("device", 0, set("k", "0")))
		w.merge(outcomes{merged}, w.claim("alice", "device", 1))
		w.apply(w.event("alice", 1, set("name", `"Alice"`)))
		w.overridden("alice", 1, "device")
		w.merge(outcomes{refused}, w.claim("bob", "device", 7200))
		w.apply(w.event("bob", 7200, set("name", `"Bob"`)))
		w.one(true, "alice", "device")
		w.one(true, "bob") // the survivor is identified anyway
		w.holds("alice", "k", "0", "name", `"Alice"`)
		w.holds("bob", "name", `"Bob"`)
		w.lived("alice", 0, 1)
		w.lived("bob", 7200, 7200)
		w.overridden("bob", 0)
		w.merge(outcomes{refused, refused}, w.claim("alice", "bob", 3), w.claim("bob", "alice", 3))
		w.one(true, "alice", "device")
		w.one(true, "bob")
	}},
	{"the guard looks at the person, not at the id", "an id that was never a user's may belong to one", func(w *world) {
		w.merge(outcomes{merged, merged, refused}, w.claim("alice", "x", 0), w.claim("x", "y", 0), w.claim("bob", "y", 0))
		w.one(true, "alice", "x", "y")
		w.one(true, "bob")
	}},
	{"by force there is no guard", "sometimes a person knows better", func(w *world) {
		w.apply(w.event("alice", 1, set("a", "1"), set("k", "1")), w.event("bob", 2, set("b", "2"), set("k", "2")))
		w.merge(outcomes{merged, merged}, w.claim("alice", "a1", 3), w.claim("bob", "b1", 3))
		w.overrides()
		w.merge(outcomes{merged}, force(w.claim("alice", "bob", 4)))
		w.one(true, "alice", "bob", "a1", "b1")
		w.holds("b1", "a", "1", "b", "2", "k", "2")
		got := w.overrides()
		if len(got) != 2 || got[0].Ref != w.ref("b1") || got[0].Version != 2 || got[1].Ref != w.ref("bob") || got[1].Version != 1 {
			w.Errorf("overrides: %+v; want b1 in version 2 and bob in version 1", got)
		}
	}},
	{"every id of the other moves, each with its override", "ids that moved along must not point at a person that is gone", func(w *world) {
		var ids, moved []string
		for i := range 300 {
			ids = append(ids, fmt.Sprintf("d%03d", i))
			w.merge(outcomes{merged}, w.claim("old", ids[i], 0))
		}
		w.overrides()
		w.merge(outcomes{merged}, force(w.claim("new", "d123", 1)))
		w.one(true, append([]string{"new", "old"}, ids...)...)
		for _, o := range w.overrides() {
			if o.Person != person.ID(w.ref("new")) || o.Version != 2-uint64(strings.Count(o.Distinct, "old")) {
				w.Errorf("override %+v: want version 2 (1 for old) of new", o)
			}
			moved = append(moved, o.Distinct)
		}
		if want := append(ids, "old"); fmt.Sprint(moved) != fmt.Sprint(want) {
			w.Errorf("overrides are of %v, want %v", moved, want)
		}
	}},
	{"a chain of aliases is one person", "create_alias may name ids that were merged before", func(w *world) {
		for i, d := range []string{"a", "b", "c", "d"} {
			w.apply(w.event(d, i, set(d, "1"), set("k", `"`+d+`"`)))
		}
		w.merge(outcomes{merged, merged, merged}, w.claim("a", "b", 5), w.claim("b", "c", 5), w.claim("c", "d", 5))
		w.one(true, "a", "b", "c", "d")
		w.holds("d", "a", "1", "b", "1", "c", "1", "d", "1", "k", `"d"`)
		w.overridden("a", 1, "b", "c", "d")
	}},
	{"a chain within one call is done in order", "a batch holds what followed within a second", func(w *world) {
		w.apply(w.event("c", 0, set("k", "1")))
		w.merge(outcomes{merged, merged, refused, merged, same},
			w.claim("b", "c", 1), force(w.claim("a", "b", 1)), w.claim("x", "c", 1), force(w.claim("x", "c", 1)), w.claim("a", "x", 1))
		w.one(true, "x", "a", "b", "c")
		w.holds("a", "k", "1")
		highest := map[string]uint64{}
		for _, o := range w.overrides() {
			if o.Version != highest[o.Distinct]+1 {
				w.Errorf("override %+v: want version %d", o, highest[o.Distinct]+1)
			}
			highest[o.Distinct] = o.Version
		}
		if want := map[string]uint64{"a": 1, "b": 2, "c": 3}; fmt.Sprint(highest) != fmt.Sprint(want) {
			w.Errorf("versions are %v, want %v", highest, want)
		}
	}},
	{"late events of an old id go to the survivor", "nothing revives a person that was merged away", func(w *world) {
		w.apply(w.event("a", 1))
		w.merge(outcomes{merged}, w.claim("u", "a", 2))
		w.apply(w.event("a", 0, set("k", "0")), w.event("u", 3, set("u", "3")), w.event("a", 4, set("k", "4")), w.event("b", 4))
		w.one(true, "u", "a")
		w.holds("u", "k", "4", "u", "3")
		w.lived("u", 0, 4)
		w.one(false, "b")
	}},
	{"events of an id that was merged before they came go to the survivor", "identify overtakes the events before it", func(w *world) {
		w.merge(outcomes{merged}, w.claim("u", "a", 2))
		w.apply(w.event("a", 1, set("k", "1")))
		w.one(true, "u", "a")
		w.holds("u", "k", "1")
		w.lived("u", 1, 2)
	}},
	{"a resolved id follows a merge", "what was looked up before must not stick", func(w *world) {
		refs := []person.Ref{w.ref("a"), w.ref("b"), w.ref("u")}
		before := make([]uuid.UUID, 3)
		if err := w.Store.Resolve(w.Context(), refs, before); err != nil {
			w.Fatal(err)
		}
		w.apply(w.event("a", 0))
		w.merge(outcomes{merged}, w.claim("b", "a", 0))
		w.merge(outcomes{merged}, force(w.claim("u", "b", 0)))
		for _, d := range []string{"a", "b", "u"} {
			if got := w.resolve(d); got != before[2] {
				w.Errorf("Resolve %q after the merges: %v, want %v", d, got, before[2])
			}
		}
	}},
	{"what an unset removed stays removed by a merge", "the survivor's past must not bring it back", func(w *world) {
		w.apply(w.event("a", 5, unset("k")), w.event("u", 1, set("k", "1")))
		w.merge(outcomes{merged}, w.claim("u", "a", 6))
		w.holds("u")
	}},
}
