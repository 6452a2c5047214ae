// Package layout is what the backends of a table share: a checked Spec, the values of its
// fields, and the plan of a page.
package layout

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/tidemill/tidemill/state/table"
)

// Layout is a checked Spec.
type Layout[T any] struct {
	table.Spec[T]

	fields map[string]table.Field[T]
	types  map[string]string           // of fields
	orders map[string][]table.Field[T] // the key at the end of each; "": by key
}

// Of checks a spec.
func Of[T any](spec table.Spec[T]) (*Layout[T], error) {
	l := &Layout[T]{Spec: spec, fields: map[string]table.Field[T]{}, types: map[string]string{}, orders: map[string][]table.Field[T]{}}
	c := checked{name: spec.Name, orders: spec.Orders, views: spec.Views, counts: spec.Count.Of != nil, counted: spec.Count.From, expires: spec.Expires, types: l.types}
	one := new(T)
	for _, f := range spec.Fields {
		at := place{name: f.Name}
		if f.At != nil {
			at.at = f.At(one)
		}
		c.fields, l.fields[f.Name] = append(c.fields, at), f
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	key := spec.Fields[0]
	l.orders[""] = []table.Field[T]{key}
	for _, o := range spec.Orders {
		for _, n := range o.By {
			l.orders[o.Name] = append(l.orders[o.Name], l.fields[n])
		}
		l.orders[o.Name] = append(l.orders[o.Name], key)
	}
	return l, nil
}

var named = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// CheckName refuses what cannot be the name of a table, a field and so on.
func CheckName(of, s string) error {
	if !named.MatchString(s) {
		return fmt.Errorf("invalid name of a %s %.40q: want a-z, 0-9 and _, at most 32, a letter first", of, s)
	}
	return nil
}

// Key is the key of a record.
func (l *Layout[T]) Key(r *T) string { return *l.Fields[0].At(r).(*string) }

// Field is the field of a name.
func (l *Layout[T]) Field(name string) (f table.Field[T], ok bool) {
	f, ok = l.fields[name]
	return f, ok
}

// Order are the fields of an order, the key at the end; nil: there is no such order.
func (l *Layout[T]) Order(name string) []table.Field[T] { return l.orders[name] }

// Ordered reports whether a field is in an order, or the key.
func (l *Layout[T]) Ordered(field string) bool {
	return field == l.Fields[0].Name || slices.ContainsFunc(l.Orders, func(o table.Order) bool { return slices.Contains(o.By, field) })
}

// Only are the key and the named fields, in the order of the spec; all where none is named.
func (l *Layout[T]) Only(only []string) ([]table.Field[T], error) {
	if len(only) == 0 {
		return l.Fields, nil
	}
	for _, n := range only {
		if _, ok := l.fields[n]; !ok {
			return nil, l.invalid("there is no field %q", n)
		}
	}
	fs := l.Fields[:1:1]
	for _, f := range l.Fields[1:] {
		if slices.Contains(only, f.Name) {
			fs = append(fs, f)
		}
	}
	return fs, nil
}
