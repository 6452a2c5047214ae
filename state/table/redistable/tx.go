package redistable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// tx implements table.Tx: what it has read, and what it will write.
type tx[T any] struct {
	s *Store[T]
	*Tx
	spec   *known[T]
	read   map[string]*kept[T]
	own    map[string]*kept[T] // changed; without a record: deleted
	moment string              // the version of the table that a view reads; empty: it has read nothing
}

func newTx[T any](s *Store[T], raw *Tx) *tx[T] {
	return &tx[T]{s: s, Tx: raw, spec: s.spec.Load(), read: map[string]*kept[T]{}, own: map[string]*kept[T]{}}
}

// at notes the version of the table at which something was read.
func (t *tx[T]) at(version string) error {
	t.reads++
	if t.moment == "" {
		t.moment = version
	}
	if t.view && version != t.moment {
		t.moved = true
		return errMoved
	}
	return nil
}

// note keeps what was read of a record.
func (t *tx[T]) note(key string, k *kept[T]) error {
	if before := t.read[key]; before != nil && before.version != k.version {
		t.moved = true
		return errMoved
	}
	t.read[key] = k
	return nil
}

// readKeys is how many records one script reads.
const readKeys = 500

// load reads records that were not read before.
func (t *tx[T]) load(keys []string) error {
	var missing []string
	for _, k := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		if t.read[k] == nil {
			missing = append(missing, k)
		}
	}
	for some := range slices.Chunk(missing, readKeys) {
		version, rows, err := t.s.rows(t.ctx, some)
		if err != nil {
			return err
		}
		if err := t.at(version); err != nil {
			return err
		}
		for i, row := range rows {
			k, err := decode(some[i], row, t.s.of.Fields)
			if err != nil {
				return err
			}
			if err := t.note(some[i], k); err != nil {
				return err
			}
		}
	}
	return nil
}

// rows reads what Redis has of some keys, empty where there is no record, at a version of the table.
func (s *Store[T]) rows(ctx context.Context, some []string) (version string, rows []string, err error) {
	answer, err := readScript.Exec(ctx, s.client, []string{s.tag + "rows", s.tag + "version"}, some).ToArray()
	if err != nil {
		return "", nil, redisconn.Error(err, "get %d records of table %s", len(some), s.of.Name)
	}
	version, err1 := answer[0].ToString()
	rows, err2 := answer[1].AsStrSlice()
	return version, rows, redisconn.Error(errors.Join(err1, err2), "get %d records of table %s", len(some), s.of.Name)
}

// now is a record as the transaction sees it.
func (t *tx[T]) now(key string) *kept[T] {
	if k, ok := t.own[key]; ok {
		return k
	}
	return t.read[key]
}

func only[T any](r *T, fields []table.Field[T]) *T {
	c := new(T)
	layout.Copy(c, r, fields)
	return c
}

func (t *tx[T]) Get(keys []string, names ...string) (map[string]*T, error) {
	fields, err := t.s.of.Only(names)
	if err != nil {
		return nil, err
	}
	if err := t.load(keys); err != nil {
		return nil, err
	}
	found := make(map[string]*T, len(keys))
	for _, k := range keys {
		if r := t.now(k).row; r != nil {
			found[k] = only(r, fields)
		}
	}
	return found, nil
}

func (t *tx[T]) Page(q table.Query[T]) ([]*T, error) {
	p, err := t.s.of.Plan(q)
	if err != nil {
		return nil, err
	}
	page, err := t.page(p)
	for i, r := range page {
		page[i] = only(r, p.Only)
	}
	return page, err
}

// page reads a page of what is kept, and puts what the transaction has changed into it.
func (t *tx[T]) page(p *layout.Plan[T]) ([]*T, error) {
	if p.Empty {
		return nil, nil
	}
	order := t.s.of.Order(p.By)
	page, err := t.stored(p, order)
	if err != nil || len(t.own) == 0 {
		return page, err
	}
	for _, k := range t.own {
		if r := k.row; r != nil && !p.Before(r) && !p.Beyond(r) && p.Fits(r) {
			page = append(page, r)
		}
	}
	slices.SortFunc(page, func(a, b *T) int {
		if p.Back {
			a, b = b, a
		}
		return layout.Ordered(a, b, order)
	})
	return page[:min(len(page), p.Most)], nil
}

// section is a part of an order, with its records, at a version of the table.
type section struct {
	version       string
	members, rows []string
}

func (s *Store[T]) section(ctx context.Context, order, low, high string, size int, back string) (found section, err error) {
	answer, err := pageScript.Exec(ctx, s.client, []string{s.tag + "by:" + order, s.tag + "rows", s.tag + "version"}, []string{low, high, strconv.Itoa(size), back}).ToArray()
	if err != nil {
		return found, redisconn.Error(err, "read a page of table %s", s.of.Name)
	}
	var err1, err2, err3 error
	found.version, err1 = answer[0].ToString()
	found.members, err2 = answer[1].AsStrSlice()
	found.rows, err3 = answer[2].AsStrSlice()
	return found, redisconn.Error(errors.Join(err1, err2, err3), "read a page of table %s", s.of.Name)
}

// stored reads the records of a page that the transaction has not changed.
func (t *tx[T]) stored(p *layout.Plan[T], order []table.Field[T]) (page []*T, err error) {
	low, high := bounds(p, order)
	back := ""
	if p.Back {
		low, high, back = high, low, "back"
	}
	size := min(p.Most, readKeys)
	for {
		found, err := t.s.section(t.ctx, p.By, low, high, size, back)
		if err != nil {
			return nil, err
		}
		if err := t.at(found.version); err != nil {
			return nil, err
		}
		for i, m := range found.members {
			key := keyOf(m)
			if _, changed := t.own[key]; changed {
				continue
			}
			k, err := decode(key, found.rows[i], t.s.of.Fields)
			if err == nil && k.row == nil {
				err = fmt.Errorf("the order %q has the record %q: %w", p.By, key, wire.ErrDamaged)
			}
			if err != nil {
				return nil, fmt.Errorf("read a page of table %s: %w", t.s.of.Name, err)
			}
			if !p.Fits(k.row) {
				continue
			}
			if err := t.note(key, k); err != nil {
				return nil, err
			}
			if page = append(page, k.row); len(page) == p.Most {
				return page, nil
			}
		}
		if len(found.members) < size {
			return page, nil
		}
		low, size = "("+found.members[len(found.members)-1], min(4*size, readKeys)
	}
}

func (t *tx[T]) Put(rows []*T, names ...string) error {
	fields, err := t.s.of.Only(names)
	if err != nil {
		return err
	}
	if rows, err = t.s.of.Rows(rows, fields); err != nil {
		return err
	}
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = t.s.of.Key(r)
	}
	if err := t.load(keys); err != nil { // whose members of orders are to go
		return err
	}
	for i, r := range rows {
		next := &kept[T]{row: new(T)}
		if before := t.now(keys[i]); before.row != nil {
			layout.Copy(next.row, before.row, t.s.of.Fields)
			next.more, next.unknown = before.more, before.unknown
		} else if len(names) > 0 {
			continue
		}
		layout.Copy(next.row, r, fields)
		t.own[keys[i]] = next
	}
	return nil
}

func (t *tx[T]) Delete(keys []string) error {
	if err := t.load(keys); err != nil {
		return err
	}
	for _, k := range keys {
		t.own[k] = new(kept[T])
	}
	return nil
}

func (t *tx[T]) Next(n int) (uint64, error) {
	if err := t.s.of.CheckNext(n); err != nil {
		return 0, err
	}
	last, err := t.s.client.Do(t.ctx, t.s.client.B().Incrby().Key(t.s.tag+"next").Increment(int64(n)).Build()).AsUint64()
	return last, redisconn.Error(err, "take %d numbers of table %s", n, t.s.of.Name)
}

// changes implements part.
func (t *tx[T]) changes(c *changes) {
	if len(t.read) == 0 {
		return
	}
	c.tables++
	c.keys = append(c.keys, t.s.tag+"spec", t.s.tag+"rows", t.s.tag+"version", t.s.tag+"counts")
	for _, o := range t.spec.orders {
		c.keys = append(c.keys, t.s.tag+"by:"+o)
	}
	c.read = append(c.read, t.spec.number, strconv.Itoa(len(t.spec.orders)), strconv.Itoa(len(t.read)))
	for key, k := range t.read {
		c.read = append(c.read, key, k.version)
	}
	if t.undone {
		c.written = append(c.written, "0", "0")
		return
	}
	c.written = append(c.written, strconv.Itoa(len(t.own)))
	tally := layout.Tally{}
	for key, k := range t.own {
		before := t.read[key]
		verb, fields := "delete", ""
		if k.row != nil {
			verb, fields = "put", k.encode(t.s.of.Fields)
		}
		c.written = append(c.written, key, verb, fields)
		was, is := t.spec.members(before, t.spec.orders), t.spec.members(k, t.spec.orders)
		for i := range was {
			c.written = append(c.written, was[i], is[i])
		}
		t.s.of.Replaced(tally, before.row, k.row)
	}
	c.written = append(c.written, strconv.Itoa(len(tally)))
	for name, n := range tally {
		c.written = append(c.written, name, strconv.Itoa(n))
	}
}

// reload implements part.
func (t *tx[T]) reload() error { return t.s.reload(t.ctx) }
