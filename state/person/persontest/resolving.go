package persontest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

var resolving = []example{
	{"an id that nobody stored resolves to the derived one", "events need a person before the person is stored", func(w *world) {
		w.unknown("a")
		w.unknown("a") // asking stores nothing
	}},
	{"the derived id is a fixed function", "other programs derive it too", func(w *world) {
		r := person.Ref{Project: uuid.MustParse("33333333-3333-4333-8333-333333333333"), Distinct: "fixture"}
		if got := resolve(w.Context(), w, w.Store, r).String(); got != "857a5cfd-7172-5851-8048-0530d6e898c0" {
			w.Errorf("Resolve %v: %s", r, got)
		}
	}},
	{"many ids resolve in one call, each in its place", "a batch is one call", func(w *world) {
		w.apply(w.event("a", 0), w.event("b", 0))
		w.merge([]person.Outcome{person.Merged}, w.claim("u", "b", 0))
		var refs []person.Ref
		var want []uuid.UUID
		for i := range 700 {
			for _, d := range []string{"a", "b", "u", "nobody", fmt.Sprint("nobody ", i)} {
				refs = append(refs, w.ref(d))
				if d == "b" {
					d = "u"
				}
				want = append(want, person.ID(w.ref(d)))
			}
		}
		got := make([]uuid.UUID, len(refs))
		if err := w.Store.Resolve(w.Context(), refs, got); err != nil {
			w.Fatal(err)
		}
		for i := range want {
			if got[i] != want[i] {
				w.Fatalf("Resolve %q, number %d: %v, want %v", refs[i].Distinct, i, got[i], want[i])
			}
		}
	}},
	{"an event creates its person", "every event has a person behind it", func(w *world) {
		w.apply(w.event("a", 0))
		w.one(false, "a")
		w.holds("a")
		w.lived("a", 0, 0)
		w.overridden("a", 0) // none: a derived id needs no override
	}},
	{"distinct ids are exact bytes", "one letter's case may be another customer", func(w *world) {
		ids := []string{"a", "A", " a", "a ", "a\x00", "a\x00b", "\x00", "\xff\xfe", "á", "a\u0301", "'", `"`, "\\", "a%", "", strings.Repeat("é", 200), strings.Repeat("x", 400)}
		for i, d := range ids {
			w.apply(w.event(d, i, set("n", `"`+uuid.NewSHA1(uuid.Nil, []byte(d)).String()+`"`)))
		}
		for i, d := range ids {
			w.one(false, d)
			w.lived(d, i, i)
			w.holds(d, "n", `"`+uuid.NewSHA1(uuid.Nil, []byte(d)).String()+`"`)
		}
		for _, d := range ids[1:] { // and they move as exact bytes
			w.merge([]person.Outcome{person.Merged}, w.claim("a", d, 0))
		}
		w.one(true, ids...)
	}},
	{"projects are apart", "a tenant never sees another's persons", func(w *world) {
		other := *w
		other.project = w.newProject()
		w.apply(w.event("a", 0, set("k", "1")), w.event("b", 0))
		other.apply(other.event("a", 0, set("k", "2")))
		w.merge([]person.Outcome{person.Merged}, w.claim("u", "a", 0))
		w.one(true, "u", "a")
		other.one(false, "a")
		w.holds("u", "k", "1")
		other.holds("a", "k", "2")
		other.unknown("b")
	}},
	{"created is the earliest event, updated the latest, floored", "events come late", func(w *world) {
		w.apply(w.event("a", 0))
		w.apply(w.event("a", 7200), w.event("a", -86400))
		w.apply(w.event("a", 3600))
		w.lived("a", -86400, 7200)
		w.apply(w.event("old", -2_000_000_000)) // before 1970
		w.lived("old", -2_000_000_000, -2_000_000_000)
	}},
	{"no changes are no work", "a flush may be empty", func(w *world) {
		w.apply()
		w.merge(nil)
		if err := w.Store.Resolve(w.Context(), nil, nil); err != nil {
			w.Error(err)
		}
	}},
	{"too little room is refused", "a caller's mistake must not become half a batch", func(w *world) {
		if err := w.Store.Resolve(w.Context(), []person.Ref{w.ref("a")}, nil); err == nil {
			w.Error("Resolve without room: no error")
		}
		if err := w.Store.Merge(w.Context(), []person.Merge{w.claim("u", "a", 0)}, nil); err == nil {
			w.Error("Merge without room: no error")
		}
		w.unknown("u")
	}},
	{"the end of the context is an error and changes nothing", "a stop must not block, nor lie", func(w *world) {
		ctx, stop := context.WithCancel(w.Context())
		stop()
		outcome := []person.Outcome{person.Merged}
		for name, err := range map[string]error{
			"Resolve": w.Store.Resolve(ctx, []person.Ref{w.ref("a")}, make([]uuid.UUID, 1)),
			"Apply":   w.Store.Apply(ctx, []person.Change{w.event("a", 0)}),
			"Merge":   w.Store.Merge(ctx, []person.Merge{w.claim("u", "a", 0)}, outcome),
			"Keep":    w.Store.Keep(ctx, []person.Merge{w.claim("u", "a", 0)}),
			"Done":    w.Store.Done(ctx, []person.Merge{w.claim("u", "a", 0)}),
		} {
			if !errors.Is(err, context.Canceled) {
				w.Errorf("%s: %v, want context.Canceled", name, err)
			}
		}
		if outcome[0] != 0 {
			w.Errorf("the outcome of a merge that was not done is %v, want 0", outcome[0])
		}
		w.unknown("a")
		w.unknown("u")
	}},
	{"nothing of the caller's memory is kept", "payloads are reused", func(w *world) {
		raw := []byte("key-value-id")
		c := w.event(string(raw[10:]), 0, person.Property{Op: person.Set, Key: "key", Value: raw[4:9]})
		copy(raw[4:], "12345")
		w.apply(c)
		copy(raw, "xxxxxxxxxxxx")
		w.holds("id", "key", "12345")
		p := w.show("id")
		copy(p.Properties["key"], "99999")
		p.Distinct[0] = "xx"
		w.holds("id", "key", "12345")
		w.one(false, "id")
	}},
}
