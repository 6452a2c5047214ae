package layout

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/table"
)

// checked is a spec as it is checked, whatever its record is: the code is there once.
type checked struct {
	name    string
	fields  []place
	types   map[string]string // of fields; check fills it
	orders  []table.Order
	views   []table.View
	counts  bool // it has a counter
	counted []string
	expires string
}

// place is a field and where a record has it; nil: nowhere.
type place struct {
	name string
	at   any
}

func (c *checked) check() error {
	err := errors.Join(CheckName("table", c.name), c.checkFields())
	if err == nil { // what follows is about fields
		err = errors.Join(c.checkOrders(), c.checkCount(), c.checkExpires(), c.checkViews())
	}
	if err != nil {
		return fmt.Errorf("spec of table %q: %w", c.name, err)
	}
	return nil
}

func (c *checked) checkFields() error {
	if len(c.fields) < 2 {
		return fmt.Errorf("it has %d fields; want the key and at least one more", len(c.fields))
	}
	var errs []error
	named, at := map[string]bool{}, map[any]string{}
	for i, f := range c.fields {
		errs = append(errs, CheckName("field", f.name))
		if named[f.name] {
			errs = append(errs, fmt.Errorf("two fields have the name %s", f.name))
		}
		if named[f.name] = true; f.at == nil {
			errs = append(errs, fmt.Errorf("field %s has no At", f.name))
			continue
		}
		if typeOf(f.at) == "" {
			errs = append(errs, fmt.Errorf("field %s is a %T; want *string, *[]byte, *time.Time, *uint64, *int, *uint8 or *bool", f.name, f.at))
			continue
		}
		if other := at[f.at]; other != "" {
			errs = append(errs, fmt.Errorf("the fields %s and %s are the same", other, f.name))
		}
		at[f.at], c.types[f.name] = f.name, typeOf(f.at)
		if i == 0 && typeOf(f.at) != "string" {
			errs = append(errs, fmt.Errorf("the key %s is a %T; want *string", f.name, f.at))
		}
	}
	return errors.Join(errs...)
}

func (c *checked) checkOrders() error {
	key := c.fields[0].name
	var errs []error
	seen := map[string]bool{"": true}
	for _, o := range c.orders {
		errs = append(errs, CheckName("order", o.Name))
		if seen[o.Name] {
			errs = append(errs, fmt.Errorf("two orders have the name %s", o.Name))
		}
		if seen[o.Name] = true; len(o.By) == 0 || len(o.By) > table.MaxOrder {
			errs = append(errs, fmt.Errorf("order %s is by %d fields; want 1 to %d", o.Name, len(o.By), table.MaxOrder))
		}
		for i, n := range o.By {
			switch {
			case c.types[n] == "":
				errs = append(errs, fmt.Errorf("order %s is by %q, which is no field", o.Name, n))
			case n == key:
				errs = append(errs, fmt.Errorf("order %s names the key, which is the end of each order", o.Name))
			case slices.Contains(o.By[:i], n):
				errs = append(errs, fmt.Errorf("order %s names the field %s twice", o.Name, n))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *checked) checkCount() error {
	var errs []error
	if c.counts == (len(c.counted) == 0) {
		errs = append(errs, errors.New("a counter has both Of and From, or none"))
	}
	for _, n := range c.counted {
		if c.types[n] == "" {
			errs = append(errs, fmt.Errorf("the counter reads %q, which is no field", n))
		}
	}
	return errors.Join(errs...)
}

func (c *checked) checkExpires() error {
	if c.expires == "" {
		return nil
	}
	i := slices.IndexFunc(c.fields, func(f place) bool { return f.name == c.expires })
	if i < 0 {
		return fmt.Errorf("expiry is by %q, which is no field", c.expires)
	}
	if _, ok := c.fields[i].at.(*time.Time); !ok {
		return fmt.Errorf("expiry is by %s, a %T; want *time.Time", c.expires, c.fields[i].at)
	}
	if !slices.ContainsFunc(c.orders, func(o table.Order) bool { return slices.Index(o.By, c.expires) == 0 }) {
		return fmt.Errorf("expiry is by %s, which is the first field of no order", c.expires)
	}
	return nil
}

func (c *checked) checkViews() error {
	var errs []error
	seen := []string{c.name}
	for _, v := range c.views {
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
