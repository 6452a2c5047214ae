package persontest

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/tidemill/tidemill/state/person"
)

var keeping = []example{
	{"overrides wait until they are relayed", "persons and warehouse must not part for good", func(w *world) {
		w.apply(w.event("a", 0), w.event("b", 0))
		w.merge([]person.Outcome{person.Merged, person.Merged, person.Merged}, w.claim("u", "a", 0), w.claim("u", "b", 0), w.claim("u", "c", 0))
		two, err := w.Store.Overrides(w.Context(), 2)
		if err != nil || len(two) != 2 || two[0].Ref != w.ref("a") || two[1].Ref != w.ref("b") {
			w.Fatalf("Overrides: %+v, %v; want those of a and b", two, err)
		}
		again, err := w.Store.Overrides(w.Context(), 2)
		if err != nil || !reflect.DeepEqual(again, two) {
			w.Fatalf("Overrides: %+v, %v; want the same until they are relayed: %+v", again, err, two)
		}
		for range 2 { // the answer may be lost
			if err := w.Store.Relayed(w.Context(), two[0].Seq); err != nil {
				w.Fatal(err)
			}
		}
		w.overridden("u", 1, "b", "c")
		if none, err := w.Store.Overrides(w.Context(), 0); err != nil || len(none) != 0 {
			w.Errorf("Overrides of at most 0: %v, %v", none, err)
		}
	}},
	{"sequence numbers are never given twice", "a relay that is late must not remove what came after", func(w *world) {
		w.merge([]person.Outcome{person.Merged}, w.claim("u", "a", 0))
		first, err := w.Store.Overrides(w.Context(), 10)
		if err != nil || len(first) == 0 {
			w.Fatalf("Overrides: %v, %v", first, err)
		}
		seq := first[len(first)-1].Seq
		if err := w.Store.Relayed(w.Context(), seq); err != nil {
			w.Fatal(err)
		}
		w.merge([]person.Outcome{person.Merged}, w.claim("u", "b", 0))
		if err := w.Store.Relayed(w.Context(), seq); err != nil {
			w.Fatal(err)
		}
		w.overridden("u", 1, "b")
	}},
	{"failed merges are kept in order, each once", "they are replayed until they can be done", func(w *world) {
		a, b, c := w.claim("u", "a", 0), w.claim("u", "b\x00\xff", 1), w.claim("v", "a", 2)
		c.Force = true
		w.keep(nil, a, b, a)
		w.keep(nil, b, c)
		w.kept(a, b, c)
		if err := w.Store.Done(w.Context(), []person.Merge{b, w.claim("x", "y", 0)}); err != nil {
			w.Fatal(err)
		}
		w.kept(a, c)
		w.keep(nil, b)
		w.kept(a, c, b)
		if got, err := w.Store.Oldest(w.Context(), 1); err != nil || len(got) != 1 || got[0] != a {
			w.Errorf("Oldest(1): %v, %v; want %v", got, err, a)
		}
		if err := w.Store.Done(w.Context(), []person.Merge{a, b, c}); err != nil {
			w.Fatal(err)
		}
		w.kept()
	}},
	{"a full list of failed merges refuses all of a call", "nothing is cut off: who asks must wait", func(w *world) {
		var all []person.Merge
		for i := range person.MaxKept - 1 {
			all = append(all, w.claim("u", fmt.Sprint("a", i), i))
		}
		w.keep(nil, all...)
		x, y := w.claim("u", "x", 0), w.claim("u", "y", 0)
		w.keep(person.ErrKeptFull, x, y)
		w.kept(all...)
		w.keep(nil, x)
		w.keep(person.ErrKeptFull, y)
		w.keep(nil, all...) // known ones need no room
		w.kept(append(all, x)...)
		if err := w.Store.Done(w.Context(), all); err != nil {
			w.Fatal(err)
		}
		w.keep(nil, y)
		w.kept(x, y)
	}},
	{"a restart forgets nothing", "what was answered is durable", func(w *world) {
		w.apply(w.event("a", 1, set("k", "1"), unset("gone"), once("o", "1")), w.event("b\x00\xff", 2, set("k", "2")), w.event("u", 3, set("u", "3")))
		w.merge([]person.Outcome{person.Merged, person.Merged}, w.claim("u", "b\x00\xff", 4), w.claim("u", "new", 5))
		kept := w.claim("u", "z", 6)
		w.keep(nil, kept)
		if w.Reopen != nil {
			w.Store = w.Reopen(w.T)
		}
		w.one(true, "u", "b\x00\xff", "new")
		w.one(false, "a")
		w.holds("u", "k", "2", "u", "3")
		w.lived("u", 2, 5)
		w.kept(kept)
		w.apply(w.event("a", 0, set("gone", "0"), once("o", "0"), set("k", "0"))) // the times are still known
		w.holds("a", "k", "1", "o", "0")
		w.overridden("u", 1, "b\x00\xff", "new")
		w.merge([]person.Outcome{person.Merged}, force(w.claim("v", "u", 7)))
		if got := w.overrides(); len(got) != 3 || got[0].Version != 2 || got[1].Version != 2 || got[2].Version != 1 {
			w.Errorf("overrides after the restart: %+v; want b and new in version 2, u in version 1", got)
		}
	}},
}

func force(m person.Merge) person.Merge { m.Force = true; return m }

func (w *world) keep(want error, merges ...person.Merge) {
	w.Helper()
	if err := w.Store.Keep(w.Context(), merges); !errors.Is(err, want) {
		w.Fatalf("Keep: %v, want %v", err, want)
	}
}

func (w *world) kept(want ...person.Merge) {
	w.Helper()
	got, err := w.Store.Oldest(w.Context(), person.MaxKept+1)
	if err != nil || len(got) != len(want) {
		w.Fatalf("Oldest: %d merges, %v; want %d", len(got), err, len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			w.Fatalf("Oldest: number %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}
