package postgrestable

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// statements are the texts that do not change from call to call.
type statements struct{ name, put, make, drop, next, add, counts, fold string }

const forUpdate = " FOR UPDATE"

// some is how some fields are read and written.
type some[T any] struct {
	fields         []table.Field[T]
	get, lock, put string // of records that exist
}

// some makes the statements of fields when they are first used.
func (s *Store[T]) some(only []string) (*some[T], error) {
	name := strings.Join(only, ",")
	if known, ok := s.known.Load(name); ok {
		return known.(*some[T]), nil
	}
	fields, err := s.of.Only(only)
	if err != nil {
		return nil, err
	}
	// Records are read in the order of their keys, so that no two wait for each other.
	key := layout.Quote(fields[0].Name)
	get := func(lock string) string {
		return "SELECT " + layout.Names(fields) + " FROM (SELECT DISTINCT k FROM unnest($1::bytea[]) k ORDER BY k OFFSET 0) asked, LATERAL (SELECT * FROM " +
			s.sql.name + " WHERE " + key + " = asked.k" + lock + ") found"
	}
	made := &some[T]{fields, get(""), get(forUpdate), "UPDATE " + s.sql.name + " t SET " +
		layout.List(fields[1:], func(_ int, name string) string { return name + "=v." + name }) + " FROM " + unnest(fields) + " WHERE t." + key + "=v." + key}
	s.known.Store(name, made)
	return made, nil
}

// define is the column of a field, as At returns it: its zero is what rows have that were written
// without it.
func define(at any) string {
	zero := map[string]string{"bytea": "''", "timestamptz": "'1970-01-01 00:00:00+00'", "boolean": "false"}[typeOf(at)]
	if zero == "" {
		zero = "0"
	}
	return typeOf(at) + " NOT NULL DEFAULT " + zero
}

// statementsOf makes the texts; own puts names into their schema.
func statementsOf[T any](l *layout.Layout[T], own func(string) string) statements {
	n, counts := own("@tidemill_"+l.Name), own("@tidemill__"+l.Name+"_counts")
	insert := "INSERT INTO " + n + "(" + layout.Names(l.Fields) + ") SELECT * FROM " + unnest(l.Fields) + " ON CONFLICT(" + layout.Quote(l.Fields[0].Name) + ") DO "
	return statements{
		name: n,
		make: insert + "NOTHING",
		put: insert + "UPDATE SET " +
			layout.List(l.Fields[1:], func(_ int, name string) string { return name + "=excluded." + name }),
		drop: "DELETE FROM " + n + " WHERE " + layout.Quote(l.Fields[0].Name) + " = ANY($1::bytea[])",
		// Each number of the sequence stands for as many as are taken at once.
		next:   fmt.Sprintf("SELECT nextval('%s')", own("@tidemill__"+l.Name+"_next")),
		add:    "INSERT INTO " + counts + "(name, n) SELECT * FROM unnest($1::bytea[], $2::bigint[])",
		counts: "SELECT name, sum(n)::bigint, count(*) FROM " + counts + " GROUP BY name",
		fold:   "WITH gone AS (DELETE FROM " + counts + " WHERE id IN (SELECT id FROM " + counts + " FOR UPDATE SKIP LOCKED) RETURNING name, n) INSERT INTO " + counts + "(name, n) SELECT name, sum(n) FROM gone GROUP BY name HAVING sum(n) <> 0",
	}
}

func mark(i int) string { return "$" + strconv.Itoa(i+1) }

// unnest is the arguments of rows, from argument 1 on, as a table v.
func unnest[T any](fields []table.Field[T]) string {
	one := new(T)
	return "unnest(" + layout.List(fields, func(i int, _ string) string { return mark(i) + "::" + typeOf(fields[i].At(one)) + "[]" }) +
		") v(" + layout.Names(fields) + ")"
}

func typeOf(at any) string {
	switch at.(type) {
	case *string, *[]byte:
		return "bytea"
	case *time.Time:
		return "timestamptz"
	case *uint8:
		return "smallint"
	case *bool:
		return "boolean"
	}
	return "bigint"
}

// value is a field as a column has it.
func value(at any) any {
	switch p := at.(type) {
	case *string:
		return []byte(*p)
	case *[]byte:
		if *p == nil {
			return []byte{} // nil would be NULL
		}
		return *p
	case *time.Time:
		return time.UnixMilli(layout.Millis(*p))
	case *uint64:
		return int64(*p) // the bits
	case *int:
		return int64(*p)
	case *uint8:
		return int16(*p)
	case *bool:
		return *p
	}
	panic(fmt.Sprintf("no field can be a %T", at))
}

// columns are fields of rows as arrays, one for each.
func columns[T any](rows []*T, fields []table.Field[T]) []any {
	args := make([]any, len(fields))
	for i, f := range fields {
		switch f.At(rows[0]).(type) {
		case *string:
			args[i] = column(rows, f, func(p *string) []byte { return []byte(*p) })
		case *[]byte:
			args[i] = column(rows, f, func(p *[]byte) []byte {
				if *p == nil {
					return []byte{} // nil would be NULL
				}
				return *p
			})
		case *time.Time:
			args[i] = column(rows, f, func(p *time.Time) time.Time { return time.UnixMilli(layout.Millis(*p)) })
		case *uint64:
			args[i] = column(rows, f, func(p *uint64) int64 { return int64(*p) }) // the bits
		case *int:
			args[i] = column(rows, f, func(p *int) int64 { return int64(*p) })
		case *uint8:
			args[i] = column(rows, f, func(p *uint8) int16 { return int16(*p) })
		case *bool:
			args[i] = column(rows, f, func(p *bool) bool { return *p })
		}
	}
	return args
}

func column[P, V, T any](rows []*T, f table.Field[T], value func(*P) V) []V {
	all := make([]V, len(rows))
	for i, r := range rows {
		all[i] = value(f.At(r).(*P))
	}
	return all
}

// scan reads a row's fields.
func scan[T any](row interface{ Scan(...any) error }, fields []table.Field[T]) (*T, error) {
	r := new(T)
	into := make([]any, len(fields))
	for i, f := range fields {
		switch value(f.At(r)).(type) {
		case []byte:
			into[i] = new([]byte)
		case time.Time:
			into[i] = new(time.Time)
		case int64:
			into[i] = new(int64)
		default:
			into[i] = f.At(r) // *uint8, *bool
		}
	}
	if err := row.Scan(into...); err != nil {
		return nil, err
	}
	for i, f := range fields {
		set(f.At(r), into[i])
	}
	return r, nil
}

func set(at, from any) {
	switch p := at.(type) {
	case *string:
		*p = string(*from.(*[]byte))
	case *[]byte:
		if b := *from.(*[]byte); len(b) > 0 {
			*p = b
		}
	case *time.Time:
		*p = layout.Time(from.(*time.Time).UnixMilli())
	case *uint64:
		*p = uint64(*from.(*int64))
	case *int:
		*p = int(*from.(*int64))
	}
}
