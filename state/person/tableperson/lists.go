package tableperson

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/table"
)

// Overrides implements person.Outbox.
func (s *Store[Raw]) Overrides(ctx context.Context, most int) (all []person.Override, err error) {
	found, err := s.page(ctx, in("o"), most)
	if err != nil {
		return nil, fmt.Errorf("read overrides: %w", err)
	}
	for _, e := range found {
		all = append(all, person.Override{Seq: int64(number(e.key)), Ref: refOf(e.project, e.distinct), Person: uid(e.person), Version: e.version})
	}
	return all, nil
}

func (s *Store[Raw]) page(ctx context.Context, where []table.Cond, most int) (found []*Entry, err error) {
	if most < 1 {
		return nil, ctx.Err()
	}
	err = s.lists.View(ctx, func(r table.Reader[Entry]) error {
		found, err = r.Page(table.Query[Entry]{Where: where, Most: most})
		return err
	})
	return found, err
}

// atOnce is how many overrides one transaction removes.
const atOnce = 1000

// Relayed implements person.Outbox.
func (s *Store[Raw]) Relayed(ctx context.Context, seq int64) error {
	where := []table.Cond{{Field: "key", Op: ">=", Value: "o"}, {Field: "key", Op: "<=", Value: numbered("o", uint64(max(seq, 0)))}}
	q := table.Query[Entry]{Where: where, Most: atOnce, Only: []string{"version"}}
	for n := atOnce; n == atOnce; {
		if err := s.lists.Update(ctx, func(tx table.Tx[Entry], _ Raw) error {
			page, err := tx.Page(q)
			if n = len(page); err != nil {
				return err
			}
			return tx.Delete(keysOf(page))
		}); err != nil {
			return fmt.Errorf("remove relayed overrides: %w", err)
		}
	}
	return nil
}

func keysOf(page []*Entry) []string {
	keys := make([]string, len(page))
	for i, e := range page {
		keys[i] = e.key
	}
	return keys
}

// Keep implements person.Kept.
func (s *Store[Raw]) Keep(ctx context.Context, merges []person.Merge) error {
	if len(merges) == 0 {
		return ctx.Err()
	}
	if err := s.lists.Update(ctx, func(tx table.Tx[Entry], _ Raw) error {
		last, err := numbers(tx, len(merges)) // before it reads: one that keeps at the same time begins again
		if err != nil {
			return err
		}
		kept, err := all(tx)
		if err != nil {
			return err
		}
		var added []*Entry
		for i, m := range merges {
			if slices.ContainsFunc(kept, m.Claims) {
				continue
			}
			kept = append(kept, m)
			added = append(added, &Entry{key: numbered("k", last-uint64(len(merges)-1-i)), project: m.Project[:], distinct: m.Distinct,
				other: m.Other, event: m.Event[:], at: uint64(m.At.UnixMilli()), force: m.Force})
		}
		if len(added) > 0 && len(kept) > person.MaxKept {
			return person.ErrKeptFull
		}
		return tx.Put(added)
	}); err != nil {
		return fmt.Errorf("keep %d failed merges: %w", len(merges), err)
	}
	return nil
}

// all reads all merges that are kept.
func all(r table.Reader[Entry]) ([]person.Merge, error) {
	page, err := r.Page(table.Query[Entry]{Where: in("k"), Most: math.MaxInt32})
	return mergesOf(page), err
}

func mergesOf(page []*Entry) []person.Merge {
	ms := make([]person.Merge, len(page))
	for i, e := range page {
		ms[i] = person.Merge{Ref: refOf(e.project, e.distinct), Other: e.other, Event: uid(e.event), At: time.UnixMilli(int64(e.at)).UTC(), Force: e.force}
	}
	return ms
}

// Oldest implements person.Kept.
func (s *Store[Raw]) Oldest(ctx context.Context, most int) ([]person.Merge, error) {
	page, err := s.page(ctx, in("k"), most)
	if err != nil {
		return nil, fmt.Errorf("read failed merges: %w", err)
	}
	return mergesOf(page), nil
}

// Done implements person.Kept.
func (s *Store[Raw]) Done(ctx context.Context, merges []person.Merge) error {
	if err := s.lists.Update(ctx, func(tx table.Tx[Entry], _ Raw) error {
		page, err := tx.Page(table.Query[Entry]{Where: in("k"), Most: math.MaxInt32})
		if err != nil {
			return err
		}
		kept := mergesOf(page)
		var gone []string
		for i := range page {
			if slices.ContainsFunc(merges, kept[i].Claims) {
				gone = append(gone, page[i].key)
			}
		}
		return tx.Delete(gone)
	}); err != nil {
		return fmt.Errorf("remove %d failed merges: %w", len(merges), err)
	}
	return nil
}
