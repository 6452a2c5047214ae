package sqlitetable

import (
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// statements are the texts that do not change from call to call. Names are quoted, as those of
// fields can be words of SQL.
type statements struct {
	name, update, drop                     string
	next, made, grown, counts, add, settle string
	puts                                   map[string]bulk // the writer alone uses it
}

// bulk is a statement of many rows.
type bulk struct{ head, row, tail string }

// maxPuts is how many statements that put are kept, beside those of all fields: each is prepared.
const maxPuts = 64

// put is the statement that writes these values of fields. It leaves fields out that are zero in all
// rows, as columns are by default: to bind a value is most of what a short record costs. Args
// becomes what is left.
func put[T any](s *statements, l *layout.Layout[T], fields []table.Field[T], only []string, args []any) (bulk, []any) {
	some := make([]bool, len(fields))
	for i, v := range args {
		some[i%len(fields)] = some[i%len(fields)] || !zero(v)
	}
	key := keyOf(only, some)
	b, known := s.puts[string(key)]
	if !known && len(s.puts) >= maxPuts {
		for i := range some {
			some[i] = true
		}
		key = keyOf(only, some)
		b, known = s.puts[string(key)]
	}
	if !known {
		b = putting(s, l, fields, len(only) == 0, some)
		s.puts[string(key)] = b
	}
	left := args[:0]
	for i, v := range args {
		if some[i%len(fields)] {
			left = append(left, v)
		}
	}
	return b, left
}

func keyOf(only []string, some []bool) []byte {
	key := make([]byte, 0, 256)
	for _, name := range only {
		key = append(append(key, name...), ',')
	}
	for _, is := range some {
		if is {
			key = append(key, '1')
		} else {
			key = append(key, '0')
		}
	}
	return key
}

func putting[T any](s *statements, l *layout.Layout[T], fields []table.Field[T], whole bool, some []bool) bulk {
	var bound []table.Field[T]
	set := layout.List(fields, func(i int, name string) string {
		if !some[i] {
			return name + "=" + zeroOf(fields[i].At(new(T)))
		}
		bound = append(bound, fields[i])
		return fmt.Sprintf("%s=v.column%d", name, len(bound))
	})
	if whole {
		return bulk{"INSERT INTO " + s.name + "(" + layout.Names(bound) + ") VALUES ", placeholders(len(bound)), s.update}
	}
	return bulk{"UPDATE " + s.name + " SET " + set[strings.Index(set, ",")+1:] + " FROM (VALUES ", placeholders(len(bound)), ") AS v WHERE " + layout.Quote(l.Fields[0].Name) + "=v.column1"}
}

// schema makes a table. The key has an index of its own beside a table in order of creation, so
// that what was written together is changed on few pages, with any keys. No name of a field or
// table begins with _ or has a dot.
func schema[T any](l *layout.Layout[T]) string {
	var b strings.Builder
	n := layout.Quote(l.Name)
	fmt.Fprintf(&b, "CREATE TABLE %s(_id INTEGER PRIMARY KEY", n)
	one := new(T)
	for _, f := range l.Fields {
		b.WriteString(", " + define(f.Name, f.At(one)))
	}
	fmt.Fprintf(&b, ", UNIQUE(%s)) STRICT;\n", layout.Quote(l.Fields[0].Name))
	for _, o := range l.Orders {
		b.WriteString(index(l, o.Name) + ";\n")
	}
	fmt.Fprintf(&b, "CREATE TABLE %s(spec TEXT NOT NULL, newest INTEGER NOT NULL) STRICT;\n", layout.Quote("_"+l.Name+"_table"))
	fmt.Fprintf(&b, "INSERT INTO %s VALUES('%s', 0);\n", layout.Quote("_"+l.Name+"_table"), l.Signature())
	if l.Count.Of != nil {
		fmt.Fprintf(&b, "CREATE TABLE %s(name BLOB PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;\n", layout.Quote("_"+l.Name+"_counts"))
	}
	for _, v := range l.Views {
		b.WriteString(view(v) + ";\n")
	}
	return b.String()
}

func view(v table.View) string { return "CREATE VIEW " + layout.Quote(v.Name) + " AS " + v.SQLite }

// define is a column of a field, as At returns it.
func define(name string, at any) string {
	zero, kind := zeroOf(at), " BLOB"
	if zero == "0" {
		kind = " INTEGER"
	}
	return layout.Quote(name) + kind + " NOT NULL DEFAULT " + zero
}

// zeroOf is what a column has where the field, as At returns it, is zero.
func zeroOf(at any) string {
	switch at.(type) {
	case *string, *[]byte:
		return "x''"
	}
	return "0"
}

// index makes the index of an order.
func index[T any](l *layout.Layout[T], order string) string {
	return fmt.Sprintf("CREATE INDEX %s ON %s(%s)", layout.Quote(l.Name+"."+order), layout.Quote(l.Name), layout.Names(l.Order(order)))
}

func statementsOf[T any](l *layout.Layout[T]) statements {
	n, key, own, counts := layout.Quote(l.Name), layout.Quote(l.Fields[0].Name), layout.Quote("_"+l.Name+"_table"), layout.Quote("_"+l.Name+"_counts")
	return statements{
		name: n,
		puts: map[string]bulk{},
		update: " ON CONFLICT(" + key + ") DO UPDATE SET " +
			layout.List(l.Fields[1:], func(_ int, name string) string { return name + "=excluded." + name }),
		drop:   "DELETE FROM " + n + " WHERE " + key + " IN (",
		next:   "UPDATE " + own + " SET newest=newest+? RETURNING newest",
		made:   "SELECT spec FROM " + own,
		grown:  "UPDATE " + own + " SET spec=?",
		counts: "SELECT name, n FROM " + counts + " WHERE n>0",
		add:    "INSERT INTO " + counts + " VALUES ",
		settle: " ON CONFLICT(name) DO UPDATE SET n=n+excluded.n",
	}
}

// placeholders of a row.
func placeholders(n int) string { return "(?" + strings.Repeat(",?", n-1) + ")" }

// page is the statement of a plan.
func page[T any](s *statements, columns string, p *layout.Plan[T], ordered bool) (query string, args []any) {
	return p.SQL(columns, s.name, ordered, func(int) string { return "?" }, value)
}
