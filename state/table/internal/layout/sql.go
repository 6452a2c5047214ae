package layout

import (
	"strings"

	"github.com/tidemill/tidemill/state/table"
)

// Quote makes a name one of SQL, as names can be its words.
func Quote(name string) string { return `"` + name + `"` }

// List joins what each field is written as.
func List[T any](fields []table.Field[T], each func(i int, name string) string) string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = each(i, Quote(f.Name))
	}
	return strings.Join(all, ",")
}

// Names are the columns of fields.
func Names[T any](fields []table.Field[T]) string {
	return List(fields, func(_ int, name string) string { return name })
}

// SQL is the plan as a statement that selects columns of a table. Ordered, it is in the order of
// the page, and no index but that of the order fits its conditions: a planner that knows little of
// the table would find records by another, and sort all of them. Without order the planner has any
// index to choose. Mark writes the placeholder of argument i, from 0 on; value makes an argument of
// a field, as At returns it.
func (p *Plan[T]) SQL(columns, from string, ordered bool, mark func(i int) string, value func(at any) any) (query string, args []any) {
	var all []string
	arg := func(at any) string {
		args = append(args, value(at))
		return mark(len(args) - 1)
	}
	for _, c := range p.Equal {
		all = append(all, Quote(c.Name)+c.Op+arg(c.Value))
	}
	for _, c := range p.Where {
		one := Quote(c.Name) + c.Op + arg(c.Value)
		if ordered && !p.begins(c) && !p.ends(c) {
			one = "(" + one + ") IS TRUE"
		}
		all = append(all, one)
	}
	op, direction := ">", ""
	if p.Back {
		op, direction = "<", " DESC"
	}
	if p.After != nil {
		all = append(all, "("+Names(p.Rest)+")"+op+"("+List(p.Rest, func(i int, _ string) string { return arg(p.Rest[i].At(p.After)) })+")")
	}
	query = "SELECT " + columns + " FROM " + from
	if len(all) > 0 {
		query += " WHERE " + strings.Join(all, " AND ")
	}
	if ordered && len(p.Rest) > 0 {
		query += " ORDER BY " + List(p.Rest, func(_ int, name string) string { return name + direction })
	}
	args = append(args, p.Most)
	return query + " LIMIT " + mark(len(args)-1), args
}
