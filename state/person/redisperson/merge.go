package redisperson

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

// Merge is person.Persons: the store first, the cache last.
func (s *Store) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	_, err := s.MergeMoved(ctx, merges, outcomes)
	return err
}

// MergeMoved is person.Mover.
func (s *Store) MergeMoved(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) ([]person.Override, error) {
	moved, err := s.merge(ctx, merges, outcomes)
	// Finished merges are final, and the cache has to learn of them, also when ctx has
	// ended.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	ids := make(map[person.Ref]uuid.UUID, len(moved))
	var refs []person.Ref
	for _, o := range moved {
		if _, twice := ids[o.Ref]; !twice {
			refs = append(refs, o.Ref)
		}
		ids[o.Ref] = o.Person // the last move of a distinct id
	}
	s.write(after, refs, ids)
	if err != nil && ctx.Err() == nil {
		for i := range merges {
			if i < len(outcomes) && outcomes[i] == 0 { // it may be done anyway
				s.suspects(merges[i].Ref, person.Ref{Project: merges[i].Project, Distinct: merges[i].Other})
			}
		}
	}
	return moved, err
}

// merge merges in the store and finds out what moved: from the store's answer if it can
// tell, else by reading the survivors.
func (s *Store) merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) (moved []person.Override, err error) {
	if m, ok := s.Store.(person.Mover); ok {
		return m.MergeMoved(ctx, merges, outcomes)
	}
	err = s.Store.Merge(ctx, merges, outcomes)
	look := context.WithoutCancel(ctx)
	seen := map[person.Ref]bool{}
	for i := range merges {
		m := &merges[i]
		if i >= len(outcomes) || outcomes[i] != person.Merged || seen[m.Ref] {
			continue
		}
		seen[m.Ref] = true
		p, serr := s.Store.Show(look, m.Ref)
		if serr != nil {
			if !errors.Is(serr, person.ErrUnknown) { // those it was merged with are found in the outbox
				s.suspects(m.Ref, person.Ref{Project: m.Project, Distinct: m.Other})
			}
			continue
		}
		for _, d := range p.Distinct {
			moved = append(moved, person.Override{Ref: person.Ref{Project: m.Project, Distinct: d}, Person: p.ID})
		}
	}
	return moved, err
}

// Overrides is person.Outbox. Before overrides leave the outbox the cache is compared with
// them, and late entries are repaired, if the cache answers.
func (s *Store) Overrides(ctx context.Context, most int) ([]person.Override, error) {
	all, err := s.Store.Overrides(ctx, most)
	if err != nil {
		return nil, err
	}
	s.compare(ctx, all)
	s.heal(ctx)
	return all, nil
}

// compare repairs cache entries that differ from the overrides. The store will be asked
// about keys that are not in the cache.
func (s *Store) compare(ctx context.Context, all []person.Override) {
	looked := make(map[int64]struct{}, len(all))
	newest := make(map[person.Ref]person.Override, len(all))
	var refs []person.Ref
	s.mu.Lock()
	for _, o := range all {
		looked[o.Seq] = struct{}{}
		if _, before := s.looked[o.Seq]; before {
			continue
		}
		old, twice := newest[o.Ref]
		if !twice {
			refs = append(refs, o.Ref)
		}
		if !twice || o.Version > old.Version {
			newest[o.Ref] = o
		}
	}
	s.looked = looked
	s.mu.Unlock()
	if len(refs) == 0 {
		return
	}
	if !s.there() {
		s.suspects(refs...)
		return
	}
	found, err := s.read(ctx, refs)
	if s.answered(ctx, err); err != nil {
		s.suspects(refs...)
		return
	}
	for _, r := range refs {
		if id, ok := found[r]; ok && id != newest[r].Person {
			s.suspects(r) // or moved again since; the store knows in both cases
		}
	}
}

// healAtOnce is how many suspect keys are repaired at once.
const healAtOnce = 1000

// heal repairs suspect keys, as many as fit into one pass.
func (s *Store) heal(ctx context.Context) {
	if !s.there() {
		return
	}
	s.mu.Lock()
	refs := slices.SortedFunc(maps.Keys(s.suspect), func(a, b person.Ref) int {
		return cmp.Or(slices.Compare(a.Project[:], b.Project[:]), cmp.Compare(a.Distinct, b.Distinct))
	})
	refs = refs[:min(len(refs), healAtOnce)]
	s.lost = false
	s.mu.Unlock()
	if len(refs) == 0 {
		return
	}
	ids, err := s.ask(ctx, refs)
	if err != nil {
		return
	}
	s.write(ctx, refs, ids)
}
