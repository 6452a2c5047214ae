// Package memorytable keeps tables in memory: for tests, and for what may be lost with the
// process. Transactions run one after the other.
package memorytable

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// DB holds tables that can take part in one transaction.
type DB struct {
	mu     sync.RWMutex // held by an Update; shared by Views. It guards all tables
	tables map[string]any
}

// NewDB makes a DB without tables.
func NewDB() *DB { return &DB{tables: map[string]any{}} }

// Tx is a transaction of a DB.
type Tx struct {
	db      *DB
	undo    []func()
	refused error // a table of another DB
}

// Store is a table.Store.
type Store[T any] struct {
	db   *DB
	of   *layout.Layout[T]
	data *data[T]
}

// New opens a table of db, and makes it if it does not exist.
func New[T any](db *DB, spec table.Spec[T]) (*Store[T], error) {
	l, err := layout.Of(spec)
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.tables[spec.Name] == nil {
		db.tables[spec.Name] = newData(l)
	}
	d, ok := db.tables[spec.Name].(*data[T])
	if !ok {
		return nil, fmt.Errorf("open table %s: its records are of another type", spec.Name)
	}
	lacks, _, err := l.Fit(d.of.Signature())
	if err != nil {
		return nil, err
	}
	if !lacks.None() {
		d.grow(l)
	}
	return &Store[T]{db, l, d}, nil
}

// Alone makes a table in a DB of its own. It panics where the spec is invalid, which is a mistake in
// the program.
func Alone[T any](spec table.Spec[T]) *Store[T] {
	s, err := New(NewDB(), spec)
	if err != nil {
		panic(err)
	}
	return s
}

// In is the table in a transaction of another table of its DB. Where that is of another DB, its
// verbs return an error, and the transaction changes nothing.
func (s *Store[T]) In(_ context.Context, raw *Tx) table.Tx[T] {
	if raw.db != s.db {
		raw.refused = tidemill.Fail(tidemill.Internal, "table %s is of another DB than the transaction", s.of.Name)
		return layout.Refused[T]{Err: raw.refused}
	}
	return tx[T]{s.of, s.data, raw}
}

// View implements table.Store.
func (s *Store[T]) View(ctx context.Context, do func(table.Reader[T]) error) error {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return do(tx[T]{of: s.of, data: s.data})
}

// Update implements table.Store. It calls do once.
func (s *Store[T]) Update(ctx context.Context, do func(table.Tx[T], *Tx) error) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	raw, done := &Tx{db: s.db}, false
	defer func() { // after a panic too
		for i := len(raw.undo) - 1; i >= 0 && !done; i-- {
			raw.undo[i]()
		}
	}()
	err := do(s.In(ctx, raw), raw)
	if err == nil {
		err = raw.refused
	}
	done = err == nil
	return err
}

// Count implements table.Store.
func (s *Store[T]) Count(ctx context.Context, most int, where ...table.Cond) (n int, err error) {
	p, err := s.of.Counted(most, where)
	if err != nil {
		return 0, err
	}
	err = s.View(ctx, func(table.Reader[T]) error {
		n = s.data.number(p)
		return nil
	})
	return n, err
}

// Counts implements table.Store.
func (s *Store[T]) Counts(ctx context.Context) (counts map[string]int, err error) {
	err = s.View(ctx, func(table.Reader[T]) error {
		counts = maps.Clone(s.data.counts)
		return nil
	})
	return counts, err
}

// Sweep implements table.Store.
func (s *Store[T]) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	return layout.Sweep(ctx, s.of, s, now, most)
}
