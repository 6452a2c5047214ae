// Package sqlitetable keeps tables in the embedded SQLite file. A table has a column for each
// field, which any SQL client reads: strings and bytes are blobs, times milliseconds since 1970
// (0: none), numbers and bools integers; a uint64 over math.MaxInt64 is negative, with its bits.
package sqlitetable

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// Tx is the transaction that a table's changes are made in.
type Tx = sqlitedb.Tx

// Store is a table.Store.
type Store[T any] struct {
	db  *sqlitedb.DB
	of  *layout.Layout[T]
	sql statements
}

// New opens a table of db, and makes it if it does not exist.
func New[T any](ctx context.Context, db *sqlitedb.DB, spec table.Spec[T]) (*Store[T], error) {
	l, err := layout.Of(spec)
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, "table "+l.Name, []string{schema(l)}); err != nil {
		return nil, fmt.Errorf("open table %s: %w", l.Name, err)
	}
	s := &Store[T]{db, l, statementsOf(l)}
	if err := db.Write(ctx, s.grow); err != nil {
		return nil, fmt.Errorf("open table %s: %w", l.Name, err)
	}
	return s, nil
}

// grow adds the fields and orders that the table lacks.
func (s *Store[T]) grow(raw *sqlitedb.Tx) error {
	var made string
	if err := raw.QueryRow(s.sql.made).Scan(&made); err != nil {
		return err
	}
	lacks, _, err := s.of.Fit(made)
	if err != nil || lacks.None() {
		return err
	}
	for _, f := range lacks.Fields {
		if _, err := raw.Exec("ALTER TABLE " + s.sql.name + " ADD COLUMN " + define(f.Name, f.Zero())); err != nil {
			return err
		}
	}
	for _, o := range lacks.Orders {
		if _, err := raw.Exec(index(s.of, o.Name)); err != nil {
			return err
		}
	}
	for _, v := range s.of.Views {
		if _, err := raw.Exec("DROP VIEW IF EXISTS " + layout.Quote(v.Name)); err != nil {
			return err
		}
		if _, err := raw.Exec(view(v)); err != nil {
			return err
		}
	}
	_, err = raw.Exec(s.sql.grown, s.of.Signature())
	return err
}

// In is the table in a transaction of its database.
func (s *Store[T]) In(_ context.Context, raw *Tx) table.Tx[T] { return tx[T]{s, raw} }

// Of reports whether the table is in that file.
func (s *Store[T]) Of(db *sqlitedb.DB) bool { return s.db == db }

// View implements table.Store.
func (s *Store[T]) View(ctx context.Context, do func(table.Reader[T]) error) error {
	return s.db.Read(ctx, func(raw *sqlitedb.Tx) error { return do(s.In(ctx, raw)) })
}

// Update implements table.Store. The whole file has one writer, which calls do once: do must be
// short and wait for nothing.
func (s *Store[T]) Update(ctx context.Context, do func(table.Tx[T], *Tx) error) error {
	return s.db.Write(ctx, func(raw *sqlitedb.Tx) error { return do(s.In(ctx, raw), raw) })
}

// Count implements table.Store.
func (s *Store[T]) Count(ctx context.Context, most int, where ...table.Cond) (n int, err error) {
	p, err := s.of.Counted(most, where)
	if err != nil || p.Empty {
		return 0, err
	}
	query, args := page(&s.sql, "1", p, false)
	err = s.db.Read(ctx, func(raw *sqlitedb.Tx) error {
		return raw.QueryRow("SELECT count(*) FROM ("+query+")", args...).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count records of table %s: %w", s.of.Name, err)
	}
	return n, nil
}

// Counts implements table.Store.
func (s *Store[T]) Counts(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	if s.of.Count.Of == nil {
		return counts, ctx.Err()
	}
	err := s.db.Read(ctx, func(raw *sqlitedb.Tx) error {
		rows, err := raw.Query(s.sql.counts)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name string
			var n int
			if err := rows.Scan(&name, &n); err != nil {
				return err
			}
			counts[name] = n
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the counters of table %s: %w", s.of.Name, err)
	}
	return counts, nil
}

// Sweep implements table.Store.
func (s *Store[T]) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	return layout.Sweep(ctx, s.of, s, now, most)
}
