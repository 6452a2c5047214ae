package persontest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tidemill/tidemill/state/person"
)

var random = []example{
	{"any order, any batches, any duplicates end in the same persons", "streams redeliver, and instances race", func(w *world) {
		w.rapid(func(r *round) {
			h := r.history()
			r.play(r.batches(h, "order"))
			r.check(h)
			r.play(r.batches(h, "again")) // repeating all of it changes nothing
			r.check(h)
		})
	}},
	{"concurrent callers end in the same persons", "any number of instances share the stream", func(w *world) {
		w.rapid(func(r *round) {
			h := r.history()
			r.race(r.batches(h, "order"), 4)
			r.check(h)
		})
	}},
	{"whatever is merged, no id is orphaned", "also where the first one processed decides", func(w *world) {
		w.rapid(func(r *round) {
			h := r.mess()
			r.play(r.batches(h, "order"))
			r.whole(h)
		})
	}},
	{"whatever is merged concurrently, no id is orphaned", "instances race, and clients lie", func(w *world) {
		w.rapid(func(r *round) {
			h := r.mess()
			r.race(r.batches(h, "order"), 4)
			r.whole(h)
		})
	}},
}

// round is one random try, in its own project.
type round struct {
	*rapid.T
	w       *world
	project uuid.UUID
	events  uint64
}

func (w *world) rapid(try func(*round)) {
	w.Helper()
	rapid.Check(w.T, func(t *rapid.T) { try(&round{T: t, w: w, project: w.newProject()}) })
}

var (
	users = []string{"alice", "Alice", "bob", "\x00", "ü"}
	anons = []string{"a", "A", "b", "a\x00", "\xff", "c", "d", "e"}
)

// history draws events in which every anonymous id has at most one user.
func (r *round) history() *history {
	h := &history{}
	claimed := map[string]string{}
	for _, a := range anons {
		claimed[a] = rapid.SampledFrom(append([]string{""}, users...)).Draw(r.T, "user of "+a)
	}
	for range rapid.IntRange(1, 25).Draw(r.T, "events") {
		if a := rapid.SampledFrom(anons).Draw(r.T, "anonymous"); claimed[a] != "" && rapid.Bool().Draw(r.T, "merge") {
			m := r.merge(claimed[a], a)
			if rapid.IntRange(0, 9).Draw(r.T, "itself") == 0 {
				m.Other = m.Distinct
			}
			h.merges = append(h.merges, m)
			continue
		}
		h.changes = append(h.changes, r.change(rapid.SampledFrom(slices.Concat(users, anons)).Draw(r.T, "of")))
	}
	return h
}

// mess draws events in which anybody may be merged into anybody.
func (r *round) mess() *history {
	h := &history{}
	all := slices.Concat(users[:3], anons[:5])
	for range rapid.IntRange(1, 25).Draw(r.T, "events") {
		if rapid.Bool().Draw(r.T, "merge") {
			m := r.merge(rapid.SampledFrom(all).Draw(r.T, "into"), rapid.SampledFrom(all).Draw(r.T, "other"))
			m.Force = rapid.Bool().Draw(r.T, "force")
			h.merges = append(h.merges, m)
			continue
		}
		h.changes = append(h.changes, r.change(rapid.SampledFrom(all).Draw(r.T, "of")))
	}
	return h
}

// at draws a time out of few, so that some are the same and some lie an hour apart.
func (r *round) at() time.Time {
	return start.Add(time.Duration(rapid.IntRange(-5, 5).Draw(r.T, "at")) * 20 * time.Minute)
}

func (r *round) event() uuid.UUID {
	r.events++
	id := numbered(2, r.events)
	id[9] = rapid.Byte().Draw(r.T, "event id") // not in order of events
	return id
}

func (r *round) merge(into, other string) person.Merge {
	return person.Merge{Ref: person.Ref{Project: r.project, Distinct: into}, Other: other, Event: r.event(), At: r.at()}
}

func (r *round) change(distinct string) person.Change {
	c := person.Change{Ref: person.Ref{Project: r.project, Distinct: distinct}, Event: r.event(), At: r.at()}
	for i := range rapid.IntRange(0, 5).Draw(r.T, "properties") {
		p := person.Property{
			Op:  rapid.SampledFrom([]person.Op{person.Set, person.Once, person.Unset}).Draw(r.T, "operation"),
			Key: rapid.SampledFrom([]string{"k", "l", "k\x00", "$os", ""}).Draw(r.T, "key"),
		}
		if p.Op != person.Unset {
			p.Value = []byte(rapid.SampledFrom([]string{"null", `"x"`, "12345678901234567890", fmt.Sprint(i, r.events)}).Draw(r.T, "value"))
		}
		c.Properties = append(c.Properties, p)
	}
	return c
}

// batch is one call.
type batch struct {
	changes []person.Change
	merges  []person.Merge
}

// batches cuts a history, some of it given twice, into calls in any order.
func (r *round) batches(h *history, name string) []batch {
	var ops []batch
	for i := range h.changes {
		ops = append(ops, batch{changes: h.changes[i : i+1]})
	}
	for i := range h.merges {
		ops = append(ops, batch{merges: h.merges[i : i+1]})
	}
	for range rapid.IntRange(0, len(ops)).Draw(r.T, name+": duplicates") {
		ops = append(ops, rapid.SampledFrom(ops).Draw(r.T, name+": duplicate"))
	}
	ops = rapid.Permutation(ops).Draw(r.T, name)
	var calls []batch
	for len(ops) > 0 {
		n := rapid.IntRange(1, min(len(ops), 8)).Draw(r.T, name+": calls")
		var b batch
		for _, op := range ops[:n] {
			b.changes, b.merges = append(b.changes, op.changes...), append(b.merges, op.merges...)
		}
		calls, ops = append(calls, b), ops[n:]
	}
	return calls
}

func (r *round) do(b batch) error {
	ctx := r.w.Context()
	refs := make([]person.Ref, len(b.changes))
	for i, c := range b.changes {
		refs[i] = c.Ref
	}
	return errors.Join(
		r.w.Store.Resolve(ctx, refs, make([]uuid.UUID, len(refs))),
		r.w.Store.Merge(ctx, b.merges, make([]person.Outcome, len(b.merges))),
		r.w.Store.Apply(ctx, b.changes))
}

func (r *round) play(calls []batch) {
	r.Helper()
	for _, b := range calls {
		if err := r.do(b); err != nil {
			r.Fatalf("%+v: %v", b, err)
		}
	}
}

// race plays calls from several goroutines at once.
func (r *round) race(calls []batch, goroutines int) {
	r.Helper()
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < len(calls); i += goroutines {
				errs[g] = errors.Join(errs[g], r.do(calls[i]))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		r.Fatalf("concurrent calls: %v", err)
	}
}

// check compares the store with the right result of h.
func (r *round) check(h *history) {
	r.Helper()
	want := h.persons()
	ids := map[string]uuid.UUID{}
	for _, d := range slices.Concat(users, anons) {
		ref := person.Ref{Project: r.project, Distinct: d}
		got, err := r.w.Store.Show(r.w.Context(), ref)
		if want[d] == nil && errors.Is(err, person.ErrUnknown) {
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want[d]) {
			r.Errorf("Show %q: %v, %v; want %v", d, describe(got), err, describe(want[d]))
			continue
		}
		if ids[d] = resolve(r.w.Context(), r, r.w.Store, ref); ids[d] != got.ID {
			r.Errorf("Resolve %q: %v, want %v", d, ids[d], got.ID)
		}
	}
	moved := r.latest(ids)
	for _, m := range h.merges {
		if m.Other != m.Distinct && moved != nil {
			if _, ok := moved[m.Other]; !ok {
				r.Errorf("%q was merged into %q, but never overridden", m.Other, m.Distinct)
			}
		}
	}
}

// latest checks that the newest waiting override of each distinct id names the person that
// it belongs to, and returns these overrides; nil if none are waiting.
func (r *round) latest(ids map[string]uuid.UUID) map[string]person.Override {
	r.Helper()
	var newest map[string]person.Override
	for _, o := range overrides(r.w.Context(), r, r.w.Store, r.project) {
		if newest == nil {
			newest = map[string]person.Override{}
		}
		if o.Version != newest[o.Distinct].Version+1 {
			r.Errorf("override %+v follows version %d", o, newest[o.Distinct].Version)
		}
		newest[o.Distinct] = o
	}
	for _, d := range slices.Sorted(maps.Keys(newest)) {
		if newest[d].Person != ids[d] {
			r.Errorf("the newest override of %q names %v, but it belongs to %v", d, newest[d].Person, ids[d])
		}
	}
	return newest
}

// whole checks what holds after any merges: every id has one person, and that person has
// the id.
func (r *round) whole(h *history) {
	r.Helper()
	named := map[string]bool{}
	for _, c := range h.changes {
		named[c.Distinct] = true
	}
	for _, m := range h.merges {
		if m.Other != m.Distinct {
			named[m.Distinct] = true
		}
	}
	ids := map[string]uuid.UUID{}
	for _, d := range slices.Concat(users, anons) {
		ref := person.Ref{Project: r.project, Distinct: d}
		ids[d] = resolve(r.w.Context(), r, r.w.Store, ref)
		p, err := r.w.Store.Show(r.w.Context(), ref)
		switch {
		case errors.Is(err, person.ErrUnknown):
			if named[d] || ids[d] != person.ID(ref) {
				r.Errorf("%q resolves to %v and was used: %v, but is unknown", d, ids[d], named[d])
			}
		case err != nil:
			r.Errorf("Show %q: %v", d, err)
		case p.ID != ids[d] || !slices.Contains(p.Distinct, d):
			r.Errorf("%q resolves to %v, but is shown as %v", d, ids[d], describe(p))
		default:
			for _, o := range p.Distinct {
				if got := resolve(r.w.Context(), r, r.w.Store, person.Ref{Project: r.project, Distinct: o}); got != p.ID {
					r.Errorf("%q belongs to %v with %q, but resolves to %v", d, p.ID, o, got)
				}
			}
		}
	}
	r.latest(ids)
}

func describe(p *person.Person) string {
	if p == nil {
		return "nobody"
	}
	return fmt.Sprintf("%v of %q, identified %v, created %v, updated %v, properties %q", p.ID, p.Distinct, p.Identified, p.Created, p.Updated, p.Properties)
}
