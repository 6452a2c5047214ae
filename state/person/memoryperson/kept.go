package memoryperson

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/person"
)

// Keep is person.Kept.
func (s *Store) Keep(ctx context.Context, merges []person.Merge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := slices.Clip(s.kept) // none is added when not all fit
	for _, m := range merges {
		if slices.ContainsFunc(kept, m.Claims) {
			continue
		}
		if len(kept) == person.MaxKept {
			return fmt.Errorf("keep %d failed merges: %w", len(merges), person.ErrKeptFull)
		}
		m.Distinct, m.Other = strings.Clone(m.Distinct), strings.Clone(m.Other)
		m.At = time.UnixMilli(m.At.UnixMilli()).UTC()
		kept = append(kept, m)
	}
	s.kept = kept
	return nil
}

// Oldest is person.Kept.
func (s *Store) Oldest(ctx context.Context, max int) ([]person.Merge, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept[:min(len(s.kept), limit(max))]), nil
}

// Done is person.Kept.
func (s *Store) Done(ctx context.Context, merges []person.Merge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = slices.DeleteFunc(s.kept, func(m person.Merge) bool { return slices.ContainsFunc(merges, m.Claims) })
	return nil
}
