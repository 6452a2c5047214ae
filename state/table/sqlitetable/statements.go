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
	name, put, row, update, drop    string
	next, made, counts, add, settle string
}

func quote(name string) string { return `"` + name + `"` }

func list[T any](fields []table.Field[T], each func(i int, name string) string) string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = each(i, quote(f.Name))
	}
	return strings.Join(all, ",")
}

func names[T any](fields []table.Field[T]) string {
	return list(fields, func(_ int, name string) string { return name })
}

// schema makes a table. The key has an index of its own beside a table in order of creation, so
// that what was written together is changed on few pages, with any keys. No name of a field or
// table begins with _ or has a dot.
func schema[T any](l *layout.Layout[T]) string {
	var b strings.Builder
	n := quote(l.Name)
	fmt.Fprintf(&b, "CREATE TABLE %s(_id INTEGER PRIMARY KEY", n)
	one := new(T)
	for _, f := range l.Fields {
		typ := "INTEGER"
		switch f.At(one).(type) {
		case *string, *[]byte:
			typ = "BLOB"
		}
		fmt.Fprintf(&b, ", %s %s NOT NULL", quote(f.Name), typ)
	}
	fmt.Fprintf(&b, ", UNIQUE(%s)) STRICT;\n", quote(l.Fields[0].Name))
	for _, o := range l.Orders {
		fmt.Fprintf(&b, "CREATE INDEX %s ON %s(%s);\n", quote(l.Name+"."+o.Name), n, names(l.Order(o.Name)))
	}
	fmt.Fprintf(&b, "CREATE TABLE %s(spec TEXT NOT NULL, newest INTEGER NOT NULL) STRICT;\n", quote("_"+l.Name+"_table"))
	fmt.Fprintf(&b, "INSERT INTO %s VALUES('%s', 0);\n", quote("_"+l.Name+"_table"), l.Signature())
	if l.Count.Of != nil {
		fmt.Fprintf(&b, "CREATE TABLE %s(name BLOB PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;\n", quote("_"+l.Name+"_counts"))
	}
	return b.String()
}

func statementsOf[T any](l *layout.Layout[T]) statements {
	n, key, own, counts := quote(l.Name), quote(l.Fields[0].Name), quote("_"+l.Name+"_table"), quote("_"+l.Name+"_counts")
	return statements{
		name: n,
		put:  "INSERT INTO " + n + "(" + names(l.Fields) + ") VALUES ",
		row:  placeholders(len(l.Fields)),
		update: " ON CONFLICT(" + key + ") DO UPDATE SET " +
			list(l.Fields[1:], func(_ int, name string) string { return name + "=excluded." + name }),
		drop:   "DELETE FROM " + n + " WHERE " + key + " IN (",
		next:   "UPDATE " + own + " SET newest=newest+? RETURNING newest",
		made:   "SELECT spec FROM " + own,
		counts: "SELECT name, n FROM " + counts + " WHERE n>0",
		add:    "INSERT INTO " + counts + " VALUES ",
		settle: " ON CONFLICT(name) DO UPDATE SET n=n+excluded.n",
	}
}

// placeholders of a row.
func placeholders(n int) string { return "(?" + strings.Repeat(",?", n-1) + ")" }

// where is the conditions of a page, with WHERE before them if there are any.
func where[T any](p *layout.Plan[T]) (text string, args []any) {
	var all []string
	for _, c := range append(p.Equal[:len(p.Equal):len(p.Equal)], p.Where...) {
		all, args = append(all, quote(c.Name)+c.Op+"?"), append(args, value(c.Value))
	}
	if p.After != nil {
		op := ">"
		if p.Back {
			op = "<"
		}
		all = append(all, "("+names(p.Rest)+")"+op+placeholders(len(p.Rest)))
		for _, f := range p.Rest {
			args = append(args, value(f.At(p.After)))
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(all, " AND "), args
}

// page is the statement of a plan; without order the planner has any index to choose.
func page[T any](s *statements, columns string, p *layout.Plan[T], ordered bool) (string, []any) {
	text, args := where(p)
	query := "SELECT " + columns + " FROM " + s.name + text
	if ordered && len(p.Rest) > 0 {
		query += " ORDER BY " + list(p.Rest, func(_ int, name string) string {
			if p.Back {
				return name + " DESC"
			}
			return name
		})
	}
	return query + " LIMIT ?", append(args, p.Most)
}
