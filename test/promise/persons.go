package promise

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// namespace of person ids, a fixed fact.
var namespace = uuid.MustParse("a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d")

// PersonID is the id of the person that is named after a distinct id.
func PersonID(project uuid.UUID, distinct string) uuid.UUID {
	return uuid.NewSHA1(namespace, []byte(project.String()+":"+distinct))
}

// Person is a person, as it is or as events imply it.
type Person struct {
	ID         uuid.UUID
	Identified bool
	Distinct   map[string]bool
	Properties map[string]string
}

// Check checks the person who is named after a distinct id; nil: there is none.
func (x *Person) Check(who string, got *Person, fault Fault) {
	if got == nil || got.ID != x.ID {
		fault("person %v of %s is not there, but %+v", x.ID, who, got)
		return
	}
	if got.Identified != x.Identified || !maps.Equal(got.Properties, x.Properties) {
		fault("person of %s is identified=%v with %v, want %v %v", who, got.Identified, got.Properties, x.Identified, x.Properties)
	}
	for d := range x.Distinct {
		if !got.Distinct[d] {
			fault("person of %s has not the distinct id %q", who, d)
		}
	}
}

// Persons says what each person must be, by the distinct id that it is named after.
func Persons(project uuid.UUID, events []*Event, owners Owners) map[string]*Person {
	all := map[string]*Person{}
	made := map[string]map[string]*changes{} // by person and property
	for _, e := range events {
		who := owners.Of(e.Distinct)
		p := all[who]
		if p == nil {
			p = &Person{ID: PersonID(project, who), Distinct: map[string]bool{}, Properties: map[string]string{}}
			all[who], made[who] = p, map[string]*changes{}
		}
		p.Distinct[e.Distinct] = true
		if e.Other != "" {
			p.Identified = true
			if owners.Of(e.Other) == who {
				p.Distinct[e.Other] = true
			}
		}
		e.note(made[who])
	}
	for who, properties := range made {
		for name, c := range properties {
			if value, there := c.result(); there {
				all[who].Properties[name] = value
			}
		}
	}
	return all
}

// note adds what an event changes, by property.
func (e *Event) note(made map[string]*changes) {
	of := func(name string) *changes {
		if made[name] == nil {
			made[name] = &changes{}
		}
		return made[name]
	}
	for name, v := range e.Set {
		of(name).set = append(of(name).set, change{e, v})
	}
	for name, v := range e.Once {
		of(name).once = append(of(name).once, change{e, v})
	}
	for _, name := range e.Unset {
		of(name).unset = append(of(name).unset, change{e, ""})
	}
}

// change is a property's value by an event.
type change struct {
	by    *Event
	value string
}

func (a change) compare(b change) int {
	return cmp.Or(a.by.At.Compare(b.by.At), cmp.Compare(a.by.Place, b.by.Place), bytes.Compare(a.by.ID[:], b.by.ID[:]))
}

// changes are all of a property.
type changes struct{ set, once, unset []change }

// result is the value that is left: the last that was set, else the first that was set once, and no
// older than the last removal, which in one event comes last.
func (c *changes) result() (value string, there bool) {
	var candidates []change
	if len(c.set) > 0 {
		candidates = append(candidates, slices.MaxFunc(c.set, change.compare))
	}
	if len(c.once) > 0 {
		candidates = append(candidates, slices.MinFunc(c.once, change.compare), slices.MaxFunc(c.once, change.compare))
	}
	for _, x := range candidates {
		if len(c.unset) == 0 || x.compare(slices.MaxFunc(c.unset, change.compare)) > 0 {
			return x.value, true
		}
	}
	return "", false
}
