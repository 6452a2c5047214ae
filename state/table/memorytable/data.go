package memorytable

import (
	"maps"
	"slices"
	"sort"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// data is what a table has. A record in it does not change: another takes its place.
type data[T any] struct {
	of     *layout.Layout[T]
	rows   map[string]*T
	sorted map[string][]*T // by each order
	counts map[string]int
	last   uint64 // of Next
}

func newData[T any](l *layout.Layout[T]) *data[T] {
	d := &data[T]{of: l, rows: map[string]*T{}, sorted: map[string][]*T{"": nil}, counts: map[string]int{}}
	for _, o := range l.Orders {
		d.sorted[o.Name] = nil
	}
	return d
}

// grow makes it one of a spec with more fields and orders.
func (d *data[T]) grow(l *layout.Layout[T]) {
	d.of = l
	for _, o := range l.Orders {
		if d.sorted[o.Name] == nil {
			order := l.Order(o.Name)
			d.sorted[o.Name] = slices.SortedFunc(maps.Values(d.rows), func(a, b *T) int { return layout.Ordered(a, b, order) })
		}
	}
}

// set puts a record in the place of another of its key; each may be nil.
func (d *data[T]) set(before, after *T) {
	if before != nil {
		delete(d.rows, d.of.Key(before))
		d.count(before, -1)
	}
	if after != nil {
		d.rows[d.of.Key(after)] = after
		d.count(after, 1)
	}
	for by, rows := range d.sorted {
		order := d.of.Order(by)
		cmp := func(a, b *T) int { return layout.Ordered(a, b, order) }
		if before != nil {
			i, _ := slices.BinarySearchFunc(rows, before, cmp)
			rows = slices.Delete(rows, i, i+1)
		}
		if after != nil {
			i, _ := slices.BinarySearchFunc(rows, after, cmp)
			rows = slices.Insert(rows, i, after)
		}
		d.sorted[by] = rows
	}
}

func (d *data[T]) count(r *T, n int) {
	if d.of.Count.Of == nil {
		return
	}
	name := d.of.Count.Of(r)
	if name == "" {
		return
	}
	if d.counts[name] += n; d.counts[name] == 0 {
		delete(d.counts, name)
	}
}

// page finds the records of a plan.
func (d *data[T]) page(p *layout.Plan[T]) (page []*T) {
	rows := d.sorted[p.By]
	at := func(i int) *T {
		if p.Back {
			return rows[len(rows)-1-i]
		}
		return rows[i]
	}
	if p.Empty {
		return nil
	}
	first := sort.Search(len(rows), func(i int) bool { return !p.Before(at(i)) })
	for i := first; i < len(rows) && len(page) < p.Most && !p.Beyond(at(i)); i++ {
		if p.Fits(at(i)) {
			page = append(page, at(i))
		}
	}
	return page
}

// number is how many records a plan has. Where their order decides, it looks for both ends alone.
func (d *data[T]) number(p *layout.Plan[T]) int {
	if !p.Ranged() {
		return len(d.page(p))
	}
	rows := d.sorted[p.By]
	rows = rows[sort.Search(len(rows), func(i int) bool { return !p.Before(rows[i]) }):]
	return min(p.Most, sort.Search(len(rows), func(i int) bool { return p.Beyond(rows[i]) }))
}

// tx implements table.Tx.
type tx[T any] struct {
	of   *layout.Layout[T]
	data *data[T]
	raw  *Tx
}

func (t tx[T]) copy(r *T, fields []table.Field[T]) *T {
	c := new(T)
	layout.Copy(c, r, fields)
	return c
}

func (t tx[T]) Get(keys []string, only ...string) (map[string]*T, error) {
	fields, err := t.of.Only(only)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*T, len(keys))
	for _, k := range keys {
		if r := t.data.rows[k]; r != nil {
			found[k] = t.copy(r, fields)
		}
	}
	return found, nil
}

func (t tx[T]) Page(q table.Query[T]) ([]*T, error) {
	p, err := t.of.Plan(q)
	if err != nil {
		return nil, err
	}
	page := t.data.page(p)
	for i, r := range page {
		page[i] = t.copy(r, p.Only)
	}
	return page, nil
}

func (t tx[T]) set(before, after *T) {
	t.data.set(before, after)
	t.raw.undo = append(t.raw.undo, func() { t.data.set(after, before) })
}

func (t tx[T]) Put(rows []*T, only ...string) error {
	fields, err := t.of.Only(only)
	if err != nil {
		return err
	}
	if rows, err = t.of.Rows(rows, fields); err != nil {
		return err
	}
	for _, r := range rows {
		before := t.data.rows[t.of.Key(r)]
		switch {
		case before != nil: // fields that this spec does not have are kept
			after := t.copy(before, t.data.of.Fields)
			layout.Copy(after, r, fields)
			t.set(before, after)
		case len(only) == 0:
			t.set(nil, t.copy(r, fields))
		}
	}
	return nil
}

func (t tx[T]) Delete(keys []string) error {
	for _, k := range keys {
		if before := t.data.rows[k]; before != nil {
			t.set(before, nil)
		}
	}
	return nil
}

func (t tx[T]) Next(n int) (uint64, error) {
	if err := t.of.CheckNext(n); err != nil {
		return 0, err
	}
	t.data.last += uint64(n)
	return t.data.last, nil
}
