package layout

import (
	"math"
	"slices"

	"github.com/tidemill/tidemill/state/table"
)

// Cond is a checked condition.
type Cond[T any] struct {
	table.Field[T]
	Op    string
	Value any // as At returns it
}

// Holds reports whether the condition holds for a record.
func (c Cond[T]) Holds(r *T) bool {
	switch d := Compare(c.At(r), c.Value); c.Op {
	case "=":
		return d == 0
	case "<":
		return d < 0
	case "<=":
		return d <= 0
	case ">":
		return d > 0
	default:
		return d >= 0
	}
}

// Plan is a page as an index finds it: the records that are equal to Equal in the first fields
// of the order, after After in the rest of its fields, and fit Where.
type Plan[T any] struct {
	By    string // the order
	Empty bool   // no record can fit
	Equal []Cond[T]
	Rest  []table.Field[T] // the order's other fields, the key at the end
	After *T               // nil: at the beginning
	Where []Cond[T]        // without what After implies
	Back  bool
	Most  int
	Only  []table.Field[T]
}

// Conds checks conditions.
func (l *Layout[T]) Conds(where []table.Cond) ([]Cond[T], error) {
	conds := make([]Cond[T], 0, len(where))
	for _, c := range where {
		f, ok := l.fields[c.Field]
		if !ok {
			return nil, l.invalid("there is no field %q", c.Field)
		}
		want, p := l.types[f.Name], pointer(c.Value)
		if typeOf(p) != want {
			return nil, l.invalid("the condition on %s has a %T; want %s", f.Name, c.Value, want)
		}
		if !slices.Contains([]string{"=", "<", "<=", ">", ">="}, c.Op) {
			return nil, l.invalid("invalid operator %q of the condition on %s; allowed: =, <, <=, >, >=", c.Op, f.Name)
		}
		if c.Op != "=" && (want == "bool" || want == "uint64" && !l.Ordered(f.Name)) {
			return nil, l.invalid("the condition on %s is %s; of a %s that is in no order it can only be =", f.Name, c.Op, want)
		}
		op := c.Op
		if n, is := p.(*uint64); is && *n > math.MaxInt64 && l.Ordered(f.Name) { // no record has as many, and backends compare numbers with a sign
			if *n = math.MaxInt64; op[0] == '<' {
				op = "<="
			} else {
				op = ">"
			}
		}
		conds = append(conds, Cond[T]{f, op, p})
	}
	return conds, nil
}

// Plan checks a query and plans it.
func (l *Layout[T]) Plan(q table.Query[T]) (*Plan[T], error) {
	order := l.Order(q.By)
	if order == nil {
		return nil, l.invalid("there is no order %q", q.By)
	}
	if q.Most < 1 {
		return nil, l.invalid("a page of %d records; want 1 or more", q.Most)
	}
	if q.After != nil {
		for _, f := range order {
			if n, is := f.At(q.After).(*uint64); is && *n > math.MaxInt64 {
				return nil, l.invalid("a page after %s %d; a number in an order is at most %d", f.Name, *n, math.MaxInt64)
			}
		}
	}
	only, err := l.Only(q.Only)
	if err != nil {
		return nil, err
	}
	where, err := l.Conds(q.Where)
	if err != nil {
		return nil, err
	}
	p := &Plan[T]{By: q.By, Rest: order, After: q.After, Where: where, Back: q.Back, Most: q.Most, Only: only}
	p.begin()
	if p.After != nil {
		p.narrow()
	}
	return p, nil
}

// begin finds the conditions on the first fields of the order.
func (p *Plan[T]) begin() {
	for len(p.Rest) > 0 {
		i := slices.IndexFunc(p.Where, func(c Cond[T]) bool { return c.Name == p.Rest[0].Name && c.Op == "=" })
		if i < 0 {
			return
		}
		p.Equal = append(p.Equal, p.Where[i])
		p.Where, p.Rest = slices.Delete(p.Where, i, i+1), p.Rest[1:]
	}
}

// narrow decides what After means beside the conditions: an index has one beginning.
func (p *Plan[T]) narrow() {
	switch d := p.prefix(p.After); {
	case d < 0: // all that is equal comes after it
		p.After = nil
		return
	case d > 0 || len(p.Rest) == 0:
		p.Empty = true
		return
	}
	for i := 0; i < len(p.Where); {
		c := p.Where[i]
		if !p.begins(c) {
			i++
			continue
		}
		if d := p.turn(Compare(c.At(p.After), c.Value)); d < 0 || d == 0 && len(c.Op) == 1 {
			p.After = nil // all for which c holds comes after it
			return
		}
		p.Where = slices.Delete(p.Where, i, i+1) // it holds for all after After
	}
}

// turn is a comparison in the direction of the page.
func (p *Plan[T]) turn(d int) int {
	if p.Back {
		return -d
	}
	return d
}

// prefix compares a record with Equal, in the direction of the page.
func (p *Plan[T]) prefix(r *T) int {
	for _, c := range p.Equal {
		if d := Compare(c.At(r), c.Value); d != 0 {
			return p.turn(d)
		}
	}
	return 0
}

// begins reports whether a condition says where the page begins; ends, where it ends.
func (p *Plan[T]) begins(c Cond[T]) bool {
	return len(p.Rest) > 0 && c.Name == p.Rest[0].Name && c.Op != "=" && (c.Op[0] == '>') != p.Back
}

func (p *Plan[T]) ends(c Cond[T]) bool {
	return len(p.Rest) > 0 && c.Name == p.Rest[0].Name && c.Op != "=" && (c.Op[0] == '<') != p.Back
}

// Ranged reports whether all conditions say where the page begins or ends.
func (p *Plan[T]) Ranged() bool {
	return !slices.ContainsFunc(p.Where, func(c Cond[T]) bool { return !p.begins(c) && !p.ends(c) })
}

// Before reports whether a record comes before the page, in its direction.
func (p *Plan[T]) Before(r *T) bool {
	if d := p.prefix(r); d != 0 {
		return d < 0
	}
	if p.After != nil && p.turn(Ordered(r, p.After, p.Rest)) <= 0 {
		return true
	}
	return slices.ContainsFunc(p.Where, func(c Cond[T]) bool { return p.begins(c) && !c.Holds(r) })
}

// Beyond reports whether a record that is not before the page, and all after it, come after
// the page.
func (p *Plan[T]) Beyond(r *T) bool {
	return p.prefix(r) > 0 || slices.ContainsFunc(p.Where, func(c Cond[T]) bool { return p.ends(c) && !c.Holds(r) })
}

// Fits reports whether all conditions of Where hold for a record.
func (p *Plan[T]) Fits(r *T) bool {
	return !slices.ContainsFunc(p.Where, func(c Cond[T]) bool { return !c.Holds(r) })
}

// Ordered compares two records by fields.
func Ordered[T any](a, b *T, by []table.Field[T]) int {
	for _, f := range by {
		if d := Compare(f.At(a), f.At(b)); d != 0 {
			return d
		}
	}
	return 0
}
