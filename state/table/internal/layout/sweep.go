package layout

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/state/table"
)

// Sweep implements Sweep of a table.Store by its Update.
func Sweep[T, Raw any](ctx context.Context, l *Layout[T], s table.Store[T, Raw], now time.Time, most int) (n int, err error) {
	if l.Expires == "" {
		return 0, l.invalid("its records do not expire")
	}
	by := ""
	for _, o := range l.Orders {
		if o.By[0] == l.Expires && by == "" {
			by = o.Name
		}
	}
	q := table.Query[T]{By: by, Most: most, Only: []string{l.Expires},
		Where: []table.Cond{{Field: l.Expires, Op: ">", Value: time.Time{}}, {Field: l.Expires, Op: "<=", Value: now}}}
	err = s.Update(ctx, func(tx table.Tx[T], _ Raw) error {
		page, err := tx.Page(q)
		if err != nil {
			return err
		}
		keys := make([]string, len(page))
		for i, r := range page {
			keys[i] = l.Key(r)
		}
		n = len(keys)
		return tx.Delete(keys)
	})
	if err != nil {
		return 0, fmt.Errorf("sweep table %s: %w", l.Name, err)
	}
	return n, nil
}

// Counted is the plan whose page has as many records as Count of a table.Store answers: by the
// order that finds most by its conditions.
func (l *Layout[T]) Counted(most int, where []table.Cond) (*Plan[T], error) {
	if most < 1 {
		return nil, l.invalid("a count up to %d; want 1 or more", most)
	}
	conds, err := l.Conds(where)
	if err != nil {
		return nil, err
	}
	p := &Plan[T]{Rest: l.Order(""), Where: conds, Most: most, Only: l.Fields[:1:1]}
	for best, i := narrows(p.Rest, conds), 0; i < len(l.Orders); i++ {
		order := l.Order(l.Orders[i].Name)
		if n := narrows(order, conds); n > best {
			best, p.By, p.Rest = n, l.Orders[i].Name, order
		}
	}
	p.begin()
	return p, nil
}

// narrows says how much of an order conditions choose.
func narrows[T any](order []table.Field[T], conds []Cond[T]) (n int) {
	for _, f := range order {
		on, equal := false, false
		for _, c := range conds {
			on = on || c.Name == f.Name
			equal = equal || c.Name == f.Name && c.Op == "="
		}
		switch {
		case equal:
			n += 2
		case on:
			return n + 1
		default:
			return n
		}
	}
	return n
}
