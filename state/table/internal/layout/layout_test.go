package layout_test

import (
	"fmt"
	"testing"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

type row struct {
	key  string
	a, b int
}

var spec = table.Spec[row]{Name: "t", Orders: []table.Order{{Name: "ab", By: []string{"a", "b"}}, {Name: "b", By: []string{"b"}}}, Fields: []table.Field[row]{
	{Name: "key", At: func(r *row) any { return &r.key }}, {Name: "a", At: func(r *row) any { return &r.a }}, {Name: "b", At: func(r *row) any { return &r.b }},
}}

func mark(int) string { return "?" }

func value(at any) any {
	if s, ok := at.(*string); ok {
		return *s
	}
	return *at.(*int)
}

// An index has one beginning: of a position and a condition, the one that says more.
func TestAPageHasOneBeginning(t *testing.T) {
	l, err := layout.Of(spec)
	if err != nil {
		t.Fatal(err)
	}
	cond := func(field, op string, v int) table.Cond { return table.Cond{Field: field, Op: op, Value: v} }
	after := &row{"k", 1, 5}
	for _, c := range []struct {
		q    table.Query[row]
		want string
	}{
		{table.Query[row]{By: "b", Where: []table.Cond{cond("b", ">", 4)}}, `("b","key")>(?,?) [5 k 9]`},
		{table.Query[row]{By: "b", Where: []table.Cond{cond("b", ">=", 5)}}, `("b","key")>(?,?) [5 k 9]`},
		{table.Query[row]{By: "b", Where: []table.Cond{cond("b", ">", 5)}}, `"b">? [5 9]`},
		{table.Query[row]{By: "b", Where: []table.Cond{cond("b", ">=", 6)}}, `"b">=? [6 9]`},
		{table.Query[row]{By: "b", Where: []table.Cond{cond("b", "<", 9)}}, `"b"<? AND ("b","key")>(?,?) [9 5 k 9]`},
		{table.Query[row]{By: "b", Back: true, Where: []table.Cond{cond("b", "<=", 5)}}, `("b","key")<(?,?) [5 k 9]`},
		{table.Query[row]{By: "b", Back: true, Where: []table.Cond{cond("b", "<", 5)}}, `"b"<? [5 9]`},
		{table.Query[row]{By: "ab", Where: []table.Cond{cond("a", "=", 1), cond("b", ">", 3)}}, `"a"=? AND ("b","key")>(?,?) [1 5 k 9]`},
		{table.Query[row]{By: "ab", Where: []table.Cond{cond("a", "=", 2)}}, `"a"=? [2 9]`},
		{table.Query[row]{By: "ab", Where: []table.Cond{cond("a", "=", 0)}}, "nothing"},
	} {
		c.q.After, c.q.Most = after, 9
		p, err := l.Plan(c.q)
		if err != nil {
			t.Fatal(err)
		}
		got := "nothing"
		if !p.Empty {
			query, args := p.SQL("x", "t", false, mark, value)
			got = fmt.Sprint(query[len("SELECT x FROM t WHERE "):len(query)-len(" LIMIT ?")], " ", args)
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.q, got, c.want)
		}
	}
}

// A count goes by the order that its conditions choose most of.
func TestACountGoesByTheBestOrder(t *testing.T) {
	l, err := layout.Of(spec)
	if err != nil {
		t.Fatal(err)
	}
	for want, where := range map[string][]table.Cond{
		"":   {{Field: "key", Op: "=", Value: "k"}},
		"b":  {{Field: "b", Op: ">", Value: 1}},
		"ab": {{Field: "b", Op: ">", Value: 1}, {Field: "a", Op: "=", Value: 1}},
	} {
		if p, err := l.Counted(1, where); err != nil || p.By != want {
			t.Errorf("%v: %+v, %v; want the order %q", where, p, err, want)
		}
	}
}
