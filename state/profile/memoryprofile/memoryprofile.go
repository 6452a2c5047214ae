// Package memoryprofile keeps profiles in memory: for tests, simulation and data that may
// be lost at a restart. It is the reference of the role's meaning.
package memoryprofile

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

// Store is a profile.Store in memory. It may be used from several goroutines, and grows
// with its profiles.
type Store struct {
	o profile.Options

	mu      sync.Mutex // guards what follows, held for short work in memory only
	names   map[rules.Name]uuid.UUID
	records map[rules.Owner]*rules.Record
	has     map[rules.Owner][]profile.Identity // sorted
}

var _ profile.Store = (*Store)(nil)

// New makes an empty store.
func New(o profile.Options) (*Store, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{o: o, names: map[rules.Name]uuid.UUID{}, records: map[rules.Owner]*rules.Record{},
		has: map[rules.Owner][]profile.Identity{}}, nil
}

// Resolve implements profile.Resolver.
func (s *Store) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := rules.NewBatch(asks, answers, s.o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range b.Names {
		if id, ok := s.names[n]; ok {
			b.Has(n, id)
		}
	}
	for _, o := range b.Crowd() {
		counts := map[profile.Kind]int{}
		for _, i := range s.has[o] {
			counts[i.Kind]++
			b.Counts(o.ID, i.Kind, counts[i.Kind])
		}
	}
	if !b.Decide() {
		return nil
	}
	now := s.o.Now().UnixMilli()
	for _, o := range b.Created {
		s.records[o] = &rules.Record{Owner: o, Created: now, Updated: now}
	}
	for _, g := range b.Given {
		o := rules.Owner{Tenant: g.Tenant, ID: g.Profile}
		s.names[g.Name] = g.Profile
		at, _ := slices.BinarySearchFunc(s.has[o], g.Identity, profile.Identity.Compare)
		s.has[o] = slices.Insert(s.has[o], at, g.Identity)
	}
	return nil
}

// Update implements profile.Updater.
func (s *Store) Update(ctx context.Context, changes []profile.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := rules.NewEdit(changes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range e.Owners {
		if r := s.records[o]; r != nil {
			e.Found(r, nil)
		}
	}
	e.Apply(s.o.Now())
	return e.Err()
}

// Get implements profile.Directory.
func (s *Store) Get(ctx context.Context, tenant string, id uuid.UUID) (*profile.Profile, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := profile.CheckTenant(tenant); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.show(rules.Owner{Tenant: tenant, ID: id}); p != nil {
		return p, nil
	}
	return nil, rules.NotFound(tenant, id)
}

// show returns the profile of an owner, or nil.
func (s *Store) show(o rules.Owner) *profile.Profile {
	r := s.records[o]
	if r == nil {
		return nil
	}
	return r.Show(slices.Clone(s.has[o]))
}

// Find implements profile.Directory.
func (s *Store) Find(ctx context.Context, tenant string, by profile.Identity) (*profile.Profile, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n, err := rules.Sought(tenant, by)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.names[n]; ok {
		return s.show(rules.Owner{Tenant: tenant, ID: id}), nil
	}
	return nil, rules.NobodyHas(n)
}

// List implements profile.Directory.
func (s *Store) List(ctx context.Context, tenant string, after uuid.UUID, limit int) ([]*profile.Profile, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := profile.CheckTenant(tenant); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	from := rules.Owner{Tenant: tenant, ID: after}
	var page []rules.Owner
	for o := range s.records {
		if o.Tenant == tenant && o.Compare(from) > 0 {
			page = append(page, o)
		}
	}
	slices.SortFunc(page, rules.Owner.Compare)
	var ps []*profile.Profile
	for _, o := range page[:min(len(page), rules.Page(limit))] {
		ps = append(ps, s.show(o))
	}
	return ps, nil
}

// Delete implements profile.Eraser.
func (s *Store) Delete(ctx context.Context, tenant string, id uuid.UUID) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := profile.CheckTenant(tenant); err != nil {
		return false, fmt.Errorf("delete profile %v: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := rules.Owner{Tenant: tenant, ID: id}
	_, there := s.records[o]
	for _, i := range s.has[o] {
		delete(s.names, rules.Name{Tenant: tenant, Identity: i})
	}
	delete(s.has, o)
	delete(s.records, o)
	return there, nil
}
