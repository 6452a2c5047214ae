package sqlitetable

import (
	"fmt"
	"slices"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// tx implements table.Tx.
type tx[T any] struct {
	s   *Store[T]
	raw *sqlitedb.Tx
}

const lookupKeys = 256 // of one statement at most

func (t tx[T]) Get(keys []string, only ...string) (map[string]*T, error) {
	fields, err := t.s.of.Only(only)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*T, len(keys))
	err = t.get(keys, fields, func(r *T) { found[t.s.of.Key(r)] = r })
	if err != nil {
		return nil, fmt.Errorf("get %d records of table %s: %w", len(keys), t.s.of.Name, err)
	}
	return found, nil
}

// get reads fields of records, by few statements of few lengths: the last key fills up the rest.
func (t tx[T]) get(keys []string, fields []table.Field[T], row func(*T)) error {
	head := "SELECT " + layout.Names(fields) + " FROM " + t.s.sql.name + " WHERE " + layout.Quote(fields[0].Name) + " IN "
	for len(keys) > 0 {
		n := 1
		for n < min(len(keys), lookupKeys) {
			n *= 4
		}
		args := make([]any, n)
		for i := range args {
			args[i] = []byte(keys[min(i, len(keys)-1)])
		}
		if err := t.read(head+placeholders(n), args, fields, row); err != nil {
			return err
		}
		keys = keys[min(n, len(keys)):]
	}
	return nil
}

func (t tx[T]) read(query string, args []any, fields []table.Field[T], row func(*T)) error {
	rows, err := t.raw.Query(query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, into := make([]column, len(fields)), make([]any, len(fields))
	for i := range columns {
		into[i] = &columns[i]
	}
	for rows.Next() {
		r := new(T)
		for i, f := range fields {
			columns[i].at = f.At(r)
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row(r)
	}
	return rows.Err()
}

func (t tx[T]) Page(q table.Query[T]) ([]*T, error) {
	p, err := t.s.of.Plan(q)
	if err != nil || p.Empty {
		return nil, err
	}
	var found []*T
	query, args := page(&t.s.sql, layout.Names(p.Only), p, true)
	if err := t.read(query, args, p.Only, func(r *T) { found = append(found, r) }); err != nil {
		return nil, fmt.Errorf("read a page of table %s: %w", t.s.of.Name, err)
	}
	return found, nil
}

func (t tx[T]) Put(rows []*T, only ...string) error {
	l := t.s.of
	fields, err := l.Only(only)
	if err != nil {
		return err
	}
	if rows, err = l.Rows(rows, fields); err != nil || len(rows) == 0 || len(fields) == 1 {
		return err
	}
	if l.Counts(fields) {
		before, err := t.counted(keysOf(l, rows))
		if err != nil {
			return err
		}
		if err := t.count(l.Put(before, rows, fields, len(only) == 0)); err != nil {
			return err
		}
	}
	args := make([]any, 0, len(rows)*len(fields))
	for _, r := range rows {
		for _, f := range fields {
			args = append(args, value(f.At(r)))
		}
	}
	b, args := put(&t.s.sql, l, fields, only, args)
	if _, err = t.raw.Bulk(b.head, b.row, b.tail, args); err != nil {
		return fmt.Errorf("put %d records into table %s: %w", len(rows), l.Name, err)
	}
	return nil
}

func (t tx[T]) Delete(keys []string) error {
	gone := slices.Compact(slices.Sorted(slices.Values(keys)))
	if t.s.of.Count.Of != nil {
		before, err := t.counted(gone)
		if err != nil {
			return err
		}
		if err := t.count(t.s.of.Deleted(before)); err != nil {
			return err
		}
	}
	args := make([]any, len(gone))
	for i, k := range gone {
		args[i] = []byte(k)
	}
	if _, err := t.raw.Bulk(t.s.sql.drop, "?", ")", args); err != nil {
		return fmt.Errorf("delete %d records of table %s: %w", len(keys), t.s.of.Name, err)
	}
	return nil
}

func (t tx[T]) Next(n int) (newest uint64, err error) {
	if err := t.s.of.CheckNext(n); err != nil {
		return 0, err
	}
	if err := t.raw.QueryRow(t.s.sql.next, n).Scan(&newest); err != nil {
		return 0, fmt.Errorf("take %d numbers of table %s: %w", n, t.s.of.Name, err)
	}
	return newest, nil
}

func keysOf[T any](l *layout.Layout[T], rows []*T) []string {
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = l.Key(r)
	}
	return keys
}

// counted reads what existing records are counted by.
func (t tx[T]) counted(keys []string) (map[string]*T, error) {
	before := make(map[string]*T, len(keys))
	if err := t.get(keys, t.s.of.Counting(), func(r *T) { before[t.s.of.Key(r)] = r }); err != nil {
		return nil, fmt.Errorf("read how %d records of table %s are counted: %w", len(keys), t.s.of.Name, err)
	}
	return before, nil
}

// count changes counters.
func (t tx[T]) count(by layout.Tally) error {
	args := make([]any, 0, 2*len(by))
	for name, n := range by {
		args = append(args, []byte(name), n)
	}
	if _, err := t.raw.Bulk(t.s.sql.add, "(?,?)", t.s.sql.settle, args); err != nil {
		return fmt.Errorf("count records of table %s: %w", t.s.of.Name, err)
	}
	return nil
}
