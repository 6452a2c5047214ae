package postgrestable

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// tx implements table.Tx.
type tx[T any] struct {
	s    *Store[T]
	ctx  context.Context
	raw  pgx.Tx
	lock string // of what is read; empty: a view
}

func (t tx[T]) Get(keys []string, only ...string) (map[string]*T, error) {
	fields, err := t.s.of.Only(only)
	if err != nil {
		return nil, err
	}
	found, err := t.get(keys, fields)
	if err != nil {
		return nil, fmt.Errorf("get %d records of table %s: %w", len(keys), t.s.of.Name, err)
	}
	return found, nil
}

// get reads records in the order of their keys, so that no two wait for each other.
func (t tx[T]) get(keys []string, fields []table.Field[T]) (map[string]*T, error) {
	found := make(map[string]*T, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	key := layout.Quote(fields[0].Name)
	query := "SELECT " + layout.Names(fields) + " FROM (SELECT DISTINCT k FROM unnest($1::bytea[]) k ORDER BY k OFFSET 0) asked, LATERAL (SELECT * FROM " +
		t.s.sql.name + " WHERE " + key + " = asked.k" + t.lock + ") found"
	rows, err := t.raw.Query(t.ctx, query, asBytes(keys))
	return found, postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		r, err := scan(rows, fields)
		if err == nil {
			found[t.s.of.Key(r)] = r
		}
		return err
	})
}

func asBytes(keys []string) [][]byte {
	all := make([][]byte, len(keys))
	for i, k := range keys {
		all[i] = []byte(k)
	}
	return all
}

func (t tx[T]) Page(q table.Query[T]) ([]*T, error) {
	p, err := t.s.of.Plan(q)
	if err != nil || p.Empty {
		return nil, err
	}
	query, args := p.SQL(layout.Names(p.Only), t.s.sql.name, true, mark, value)
	var page []*T
	rows, err := t.raw.Query(t.ctx, query+t.lock, args...)
	if err := postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		r, err := scan(rows, p.Only)
		page = append(page, r)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read a page of table %s: %w", t.s.of.Name, err)
	}
	return page, nil
}

func (t tx[T]) Put(rows []*T, only ...string) error {
	l := t.s.of
	fields, err := l.Only(only)
	if err != nil {
		return err
	}
	if rows, err = l.Rows(rows, fields); err != nil || len(fields) == 1 || len(rows) == 0 {
		return err
	}
	if l.Counts(fields) {
		keys := make([]string, len(rows))
		for i, r := range rows {
			keys[i] = l.Key(r)
		}
		if err := t.count(keys, func(before map[string]*T) layout.Tally { return l.Put(before, rows, fields, len(only) == 0) }); err != nil {
			return err
		}
	}
	names, key := layout.Names(fields), layout.Quote(fields[0].Name)
	query := "INSERT INTO " + t.s.sql.name + "(" + names + ") SELECT * FROM " + unnest(fields) + " ON CONFLICT(" + key + ") DO UPDATE SET " +
		layout.List(fields[1:], func(_ int, name string) string { return name + "=excluded." + name })
	if len(only) > 0 {
		query = "UPDATE " + t.s.sql.name + " t SET " + layout.List(fields[1:], func(_ int, name string) string { return name + "=v." + name }) +
			" FROM " + unnest(fields) + " WHERE t." + key + "=v." + key
	}
	if _, err := t.raw.Exec(t.ctx, query, columns(rows, fields)...); err != nil {
		return fmt.Errorf("put %d records into table %s: %w", len(rows), l.Name, err)
	}
	return nil
}

// column is one field of rows.
func column[V, T any](rows []*T, f table.Field[T]) []V {
	all := make([]V, len(rows))
	for i, r := range rows {
		all[i] = value(f.At(r)).(V)
	}
	return all
}

// count changes counters by what records were before.
func (t tx[T]) count(keys []string, by func(before map[string]*T) layout.Tally) error {
	before, err := t.get(keys, t.s.of.Counting())
	if err != nil {
		return fmt.Errorf("read how %d records of table %s are counted: %w", len(keys), t.s.of.Name, err)
	}
	var names [][]byte
	var ns []int64
	for name, n := range by(before) {
		names, ns = append(names, []byte(name)), append(ns, int64(n))
	}
	if len(names) == 0 {
		return nil
	}
	if _, err := t.raw.Exec(t.ctx, t.s.sql.add, names, ns); err != nil {
		return fmt.Errorf("count records of table %s: %w", t.s.of.Name, err)
	}
	return nil
}

func (t tx[T]) Delete(keys []string) error {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	if len(keys) == 0 {
		return nil
	}
	if t.s.of.Count.Of != nil {
		if err := t.count(keys, t.s.of.Deleted); err != nil {
			return err
		}
	}
	if _, err := t.raw.Exec(t.ctx, t.s.sql.drop, asBytes(keys)); err != nil {
		return fmt.Errorf("delete %d records of table %s: %w", len(keys), t.s.of.Name, err)
	}
	return nil
}

func (t tx[T]) Next(n int) (uint64, error) {
	if err := t.s.of.CheckNext(n); err != nil {
		return 0, err
	}
	var block int64
	if err := t.raw.QueryRow(t.ctx, t.s.sql.next).Scan(&block); err != nil {
		return 0, fmt.Errorf("take %d numbers of table %s: %w", n, t.s.of.Name, err)
	}
	return uint64(block) * table.MaxNext, nil
}
