package layout

import (
	"context"
	"fmt"
	"slices"
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
	key := l.Fields[:1]
	best, err := l.Plan(table.Query[T]{Most: most, Where: where, Only: []string{key[0].Name}})
	if err != nil {
		return nil, err
	}
	for _, o := range l.Orders {
		p, err := l.Plan(table.Query[T]{By: o.Name, Most: most, Where: where, Only: []string{key[0].Name}})
		if err == nil && p.narrows() > best.narrows() {
			best = p
		}
	}
	return best, nil
}

// narrows says how much of the order the conditions choose.
func (p *Plan[T]) narrows() int {
	n := 2 * len(p.Equal)
	if slices.ContainsFunc(p.Where, func(c Cond[T]) bool { return p.begins(c) || p.ends(c) }) {
		n++
	}
	return n
}
