package persontest

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

// history is all events, in no order: at most one user claims each id, and a claimed id is
// not itself a user.
type history struct {
	changes []person.Change
	merges  []person.Merge
}

// persons computes the right result of a history by plain counting: the person of every
// distinct id in it.
func (h *history) persons() map[string]*person.Person {
	owner := map[string]string{}
	for _, m := range h.merges {
		if m.Other != m.Distinct {
			owner[m.Other] = m.Distinct
		}
	}
	persons := map[string]*person.Person{} // by owner
	seen := func(r person.Ref, at time.Time) *person.Person {
		distinct := r.Distinct
		if o, ok := owner[distinct]; ok {
			r.Distinct = o
		}
		p := persons[r.Distinct]
		if p == nil {
			p = &person.Person{ID: person.ID(r), Project: r.Project, Properties: map[string][]byte{}, Created: at, Updated: at}
			persons[r.Distinct] = p
		}
		if at.Before(p.Created) {
			p.Created = at
		}
		if at.After(p.Updated) {
			p.Updated = at
		}
		if !slices.Contains(p.Distinct, distinct) {
			p.Distinct = append(p.Distinct, distinct)
		}
		return p
	}
	changes := map[*person.Person][]person.Change{}
	for _, c := range h.changes {
		p := seen(c.Ref, c.At)
		changes[p] = append(changes[p], c)
	}
	for _, m := range h.merges {
		if m.Other != m.Distinct {
			seen(m.Ref, m.At).Identified = true
			seen(person.Ref{Project: m.Project, Distinct: m.Other}, m.At)
		}
	}
	all := map[string]*person.Person{}
	for _, p := range persons {
		p.Updated = p.Updated.Truncate(time.Hour)
		slices.Sort(p.Distinct)
		for _, d := range p.Distinct {
			all[d] = p
		}
		for key := range keys(changes[p]) {
			if v := value(changes[p], key); v != nil {
				p.Properties[key] = v
			}
		}
	}
	return all
}

func keys(changes []person.Change) map[string]bool {
	all := map[string]bool{}
	for _, c := range changes {
		for _, p := range c.Properties {
			all[stored(p.Key)] = !rules.Churn(p.Key)
		}
	}
	for k, ok := range all {
		if !ok {
			delete(all, k)
		}
	}
	return all
}

// value is the written rule, over all operations on a key.
func value(changes []person.Change, key string) []byte {
	changes = slices.Clone(changes)
	slices.SortFunc(changes, func(a, b person.Change) int {
		return cmp.Or(a.At.Compare(b.At), bytes.Compare(a.Event[:], b.Event[:]))
	})
	var set, first, last []byte
	setAt, firstAt, lastAt, unsetAt := -1, -1, -1, -1
	for i, c := range changes {
		for _, p := range c.Properties {
			switch {
			case stored(p.Key) != key:
			case p.Op == person.Set:
				set, setAt = p.Value, i
			case p.Op == person.Once:
				last, lastAt = p.Value, i
				if firstAt < 0 || firstAt == i {
					first, firstAt = p.Value, i
				}
			case p.Op == person.Unset:
				unsetAt = i
			}
		}
	}
	switch {
	case setAt > unsetAt:
		return set
	case firstAt > unsetAt:
		return first
	case lastAt > unsetAt:
		return last
	}
	return nil
}

// stored is a key as it is kept: PostgreSQL holds no U+0000, so no backend does.
func stored(key string) string { return strings.ReplaceAll(key, "\x00", "\uFFFD") }
