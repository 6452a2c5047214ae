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
	name, put, row, update, drop           string
	next, made, grown, counts, add, settle string
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
	switch at.(type) {
	case *string, *[]byte:
		return layout.Quote(name) + " BLOB NOT NULL DEFAULT x''"
	}
	return layout.Quote(name) + " INTEGER NOT NULL DEFAULT 0"
}

// index makes the index of an order.
func index[T any](l *layout.Layout[T], order string) string {
	return fmt.Sprintf("CREATE INDEX %s ON %s(%s)", layout.Quote(l.Name+"."+order), layout.Quote(l.Name), layout.Names(l.Order(order)))
}

func statementsOf[T any](l *layout.Layout[T]) statements {
	n, key, own, counts := layout.Quote(l.Name), layout.Quote(l.Fields[0].Name), layout.Quote("_"+l.Name+"_table"), layout.Quote("_"+l.Name+"_counts")
	return statements{
		name: n,
		put:  "INSERT INTO " + n + "(" + layout.Names(l.Fields) + ") VALUES ",
		row:  placeholders(len(l.Fields)),
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
