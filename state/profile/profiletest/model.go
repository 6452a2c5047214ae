package profiletest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

// person is a profile in the model: its operations, in the order of arrival.
type person struct {
	id   uuid.UUID
	has  map[profile.Identity]bool
	done []op
}

type op struct {
	profile.Attribute
	at    int // seconds after start, no two of one attribute alike
	event string
}

// history is what a model must follow. It draws different times for all operations on an
// attribute, and does not mix the operations whose order of arrival counts.
type history struct {
	people []*person
	used   map[string]bool
}

func (h *history) owner(i profile.Identity) *person {
	for _, p := range h.people {
		if p.has[i] {
			return p
		}
	}
	return nil
}

// resolve computes the right answer to an ask by plain counting.
func (h *history) resolve(r *rapid.T, a profile.Ask, got profile.Answer) {
	var is []profile.Identity
	for _, i := range []profile.Identity{ext(a.External), mail(a.Email), phone(a.Phone)} {
		if i.Value != "" {
			is = append(is, i)
		}
	}
	var owners []*person
	for _, i := range is {
		if p := h.owner(i); p != nil && !slices.Contains(owners, p) {
			owners = append(owners, p)
		}
	}
	e, ambiguous := errors.AsType[*profile.AmbiguousError](got.Err)
	switch {
	case len(is) == 0:
		if !errors.Is(got.Err, profile.ErrIdentity) {
			r.Fatalf("%+v: %+v, want it refused", a, got)
		}
	case len(owners) > 1:
		var ids []uuid.UUID
		for _, o := range owners {
			ids = append(ids, o.id)
		}
		if !ambiguous || !slices.Equal(e.Profiles, ids) {
			r.Fatalf("%+v: %+v, want it ambiguous between %v", a, got, ids)
		}
	case len(owners) == 0 && !a.Create:
		if !errors.Is(got.Err, profile.ErrNotFound) {
			r.Fatalf("%+v: %+v, want it not found", a, got)
		}
	default:
		if len(owners) == 0 {
			if got.Err != nil || !got.New {
				r.Fatalf("%+v: %+v, want it new", a, got)
			}
			owners = []*person{{id: got.Profile, has: map[profile.Identity]bool{}}}
			h.people = append(h.people, owners[0])
		} else if got != (profile.Answer{Profile: owners[0].id}) {
			r.Fatalf("%+v: %+v, want %v", a, got, owners[0].id)
		}
		for _, i := range is {
			owners[0].has[i] = true
		}
	}
}

// value is the written rule, over all operations on an attribute in the order of their
// times.
func (p *person) value(key string) (string, bool) {
	var ops []op
	for _, o := range p.done {
		if o.Key == key {
			ops = append(ops, o)
		}
	}
	slices.SortStableFunc(ops, func(a, b op) int { return cmp.Compare(a.at, b.at) })
	v, there := "", false
	for _, o := range ops {
		switch o.Op {
		case profile.Set:
			v, there = string(o.Value), true
		case profile.Unset:
			v, there = "", false
		case profile.Once:
			if !there {
				v, there = string(o.Value), true
			}
		case profile.Add:
			a, _ := new(big.Rat).SetString(cmp.Or(v, "0"))
			b, _ := new(big.Rat).SetString(string(o.Value))
			v, there = a.Add(a, b).FloatString(0), true
		}
	}
	return v, there
}

func (p *person) object() []byte {
	shown := profile.Profile{Attributes: map[string][]byte{}}
	for _, key := range attributes {
		if v, ok := p.value(key); ok {
			shown.Attributes[key] = []byte(v)
		}
	}
	return shown.Object()
}

// The attributes of the model, each with operations that give the same result in any order.
var (
	kinds = map[string][]profile.Op{
		"written": {profile.Set, profile.Unset},
		"first":   {profile.Once},
		"count":   {profile.Add},
	}
	attributes = slices.Sorted(maps.Keys(kinds))
)

// follows drives a store with random calls and compares every answer with a model.
func follows(t *testing.T, open Open) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, open, profile.Options{})
		if w.Close != nil {
			defer w.Close()
		}
		h := &history{used: map[string]bool{}}
		value := func(r *rapid.T, prefix, suffix, label string) string {
			n := rapid.IntRange(-1, 3).Draw(r, label)
			if n < 0 {
				return ""
			}
			return fmt.Sprint(prefix, n, suffix)
		}
		events := 0
		r.Repeat(map[string]func(*rapid.T){
			"resolve": func(r *rapid.T) {
				asks := make([]profile.Ask, rapid.IntRange(1, 4).Draw(r, "asks"))
				for i := range asks {
					asks[i] = profile.Ask{Tenant: tenant, Create: rapid.Bool().Draw(r, "create"), Identities: profile.Identities{
						External: value(r, "m-", "", "external"), Email: value(r, "m", "@club.example", "email"), Phone: value(r, "1000", "", "phone")}}
				}
				answers := make([]profile.Answer, len(asks))
				if err := w.Store.Resolve(t.Context(), asks, answers); err != nil {
					r.Fatal(err)
				}
				for i := range asks {
					h.resolve(r, asks[i], answers[i])
				}
			},
			"update": func(r *rapid.T) {
				if len(h.people) == 0 {
					r.Skip()
				}
				var cs []profile.Change
				for range rapid.IntRange(1, 4).Draw(r, "changes") {
					events++
					p := rapid.SampledFrom(h.people).Draw(r, "profile")
					at := rapid.IntRange(-1000000, -1).Draw(r, "at")
					c := change(p.id, fmt.Sprint(events), at)
					for _, key := range attributes {
						if !rapid.Bool().Draw(r, key) || h.used[fmt.Sprint(p.id, key, at)] {
							continue
						}
						h.used[fmt.Sprint(p.id, key, at)] = true
						a := profile.Attribute{Op: rapid.SampledFrom(kinds[key]).Draw(r, "operation"), Key: key}
						if a.Op != profile.Unset {
							a.Value = fmt.Append(nil, rapid.Int64().Draw(r, "value"))
						}
						c.Attributes = append(c.Attributes, a)
						p.done = append(p.done, op{Attribute: a, at: at, event: c.Event})
					}
					cs = append(cs, c)
				}
				if err := w.Store.Update(t.Context(), cs); err != nil {
					r.Fatal(err)
				}
			},
			"delete": func(r *rapid.T) {
				if len(h.people) == 0 || rapid.IntRange(0, 3).Draw(r, "really") > 0 {
					r.Skip()
				}
				i := rapid.IntRange(0, len(h.people)-1).Draw(r, "profile")
				if there, err := w.Store.Delete(t.Context(), tenant, h.people[i].id); err != nil || !there {
					r.Fatalf("Delete: %v, %v", there, err)
				}
				gone := profile.Change{Tenant: tenant, Profile: h.people[i].id}
				if p, ok := errors.AsType[*tidemill.Partial](w.Store.Update(t.Context(), []profile.Change{gone})); !ok || tidemill.KindOf(p.Failed[0].Err) != tidemill.NotFound {
					r.Fatalf("Update of what was deleted: %v", p)
				}
				h.people = slices.Delete(h.people, i, i+1)
			},
			"time passes": func(*rapid.T) { w.clock.Advance(time.Second) },
			"restart": func(r *rapid.T) {
				if w.Reopen == nil || rapid.IntRange(0, 9).Draw(r, "really") > 0 {
					r.Skip()
				}
				w.Store = w.Reopen(t)
			},
			"": func(r *rapid.T) {
				ps, err := w.Store.List(t.Context(), tenant, uuid.Nil, 0)
				if err != nil || len(ps) != len(h.people) {
					r.Fatalf("List: %d profiles, %v; want %d", len(ps), err, len(h.people))
				}
				for _, p := range ps {
					at := slices.IndexFunc(h.people, func(q *person) bool { return q.id == p.ID })
					if at < 0 {
						r.Fatalf("profile %v is nobody", p.ID)
					}
					want := h.people[at]
					is := slices.SortedFunc(maps.Keys(want.has), profile.Identity.Compare)
					if !slices.Equal(p.Identities, is) || string(p.Object()) != string(want.object()) {
						r.Fatalf("profile %v: %v %s, want %v %s", p.ID, p.Identities, p.Object(), is, want.object())
					}
				}
			},
		})
	})
}
