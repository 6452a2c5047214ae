package memoryperson

import (
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

// rows are all persons, as the rules read and write them.
type rows struct {
	store   *Store
	links   map[person.Ref]rules.Link
	records map[uuid.UUID]rules.Record
	of      map[uuid.UUID]map[string]struct{} // the distinct ids of each person
}

var _ rules.Rows = (*rows)(nil)

func (r *rows) Link(ref person.Ref) (rules.Link, bool) {
	l, ok := r.links[ref]
	return l, ok
}

func (r *rows) Record(id uuid.UUID) (rules.Record, bool) {
	rec, ok := r.records[id]
	return rec, ok
}

func (r *rows) Links(id uuid.UUID) ([]rules.Link, error) {
	project := r.records[id].Project
	var links []rules.Link
	for _, d := range r.distinct(id) {
		links = append(links, r.links[person.Ref{Project: project, Distinct: d}])
	}
	return links, nil
}

func (r *rows) SetLink(l rules.Link) {
	delete(r.of[r.links[l.Ref].Person], l.Distinct)
	if r.of[l.Person] == nil {
		r.of[l.Person] = map[string]struct{}{}
	}
	r.of[l.Person][l.Distinct] = struct{}{}
	r.links[l.Ref] = l
}

func (r *rows) SetRecord(rec rules.Record) { r.records[rec.ID] = rec }

func (r *rows) Remove(id uuid.UUID) {
	delete(r.records, id)
	delete(r.of, id)
}

func (r *rows) Override(l rules.Link) {
	r.store.seq++
	r.store.outbox = append(r.store.outbox, person.Override{Seq: r.store.seq, Ref: l.Ref, Person: l.Person, Version: l.Version})
}

// distinct are the distinct ids of a person, sorted.
func (r *rows) distinct(id uuid.UUID) []string { return slices.Sorted(maps.Keys(r.of[id])) }
