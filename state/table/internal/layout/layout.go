// Package layout is what the backends of a table share: a checked Spec, the values of its
// fields, and the plan of a page.
package layout

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

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
	err := errors.Join(CheckName("table", spec.Name), l.checkFields())
	if err == nil { // what follows is about fields
		err = errors.Join(l.checkOrders(), l.checkCount(), l.checkExpires(), l.checkViews())
	}
	if err != nil {
		return nil, fmt.Errorf("spec of table %q: %w", spec.Name, err)
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

func (l *Layout[T]) checkFields() error {
	if len(l.Fields) < 2 {
		return fmt.Errorf("it has %d fields; want the key and at least one more", len(l.Fields))
	}
	var errs []error
	one, at := new(T), map[any]string{}
	for i, f := range l.Fields {
		errs = append(errs, CheckName("field", f.Name))
		if _, twice := l.fields[f.Name]; twice {
			errs = append(errs, fmt.Errorf("two fields have the name %s", f.Name))
		}
		l.fields[f.Name] = f
		if f.At == nil {
			errs = append(errs, fmt.Errorf("field %s has no At", f.Name))
			continue
		}
		p := f.At(one)
		if typeOf(p) == "" {
			errs = append(errs, fmt.Errorf("field %s is a %T; want *string, *[]byte, *time.Time, *uint64, *int, *uint8 or *bool", f.Name, p))
			continue
		}
		if other := at[p]; other != "" {
			errs = append(errs, fmt.Errorf("the fields %s and %s are the same", other, f.Name))
		}
		at[p], l.types[f.Name] = f.Name, typeOf(p)
		if i == 0 && typeOf(p) != "string" {
			errs = append(errs, fmt.Errorf("the key %s is a %T; want *string", f.Name, p))
		}
	}
	return errors.Join(errs...)
}

func (l *Layout[T]) checkOrders() error {
	key := l.Fields[0]
	l.orders[""] = []table.Field[T]{key}
	var errs []error
	for _, o := range l.Orders {
		errs = append(errs, CheckName("order", o.Name))
		if l.orders[o.Name] != nil {
			errs = append(errs, fmt.Errorf("two orders have the name %s", o.Name))
		}
		if len(o.By) == 0 || len(o.By) > table.MaxOrder {
			errs = append(errs, fmt.Errorf("order %s is by %d fields; want 1 to %d", o.Name, len(o.By), table.MaxOrder))
		}
		var by []table.Field[T]
		for i, n := range o.By {
			f, ok := l.fields[n]
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("order %s is by %q, which is no field", o.Name, n))
			case n == key.Name:
				errs = append(errs, fmt.Errorf("order %s names the key, which is the end of each order", o.Name))
			case slices.Contains(o.By[:i], n):
				errs = append(errs, fmt.Errorf("order %s names the field %s twice", o.Name, n))
			}
			by = append(by, f)
		}
		l.orders[o.Name] = append(by, key)
	}
	return errors.Join(errs...)
}

func (l *Layout[T]) checkCount() error {
	var errs []error
	if (l.Count.Of == nil) != (len(l.Count.From) == 0) {
		errs = append(errs, errors.New("a counter has both Of and From, or none"))
	}
	for _, n := range l.Count.From {
		if _, ok := l.fields[n]; !ok {
			errs = append(errs, fmt.Errorf("the counter reads %q, which is no field", n))
		}
	}
	return errors.Join(errs...)
}

func (l *Layout[T]) checkExpires() error {
	if l.Expires == "" {
		return nil
	}
	f, ok := l.fields[l.Expires]
	if !ok {
		return fmt.Errorf("expiry is by %q, which is no field", l.Expires)
	}
	p := f.At(new(T))
	if _, ok := p.(*time.Time); !ok {
		return fmt.Errorf("expiry is by %s, a %T; want *time.Time", f.Name, p)
	}
	if !slices.ContainsFunc(l.Orders, func(o table.Order) bool { return slices.Index(o.By, f.Name) == 0 }) {
		return fmt.Errorf("expiry is by %s, which is the first field of no order", f.Name)
	}
	return nil
}

func (l *Layout[T]) checkViews() error {
	var errs []error
	seen := []string{l.Name}
	for _, v := range l.Views {
		errs = append(errs, CheckName("view", v.Name))
		if slices.Contains(seen, v.Name) {
			errs = append(errs, fmt.Errorf("the view %s has the name of the table or of another view", v.Name))
		}
		if seen = append(seen, v.Name); v.SQLite == "" || v.Postgres == "" {
			errs = append(errs, fmt.Errorf("the view %s has no SELECT for SQLite or for PostgreSQL", v.Name))
		}
	}
	return errors.Join(errs...)
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
