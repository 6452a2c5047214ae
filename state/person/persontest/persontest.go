// Package persontest holds every promise of the person role against a backend: use it as
// the whole test of one.
package persontest

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

// Harness is one backend, empty.
type Harness struct {
	Store person.Store
	// Reopen ends the store without closing it, opens its stored data again, and returns
	// that store. nil: nothing survives the process.
	Reopen func(t *testing.T) person.Store
	// Project makes a project for persons. nil: any id will do.
	Project func(t *testing.T) uuid.UUID
}

// Run runs every case against its own fresh harness.
func Run(t *testing.T, h func(t *testing.T) Harness) {
	for _, cases := range [][]example{resolving, properties, merging, keeping, random} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Log("because", c.because)
				hs := h(t)
				w := &world{T: t, Harness: hs}
				w.project = w.newProject()
				c.run(w)
			})
		}
	}
}

// example is one promise, the reason for it, and its check.
type example struct {
	name, because string
	run           func(w *world)
}

// world is what a case works with: a store and a project of it.
type world struct {
	*testing.T
	Harness
	project  uuid.UUID
	projects uint64
	events   uint64
}

var start = time.Date(2026, 3, 1, 10, 20, 30, 456_000_000, time.UTC)

func (w *world) newProject() uuid.UUID {
	if w.Project != nil {
		return w.Project(w.T)
	}
	w.projects++
	return numbered(1, w.projects)
}

// numbered makes ids that sort by their number.
func numbered(kind byte, n uint64) (id uuid.UUID) {
	id[0], id[6], id[8] = kind, 0x40, 0x80
	binary.BigEndian.PutUint32(id[10:], uint32(n>>16))
	binary.BigEndian.PutUint16(id[14:], uint16(n))
	return id
}

func (w *world) ref(distinct string) person.Ref {
	return person.Ref{Project: w.project, Distinct: distinct}
}

// event is a change of its own event, seconds after start.
func (w *world) event(distinct string, seconds int, ps ...person.Property) person.Change {
	w.events++
	return person.Change{Ref: w.ref(distinct), Event: numbered(2, w.events), At: after(seconds), Properties: ps}
}

// claim is a merge of its own event, seconds after start.
func (w *world) claim(distinct, other string, seconds int) person.Merge {
	w.events++
	return person.Merge{Ref: w.ref(distinct), Other: other, Event: numbered(2, w.events), At: after(seconds)}
}

func after(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func set(key, value string) person.Property {
	return person.Property{Op: person.Set, Key: key, Value: []byte(value)}
}

func once(key, value string) person.Property {
	return person.Property{Op: person.Once, Key: key, Value: []byte(value)}
}

func unset(key string) person.Property { return person.Property{Op: person.Unset, Key: key} }

func (w *world) apply(changes ...person.Change) {
	w.Helper()
	if err := w.Store.Apply(w.Context(), changes); err != nil {
		w.Fatalf("Apply: %v", err)
	}
}

// merge merges in one call and checks each outcome.
func (w *world) merge(want []person.Outcome, merges ...person.Merge) {
	w.Helper()
	got := make([]person.Outcome, len(merges))
	if err := w.Store.Merge(w.Context(), merges, got); err != nil {
		w.Fatalf("Merge: %v", err)
	}
	if !slices.Equal(got, want) {
		w.Fatalf("Merge: outcomes are %v, want %v", got, want)
	}
}

func (w *world) resolve(distinct string) uuid.UUID {
	w.Helper()
	return resolve(w.Context(), w, w.Store, w.ref(distinct))
}

// fataler is what testing and rapid have in common.
type fataler interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func resolve(ctx context.Context, t fataler, s person.Persons, r person.Ref) uuid.UUID {
	t.Helper()
	var id [1]uuid.UUID
	if err := s.Resolve(ctx, []person.Ref{r}, id[:]); err != nil {
		t.Fatalf("Resolve %q: %v", r.Distinct, err)
	}
	return id[0]
}

func (w *world) show(distinct string) *person.Person {
	w.Helper()
	p, err := w.Store.Show(w.Context(), w.ref(distinct))
	if err != nil {
		w.Fatalf("Show %q: %v", distinct, err)
	}
	if by, err := w.Store.ShowID(w.Context(), p.Project, p.ID); err != nil || !reflect.DeepEqual(by, p) {
		w.Errorf("ShowID %v: %+v, %v; want %+v, as by %q", p.ID, by, err, p, distinct)
	}
	w.gone(numbered(9, 9), p.ID) // it is of its own project alone
	return p
}

// gone checks that a project has no person of an id.
func (w *world) gone(project, id uuid.UUID) {
	w.Helper()
	if p, err := w.Store.ShowID(w.Context(), project, id); !errors.Is(err, person.ErrUnknown) {
		w.Errorf("ShowID %v: %+v, %v; want ErrUnknown", id, p, err)
	}
}

// unknown checks that a distinct id belongs to no person.
func (w *world) unknown(distinct string) {
	w.Helper()
	if p, err := w.Store.Show(w.Context(), w.ref(distinct)); !errors.Is(err, person.ErrUnknown) {
		w.Errorf("Show %q: %+v, %v; want ErrUnknown", distinct, p, err)
	}
	w.gone(w.project, person.ID(w.ref(distinct)))
	if got, want := w.resolve(distinct), person.ID(w.ref(distinct)); got != want {
		w.Errorf("Resolve %q: %v, want the derived %v", distinct, got, want)
	}
}

// holds checks the properties of the person behind a distinct id: key, value, key, value…
func (w *world) holds(distinct string, kv ...string) {
	w.Helper()
	want := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		want[kv[i]] = kv[i+1]
	}
	got := map[string]string{}
	for k, v := range w.show(distinct).Properties {
		got[k] = string(v)
	}
	if !reflect.DeepEqual(got, want) {
		w.Errorf("%q has the properties %q, want %q", distinct, got, want)
	}
}

// one checks that the distinct ids, and no others, are one person, that of the first.
func (w *world) one(identified bool, distinct ...string) {
	w.Helper()
	want := slices.Sorted(slices.Values(distinct))
	id := person.ID(w.ref(distinct[0]))
	for _, d := range distinct {
		p := w.show(d)
		if p.ID != id || p.Project != w.project || p.Identified != identified || !slices.Equal(p.Distinct, want) {
			w.Errorf("Show %q: %+v; want person %v of %q, identified %v", d, p, id, want, identified)
		}
		if got := w.resolve(d); got != id {
			w.Errorf("Resolve %q: %v, want %v", d, got, id)
		}
		if own := person.ID(w.ref(d)); own != id {
			w.gone(w.project, own) // it was merged into this one, or never was
		}
	}
}

// lived checks the times of a person in seconds after start; updated is floored.
func (w *world) lived(distinct string, created, updated int) {
	w.Helper()
	p := w.show(distinct)
	if c, u := after(created), after(updated).Truncate(time.Hour); p.Created != c || p.Updated != u {
		w.Errorf("%q was created %v and updated %v, want %v and %v", distinct, p.Created, p.Updated, c, u)
	}
}

// overrides takes this project's overrides out of the outbox.
func (w *world) overrides() []person.Override {
	w.Helper()
	return overrides(w.Context(), w, w.Store, w.project)
}

func overrides(ctx context.Context, t fataler, s person.Outbox, project uuid.UUID) (all []person.Override) {
	t.Helper()
	last := int64(0)
	for {
		some, err := s.Overrides(ctx, 3) // small pages, to see them
		if err != nil {
			t.Fatalf("Overrides: %v", err)
		}
		if len(some) == 0 {
			return all
		}
		for _, o := range some {
			if o.Seq <= last {
				t.Fatalf("Overrides: sequence number %d came after %d", o.Seq, last)
			}
			last = o.Seq
			if o.Project == project {
				all = append(all, o)
			}
		}
		if err := s.Relayed(ctx, last); err != nil {
			t.Fatalf("Relayed: %v", err)
		}
	}
}

// overridden checks this project's overrides: one for each distinct id, in order, to the
// person of a distinct id, with that version.
func (w *world) overridden(to string, version uint64, distinct ...string) {
	w.Helper()
	got := w.overrides()
	for i := range got {
		got[i].Seq = 0
	}
	var want []person.Override
	for _, d := range distinct {
		want = append(want, person.Override{Ref: w.ref(d), Person: person.ID(w.ref(to)), Version: version})
	}
	if !reflect.DeepEqual(got, want) {
		w.Errorf("the outbox held %+v, want %+v", got, want)
	}
}
