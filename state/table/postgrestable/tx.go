package postgrestable

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// tx implements table.Tx.
type tx[T any] struct {
	s     *Store[T]
	in    *session
	locks bool // what is read; false: a view

	missing map[string]bool // of the session; nil: it is not noted
}

func (t tx[T]) Get(keys []string, only ...string) (map[string]*T, error) {
	some, err := t.s.some(only)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*T, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	query := some.get
	if t.locks {
		query = some.lock
	}
	err = t.in.now("get records of table "+t.s.of.Name, func(rows pgx.Rows) error {
		r, err := scan(rows, some.fields)
		if err == nil {
			found[t.s.of.Key(r)] = r
		}
		return err
	}, query, asBytes(keys))
	if err != nil {
		return nil, err
	}
	if t.missing != nil && len(found) < len(keys) {
		for _, k := range keys {
			t.missing[k] = found[k] == nil
		}
	}
	return found, nil
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
	if t.locks {
		query += forUpdate
	}
	var page []*T
	err = t.in.now("read a page of table "+t.s.of.Name, func(rows pgx.Rows) error {
		r, err := scan(rows, p.Only)
		page = append(page, r)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return page, nil
}

func (t tx[T]) Put(rows []*T, only ...string) error {
	l := t.s.of
	some, err := t.s.some(only)
	if err != nil {
		return err
	}
	if rows, err = l.Rows(rows, some.fields); err != nil || len(some.fields) == 1 || len(rows) == 0 {
		return err
	}
	if l.Counts(some.fields) {
		keys := make([]string, len(rows))
		for i, r := range rows {
			keys[i] = l.Key(r)
		}
		if err := t.count(keys, func(before map[string]*T) layout.Tally { return l.Put(before, rows, some.fields, len(only) == 0) }); err != nil {
			return err
		}
	}
	does := "put records into table " + l.Name
	if len(only) > 0 {
		return t.in.later(does, some.put, columns(rows, some.fields)...)
	}
	fresh, others := t.parted(rows)
	if len(fresh) > 0 {
		err = t.in.later(does, t.s.sql.make, columns(fresh, some.fields)...)
	}
	if err == nil && len(others) > 0 {
		err = t.in.later(does, t.s.sql.put, columns(others, some.fields)...)
	}
	return err
}

// parted divides rows into those whose keys were missing, which are inserted without DO UPDATE,
// and the others. If another has made such a record meanwhile, that is a conflict at once, while
// an update would wait for a transaction that has it locked, which may wait for a record that
// this one makes.
func (t tx[T]) parted(rows []*T) (fresh, others []*T) {
	for _, r := range rows {
		if k := t.s.of.Key(r); t.missing[k] {
			delete(t.missing, k)
			fresh = append(fresh, r)
		} else {
			others = append(others, r)
		}
	}
	return fresh, others
}

// count changes counters by what records were before.
func (t tx[T]) count(keys []string, by func(before map[string]*T) layout.Tally) error {
	before, err := t.Get(keys, t.s.of.Count.From...)
	if err != nil {
		return err
	}
	var names [][]byte
	var ns []int64
	for name, n := range by(before) {
		names, ns = append(names, []byte(name)), append(ns, int64(n))
	}
	if len(names) == 0 {
		return nil
	}
	return t.in.later("count records of table "+t.s.of.Name, t.s.sql.add, names, ns)
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
	return t.in.later("delete records of table "+t.s.of.Name, t.s.sql.drop, asBytes(keys))
}

func (t tx[T]) Next(n int) (uint64, error) {
	if err := t.s.of.CheckNext(n); err != nil {
		return 0, err
	}
	var block int64
	if err := t.in.now("take numbers of table "+t.s.of.Name, func(row pgx.Rows) error { return row.Scan(&block) }, t.s.sql.next); err != nil {
		return 0, err
	}
	return uint64(block) * table.MaxNext, nil
}
