package layout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/table"
)

// Part is what one spec has beyond another.
type Part struct {
	Fields []Column
	Orders []table.Order
}

// None reports whether there is nothing.
func (p Part) None() bool { return len(p.Fields) == 0 && len(p.Orders) == 0 }

// Column is a field of a table, by its name and type.
type Column struct{ Name, Type string }

// Zero is a pointer to the zero value of its type, as At of a field returns it.
func (c Column) Zero() any {
	switch c.Type {
	case "string":
		return new(string)
	case "[]byte":
		return new([]byte)
	case "time.Time":
		return new(time.Time)
	case "uint64":
		return new(uint64)
	case "int":
		return new(int)
	case "uint8":
		return new(uint8)
	}
	return new(bool)
}

// signature is a spec without its functions.
type signature struct {
	Part
	counted, expires string
}

func (l *Layout[T]) signature() signature {
	s := signature{counted: strings.Join(l.Count.From, ","), expires: l.Expires}
	for _, f := range l.Fields {
		s.Fields = append(s.Fields, Column{f.Name, typeOf(f.At(new(T)))})
	}
	s.Orders = l.Orders
	return s
}

// Signature says all of the spec that a table is made for.
func (l *Layout[T]) Signature() string { return l.signature().String() }

func (s signature) String() string {
	var fields, orders []string
	for _, f := range s.Fields {
		fields = append(fields, f.Name+" "+f.Type)
	}
	for _, o := range s.Orders {
		orders = append(orders, o.Name+"("+strings.Join(o.By, ",")+")")
	}
	return fmt.Sprintf("fields %s; orders %s; counted by %s; expires %s", strings.Join(fields, ", "), strings.Join(orders, " "), s.counted, s.expires)
}

// parse is the inverse of String.
func parse(made string) (s signature, ok bool) {
	fields, orders, ok1 := strings.Cut(strings.TrimPrefix(made, "fields "), "; orders ")
	orders, counted, ok2 := strings.Cut(orders, "; counted by ")
	counted, expires, ok3 := strings.Cut(counted, "; expires ")
	s.counted, s.expires = counted, expires
	for f := range strings.SplitSeq(fields, ", ") {
		name, typ, _ := strings.Cut(f, " ")
		s.Fields = append(s.Fields, Column{name, typ})
	}
	for o := range strings.FieldsSeq(orders) {
		name, by, _ := strings.Cut(strings.TrimSuffix(o, ")"), "(")
		s.Orders = append(s.Orders, table.Order{Name: name, By: strings.Split(by, ",")})
	}
	return s, ok1 && ok2 && ok3 && s.String() == made
}

// Fit says how a table that was made for a spec fits: what it lacks, or what it has beyond this
// spec. One of the two is none. It refuses a table that was made for another spec.
func (l *Layout[T]) Fit(made string) (lacks, beyond Part, err error) {
	mine := l.signature()
	its, ok := parse(made)
	n := min(len(its.Fields), len(mine.Fields))
	if ok && its.counted == mine.counted && its.expires == mine.expires && slices.Equal(its.Fields[:n], mine.Fields[:n]) {
		lacks = Part{mine.Fields[n:], without(mine.Orders, its.Orders)}
		beyond = Part{its.Fields[n:], without(its.Orders, mine.Orders)}
		if lacks.None() || beyond.None() {
			return lacks, beyond, nil
		}
	}
	return Part{}, Part{}, fmt.Errorf("open table %s: it was made for another spec: %q, not %q", l.Name, made, mine)
}

// without are the orders that others have not.
func without(orders, others []table.Order) (left []table.Order) {
	for _, o := range orders {
		if !slices.ContainsFunc(others, func(p table.Order) bool { return p.Name == o.Name && slices.Equal(p.By, o.By) }) {
			left = append(left, o)
		}
	}
	return left
}
