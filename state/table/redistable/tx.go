package redistable

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// tx implements table.Tx: what it has read, and what it will write.
type tx[T any] struct {
	s *Store[T]
	*Tx
	read   map[string]*kept[T]
	own    map[string]*T // changed; nil: deleted
	moment string        // the version of the table that a view reads; empty: it has read nothing
}

func newTx[T any](s *Store[T], raw *Tx) *tx[T] {
	return &tx[T]{s: s, Tx: raw, read: map[string]*kept[T]{}, own: map[string]*T{}}
}

// kept is a record as it was read.
type kept[T any] struct {
	version string // empty: there was none
	row     *T
}

// at notes the version of the table at which something was read.
func (t *tx[T]) at(version string) error {
	if t.moment == "" {
		t.moment = version
	}
	if t.view && version != t.moment {
		t.moved = true
		return errMoved
	}
	return nil
}

// keptOf reads a row. value is empty where there is none.
func keptOf[T any](key, value string, fields []table.Field[T]) (*kept[T], error) {
	if value == "" {
		return new(kept[T]), nil
	}
	if len(value) < versionSize {
		return nil, fmt.Errorf("read the record %q: %w", key, wire.ErrDamaged)
	}
	row, err := decode(key, value[versionSize:], fields)
	return &kept[T]{value[:versionSize], row}, err
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
		answer, err := readScript.Exec(t.ctx, t.s.client, []string{t.s.tag + "rows", t.s.tag + "version"}, some).ToArray()
		if err != nil {
			return redisconn.Error(err, "get %d records of table %s", len(some), t.s.of.Name)
		}
		version, err1 := answer[0].ToString()
		rows, err2 := answer[1].ToArray()
		if err := errors.Join(err1, err2); err != nil {
			return redisconn.Error(err, "get %d records of table %s", len(some), t.s.of.Name)
		}
		if err := t.at(version); err != nil {
			return err
		}
		for i, row := range rows {
			value, err := row.ToString()
			if err != nil && !rueidis.IsRedisNil(err) {
				return redisconn.Error(err, "get the record %q of table %s", some[i], t.s.of.Name)
			}
			k, err := keptOf(some[i], value, t.s.of.Fields)
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

// row is a record as the transaction sees it.
func (t *tx[T]) row(key string) *T {
	if r, ok := t.own[key]; ok {
		return r
	}
	return t.read[key].row
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
		if r := t.row(k); r != nil {
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
	for _, r := range t.own {
		if r != nil && !p.Before(r) && !p.Beyond(r) && p.Fits(r) {
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

// stored reads the records of a page that the transaction has not changed.
func (t *tx[T]) stored(p *layout.Plan[T], order []table.Field[T]) (page []*T, err error) {
	low, high := bounds(p, order)
	back := ""
	if p.Back {
		low, high, back = high, low, "back"
	}
	size := min(p.Most, readKeys)
	for {
		answer, err := pageScript.Exec(t.ctx, t.s.client, []string{t.s.tag + "by:" + p.By, t.s.tag + "rows", t.s.tag + "version"}, []string{low, high, strconv.Itoa(size), back}).ToArray()
		if err != nil {
			return nil, redisconn.Error(err, "read a page of table %s", t.s.of.Name)
		}
		version, err1 := answer[0].ToString()
		members, err2 := answer[1].AsStrSlice()
		rows, err3 := answer[2].AsStrSlice()
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, redisconn.Error(err, "read a page of table %s", t.s.of.Name)
		}
		if err := t.at(version); err != nil {
			return nil, err
		}
		for i, m := range members {
			key := keyOf(m)
			if _, changed := t.own[key]; changed {
				continue
			}
			k, err := keptOf(key, rows[i], t.s.of.Fields)
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
		if len(members) < size {
			return page, nil
		}
		low, size = "("+members[len(members)-1], min(4*size, readKeys)
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
		next := new(T)
		if before := t.row(keys[i]); before != nil {
			layout.Copy(next, before, t.s.of.Fields)
		} else if len(names) > 0 {
			continue
		}
		layout.Copy(next, r, fields)
		t.own[keys[i]] = next
	}
	return nil
}

func (t *tx[T]) Delete(keys []string) error {
	if err := t.load(keys); err != nil {
		return err
	}
	for _, k := range keys {
		t.own[k] = nil
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
	c.keys = append(c.keys, t.s.tag+"rows", t.s.tag+"version", t.s.tag+"counts")
	for _, o := range t.s.orders {
		c.keys = append(c.keys, t.s.tag+"by:"+o)
	}
	c.read = append(c.read, strconv.Itoa(len(t.s.orders)), strconv.Itoa(len(t.read)))
	for key, k := range t.read {
		c.read = append(c.read, key, k.version)
	}
	c.written = append(c.written, strconv.Itoa(len(t.own)))
	tally := layout.Tally{}
	for key, r := range t.own {
		before := t.read[key].row
		verb, fields := "delete", ""
		if r != nil {
			verb, fields = "put", encode(r, t.s.of.Fields)
		}
		c.written = append(c.written, key, verb, fields)
		for _, o := range t.s.orders {
			c.written = append(c.written, member(before, t.s.of.Order(o)), member(r, t.s.of.Order(o)))
		}
		t.s.of.Replaced(tally, before, r)
	}
	c.written = append(c.written, strconv.Itoa(len(tally)))
	for name, n := range tally {
		c.written = append(c.written, name, strconv.Itoa(n))
	}
}
