package tabletest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

// toy is what a backend costs at least: a map that each transaction copies, and sorts for each
// page.
type toy[T any] struct {
	of *layout.Layout[T]

	mu   sync.Mutex // guards what follows
	rows map[string]*T
	last uint64
}

type none struct{}

func (s *toy[T]) View(ctx context.Context, do func(table.Reader[T]) error) error {
	return s.Update(ctx, func(tx table.Tx[T], _ none) error { return do(tx) })
}

func (s *toy[T]) Update(ctx context.Context, do func(table.Tx[T], none) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	tx := &toyTx[T]{s.of, maps.Clone(s.rows), s.last}
	if err := do(tx, none{}); err != nil {
		return err
	}
	s.rows, s.last = tx.rows, tx.last
	return nil
}

func (s *toy[T]) Count(ctx context.Context, most int, where ...table.Cond) (n int, err error) {
	err = s.View(ctx, func(tx table.Reader[T]) error {
		page, err := tx.Page(table.Query[T]{Most: most, Where: where})
		n = len(page)
		return err
	})
	return n, err
}

func (s *toy[T]) Counts(ctx context.Context) (map[string]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, r := range s.rows {
		if s.of.Count.Of != nil && s.of.Count.Of(r) != "" {
			counts[s.of.Count.Of(r)]++
		}
	}
	return counts, ctx.Err()
}

func (s *toy[T]) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	return layout.Sweep(ctx, s.of, s, now, most)
}

type toyTx[T any] struct {
	of   *layout.Layout[T]
	rows map[string]*T
	last uint64
}

func (t *toyTx[T]) Get(keys []string, only ...string) (map[string]*T, error) {
	fields, err := t.of.Only(only)
	found := map[string]*T{}
	for _, k := range keys {
		if r := t.rows[k]; r != nil {
			found[k] = new(T)
			layout.Copy(found[k], r, fields)
		}
	}
	return found, err
}

func (t *toyTx[T]) Put(rows []*T, only ...string) error {
	fields, err := t.of.Only(only)
	if err != nil {
		return err
	}
	if rows, err = t.of.Rows(rows, fields); err != nil {
		return err
	}
	for _, r := range rows {
		kept, next := t.rows[t.of.Key(r)], new(T)
		if kept == nil && len(only) > 0 {
			continue
		}
		if kept != nil {
			layout.Copy(next, kept, t.of.Fields)
		}
		layout.Copy(next, r, fields)
		t.rows[t.of.Key(r)] = next
	}
	return nil
}

func (t *toyTx[T]) Delete(keys []string) error {
	for _, k := range keys {
		delete(t.rows, k)
	}
	return nil
}

func (t *toyTx[T]) Page(q table.Query[T]) ([]*T, error) {
	p, err := t.of.Plan(q)
	if err != nil || p.Empty {
		return nil, err
	}
	var page []*T
	for _, r := range t.rows {
		if !p.Before(r) && !p.Beyond(r) && p.Fits(r) {
			page = append(page, r)
		}
	}
	slices.SortFunc(page, func(a, b *T) int { return layout.Ordered(a, b, t.of.Order(q.By)) })
	if q.Back {
		slices.Reverse(page)
	}
	page = page[:min(len(page), p.Most)]
	for i, r := range page {
		page[i] = new(T)
		layout.Copy(page[i], r, p.Only)
	}
	return page, nil
}

func (t *toyTx[T]) Next(n int) (uint64, error) {
	if err := t.of.CheckNext(n); err != nil {
		return 0, err
	}
	t.last += uint64(n)
	return t.last, nil
}

func TestASmallBackendPasses(t *testing.T) {
	tabletest.Run(t, func(testing.TB) tabletest.Harness[none] {
		tables := map[string]*toy[tabletest.Record]{}
		return tabletest.Harness[none]{
			Open: func(_ context.Context, spec table.Spec[tabletest.Record]) (table.Store[tabletest.Record, none], error) {
				l, err := layout.Of(spec)
				if err != nil {
					return nil, err
				}
				s := tables[spec.Name]
				if s == nil {
					s = &toy[tabletest.Record]{of: l, rows: map[string]*tabletest.Record{}}
					tables[spec.Name] = s
				}
				if _, _, err := l.Fit(s.of.Signature()); err != nil {
					return nil, fmt.Errorf("toy: %w", err)
				}
				return s, nil
			},
		}
	})
}
