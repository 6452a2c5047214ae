//go:build servers

package faults

import (
	"bytes"
	"time"

	"github.com/google/uuid"
)

// namespace of person ids, a fixed fact.
var namespace = uuid.MustParse("a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d")

// personID is the id of the person that is named after a distinct id.
func personID(distinct string) uuid.UUID {
	return uuid.NewSHA1(namespace, []byte(project.String()+":"+distinct))
}

// person is a person as the events imply it, found without the product's rules.
type person struct {
	identified bool
	distinct   map[string]bool
	properties map[string]string
}

// owners are the anonymous ids that a valid event gave to a user.
func owners(events []*event) map[string]string {
	of := map[string]string{}
	for _, e := range events {
		if e.other != "" && e.confirmed > 0 && !e.kind.dead() {
			of[e.other] = e.distinct
		}
	}
	return of
}

func whose(of map[string]string, distinct string) string {
	if user, ok := of[distinct]; ok {
		return user
	}
	return distinct
}

// persons says what each person must be, by the distinct id that it is named after.
func persons(events []*event) map[string]*person {
	type op struct {
		at    time.Time
		id    uuid.UUID
		value string
	}
	later := func(a, b op) bool {
		if !a.at.Equal(b.at) {
			return a.at.After(b.at)
		}
		return bytes.Compare(a.id[:], b.id[:]) > 0
	}
	type ops struct{ set, once, unset []op }
	of := owners(events)
	all := map[string]map[string]*ops{}
	out := map[string]*person{}
	for _, e := range events {
		if e.kind.dead() || e.confirmed == 0 {
			continue
		}
		who := whose(of, e.distinct)
		if out[who] == nil {
			out[who] = &person{properties: map[string]string{}, distinct: map[string]bool{}}
			all[who] = map[string]*ops{}
		}
		p := out[who]
		p.distinct[e.distinct] = true
		if e.other != "" {
			p.identified, p.distinct[e.other] = true, true
		}
		in := func(key string) *ops {
			if all[who][key] == nil {
				all[who][key] = &ops{}
			}
			return all[who][key]
		}
		for k, v := range e.set {
			in(k).set = append(in(k).set, op{e.at, e.id, v})
		}
		for k, v := range e.once {
			in(k).once = append(in(k).once, op{e.at, e.id, v})
		}
		for _, k := range e.unset {
			in(k).unset = append(in(k).unset, op{e.at, e.id, ""})
		}
	}
	last := func(list []op) (best *op) {
		for i := range list {
			if best == nil || later(list[i], *best) {
				best = &list[i]
			}
		}
		return best
	}
	for who, keys := range all {
		for key, o := range keys {
			gone := last(o.unset)
			var first *op
			for i := range o.once {
				if first == nil || later(*first, o.once[i]) {
					first = &o.once[i]
				}
			}
			for _, c := range []*op{last(o.set), first, last(o.once)} {
				if c != nil && (gone == nil || later(*c, *gone)) { // in one event the removal is last
					out[who].properties[key] = c.value
					break
				}
			}
		}
	}
	return out
}
