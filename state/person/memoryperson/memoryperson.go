// Package memoryperson keeps persons in memory: the reference of the role's meaning, and
// the store of simulation. Nothing survives the process.
package memoryperson

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

var (
	_ person.Store = (*Store)(nil)
	_ person.Mover = (*Store)(nil)
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	Above uint64 // versions of overrides are greater: the highest one of an existing warehouse
}

// Store is a person.Store in memory. It may be used from several goroutines.
type Store struct {
	o Options

	mu     sync.Mutex // guards all below
	rows   rows
	outbox []person.Override
	seq    int64
	kept   []person.Merge
}

// New returns an empty Store.
func New(o Options) *Store {
	s := &Store{o: o}
	s.rows = rows{store: s, links: map[person.Ref]rules.Link{}, records: map[uuid.UUID]rules.Record{},
		of: map[uuid.UUID]map[string]struct{}{}}
	return s
}

// Resolve is person.Persons.
func (s *Store) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(into) < len(refs) {
		return fmt.Errorf("resolve %d distinct ids: there is room for %d", len(refs), len(into))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range refs {
		if l, ok := s.rows.Link(r); ok {
			into[i] = l.Person
		} else {
			into[i] = person.ID(r)
		}
	}
	return nil
}

// Apply is person.Persons.
func (s *Store) Apply(ctx context.Context, changes []person.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deltas := rules.Deltas(changes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range deltas {
		d := &deltas[i]
		d.Distinct, d.Properties = strings.Clone(d.Distinct), d.Properties.Clone()
		rules.Fold(&s.rows, d)
	}
	return nil
}

// Merge is person.Persons.
func (s *Store) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	_, err := s.MergeMoved(ctx, merges, outcomes)
	return err
}

// MergeMoved is person.Mover.
func (s *Store) MergeMoved(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) (moved []person.Override, err error) {
	if len(outcomes) < len(merges) {
		return nil, fmt.Errorf("merge %d pairs: there is room for %d outcomes", len(merges), len(outcomes))
	}
	clear(outcomes[:len(merges)])
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.outbox)
	defer func() { moved = slices.Clone(s.outbox[before:]) }()
	for i := range merges {
		m := merges[i]
		m.Distinct, m.Other = strings.Clone(m.Distinct), strings.Clone(m.Other)
		if outcomes[i], err = rules.Unite(&s.rows, &m, s.o.Above); err != nil {
			return nil, fmt.Errorf("merge %q into %q: %w", m.Other, m.Distinct, err)
		}
	}
	return nil, nil
}

// Overrides is person.Outbox.
func (s *Store) Overrides(ctx context.Context, max int) ([]person.Override, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.outbox[:min(len(s.outbox), limit(max))]), nil
}

// Relayed is person.Outbox.
func (s *Store) Relayed(ctx context.Context, seq int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbox = slices.DeleteFunc(s.outbox, func(o person.Override) bool { return o.Seq <= seq })
	return nil
}

// Show is person.Directory.
func (s *Store) Show(ctx context.Context, ref person.Ref) (*person.Person, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.rows.Link(ref)
	if !ok {
		return nil, fmt.Errorf("show %q: %w", ref.Distinct, person.ErrUnknown)
	}
	r, ok := s.rows.Record(l.Person)
	if !ok {
		return nil, fmt.Errorf("show %q: %w", ref.Distinct, person.ErrUnknown)
	}
	return r.Show(s.rows.distinct(r.ID)), nil
}

// ShowID is person.Directory.
func (s *Store) ShowID(ctx context.Context, project, id uuid.UUID) (*person.Person, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows.Record(id)
	if !ok || r.Project != project {
		return nil, fmt.Errorf("show person %v: %w", id, person.ErrUnknown)
	}
	return r.Show(s.rows.distinct(id)), nil
}

func limit(max int) int {
	if max < 0 {
		return 0
	}
	return max
}
