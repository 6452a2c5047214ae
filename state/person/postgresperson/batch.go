package postgresperson

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

// errMoved says that the person last seen with a distinct id is gone: another transaction
// merged it before it was locked. The transaction must begin again.
var errMoved = errors.New("a person was merged by somebody else before it was locked")

// batch is the state of one transaction: the rows that it has locked, and over them the
// rows that the rules have set.
type batch struct {
	s       *Store
	ctx     context.Context // of the transaction, for Links, which gets none
	tx      pgx.Tx
	refs    []person.Ref // named by the caller
	links   map[person.Ref]rules.Link
	records map[uuid.UUID]*row

	fresh     []uuid.UUID                // persons created for a merge, still empty
	of        map[uuid.UUID][]rules.Link // links of persons, as stored
	changed   []*row                     // in the order of their first change
	moved     []person.Ref
	removed   []uuid.UUID
	overrides []rules.Link
	firstSeq  int64       // number of the first override in the outbox
	damaged   []uuid.UUID // whose registers could not be read
	gone      []uuid.UUID // missing projects
}

var _ rules.Rows = (*batch)(nil)

func newBatch(s *Store, refs int) *batch {
	return &batch{s: s, refs: make([]person.Ref, 0, refs), links: make(map[person.Ref]rules.Link, refs),
		records: make(map[uuid.UUID]*row, refs), of: map[uuid.UUID][]rules.Link{}}
}

// apply folds deltas into their persons. Those in guess were last seen with a person; the
// others count as new.
func (b *batch) apply(ctx context.Context, tx pgx.Tx, deltas []rules.Delta, guess map[person.Ref]uuid.UUID) error {
	b.ctx, b.tx = ctx, tx
	var missing []person.Ref
	at := make(map[person.Ref]*rules.Delta, len(deltas))
	for i := range deltas {
		ref := deltas[i].Ref
		b.refs, at[ref] = append(b.refs, ref), &deltas[i]
		if id, ok := guess[ref]; ok {
			b.links[ref] = rules.Link{Ref: ref, Person: id}
		} else {
			missing = append(missing, ref)
		}
	}
	if len(missing) > 0 {
		created, err := b.create(ctx, missing, func(ref person.Ref) *row {
			rules.Fold(b, at[ref])
			return b.records[person.ID(ref)]
		})
		if err != nil {
			return err
		}
		for _, ref := range created {
			at[ref] = nil
		}
	}
	if err := b.lock(ctx, selectForUpdate, func(l rules.Link) bool { return at[l.Ref] != nil }); err != nil {
		return err
	}
	for i := range deltas {
		if d := &deltas[i]; at[d.Ref] != nil && b.behind(d.Ref) != nil {
			rules.Fold(b, d)
		}
	}
	return b.store(ctx)
}

// merge unites pairs, in order.
func (b *batch) merge(ctx context.Context, tx pgx.Tx, merges []person.Merge) ([]person.Outcome, error) {
	b.ctx, b.tx = ctx, tx
	named := make(map[person.Ref]bool, 2*len(merges))
	var others []person.Ref
	for i := range merges {
		m := &merges[i]
		if m.Other == m.Distinct {
			continue
		}
		other := person.Ref{Project: m.Project, Distinct: m.Other}
		others = append(others, other)
		named[m.Ref], named[other] = true, true
	}
	b.refs = slices.SortedFunc(maps.Keys(named), byRef)
	if err := b.readLinks(ctx, b.refs); err != nil {
		return nil, err
	}
	if missing := b.unlinked(b.refs); len(missing) > 0 {
		created, err := b.create(ctx, missing, func(ref person.Ref) *row {
			return &row{Record: rules.Record{ID: person.ID(ref), Project: ref.Project, CreatedMilli: lastMilli, UpdatedMilli: firstMilli}}
		})
		if err != nil {
			return nil, err
		}
		for _, ref := range created { // the rules will fill them
			b.fresh = append(b.fresh, person.ID(ref))
			delete(b.links, ref)
		}
	}
	if err := b.lock(ctx, selectForMerge, func(rules.Link) bool { return true }); err != nil {
		return nil, err
	}
	var from []uuid.UUID
	for _, ref := range others {
		if r := b.behind(ref); r != nil {
			from = append(from, r.ID)
		}
	}
	if err := b.readLinksOf(ctx, from); err != nil {
		return nil, err
	}
	outcomes := make([]person.Outcome, len(merges))
	for i := range merges {
		m := merges[i]
		m.At = time.UnixMilli(storable(m.At.UnixMilli()))
		if slices.Contains(b.gone, m.Project) {
			outcomes[i] = person.Same // no one is left to be merged
			continue
		}
		var err error
		if outcomes[i], err = rules.Unite(b, &m, b.s.o.Above); err != nil {
			return nil, fmt.Errorf("merge %q into %q: %w", m.Other, m.Distinct, err)
		}
	}
	return outcomes, b.store(ctx)
}

func (b *batch) Link(ref person.Ref) (rules.Link, bool) {
	l, ok := b.links[ref]
	return l, ok
}

func (b *batch) Record(id uuid.UUID) (rules.Record, bool) {
	r, ok := b.records[id]
	if !ok || r.removed {
		return rules.Record{}, false
	}
	return r.Record, true
}

func (b *batch) SetLink(l rules.Link) {
	b.links[l.Ref] = l
	if l.Version > 0 { // otherwise it is new, and create has stored it
		b.moved = append(b.moved, l.Ref)
	}
}

func (b *batch) SetRecord(rec rules.Record) {
	r, ok := b.records[rec.ID]
	if !ok {
		r = &row{decoded: true}
		b.records[rec.ID] = r
	}
	r.replaced = r.replaced || r.raw == nil || !r.Properties.Same(rec.Properties)
	r.Record = rec
	if !r.changed {
		r.changed = true
		b.changed = append(b.changed, r)
	}
}

func (b *batch) Remove(id uuid.UUID) {
	if r, ok := b.records[id]; ok {
		r.removed = true
	}
	b.removed = append(b.removed, id)
}

func (b *batch) Override(l rules.Link) { b.overrides = append(b.overrides, l) }

// Links are the stored links, and over them those that this batch has made. The person is
// locked, so nothing else changes them.
func (b *batch) Links(id uuid.UUID) ([]rules.Link, error) {
	if _, ok := b.of[id]; !ok {
		if err := b.readLinksOf(b.ctx, []uuid.UUID{id}); err != nil {
			return nil, err
		}
	}
	all := make(map[person.Ref]rules.Link, len(b.of[id]))
	for _, l := range b.of[id] {
		all[l.Ref] = l
	}
	for _, l := range b.links {
		if l.Person == id {
			all[l.Ref] = l
		} else {
			delete(all, l.Ref)
		}
	}
	return slices.Collect(maps.Values(all)), nil // Unite sorts them
}

// behind is the person of a distinct id, nil if none is stored.
func (b *batch) behind(ref person.Ref) *row {
	l, ok := b.links[ref]
	if !ok {
		return nil
	}
	return b.records[l.Person]
}

func (b *batch) unlinked(refs []person.Ref) (rest []person.Ref) {
	for _, ref := range refs {
		if _, ok := b.links[ref]; !ok {
			rest = append(rest, ref)
		}
	}
	return rest
}

// readLinks reads the links of refs that are stored.
func (b *batch) readLinks(ctx context.Context, refs []person.Ref) error {
	projects, keys := keysOf(refs)
	rows, err := b.tx.Query(ctx, selectLinks, projects, keys)
	if err := postgresdb.Each(rows, err, func(r pgx.Rows) error {
		var i, version int64
		var l rules.Link
		err := r.Scan(&i, (*[16]byte)(&l.Person), &version)
		l.Ref, l.Version = refs[i-1], uint64(version)
		b.links[l.Ref] = l
		return err
	}); err != nil {
		return fmt.Errorf("read whose %d distinct ids are: %w", len(refs), err)
	}
	return nil
}

// readLinksOf reads all links of persons.
func (b *batch) readLinksOf(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		b.of[id] = nil
	}
	rows, err := b.tx.Query(ctx, selectLinksOf, raw(ids))
	if err := postgresdb.Each(rows, err, func(r pgx.Rows) error {
		var l rules.Link
		var version int64
		var key string
		var whole []byte
		err := r.Scan((*[16]byte)(&l.Person), (*[16]byte)(&l.Project), &key, &whole, &version)
		l.Distinct, l.Version = postgresdb.Name(key, whole), uint64(version)
		b.of[l.Person] = append(b.of[l.Person], l)
		return err
	}); err != nil {
		return fmt.Errorf("read the distinct ids of %d persons: %w", len(ids), err)
	}
	return nil
}

// lock locks and reads the persons of the wanted links.
func (b *batch) lock(ctx context.Context, statement string, wanted func(rules.Link) bool) error {
	ids := make(map[uuid.UUID]bool, len(b.links))
	for _, l := range b.links {
		if wanted(l) {
			ids[l.Person] = true
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found := 0
	rows, err := b.tx.Query(ctx, statement, raw(sortedIDs(ids)))
	if err := postgresdb.Each(rows, err, func(r pgx.Rows) error {
		p, err := scanRow(r)
		if err == nil {
			b.records[p.ID] = p
			found++
		}
		return err
	}); err != nil {
		return fmt.Errorf("lock %d persons: %w", len(ids), err)
	}
	if found < len(ids) {
		return errMoved
	}
	for id := range ids {
		r := b.records[id]
		if r.decode() == nil {
			continue
		}
		if err := r.salvage(ctx, b.tx); err != nil {
			return err
		}
		r.changed, r.replaced = true, true // repair it
		b.changed = append(b.changed, r)
		b.damaged = append(b.damaged, id)
	}
	return nil
}
