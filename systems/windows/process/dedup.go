package process

import (
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill/systems/windows/record"
)

// Dedup skips records that have the same values as an earlier record of the batch, over all its
// pages.
type Dedup struct {
	ID  string      // the processor's name; empty: dedup
	Of  record.Kind // the kind of records that are compared
	By  []string    // names of values that have to be the same, as written
	Max int         // records remembered of a batch; 0: 1 million, of about 40 bytes each. All beyond go on
	Any bool        // compares records whose values here are all null too; else they go on
}

// New makes the processor.
func (d Dedup) New() (Processor, error) {
	if d.Max < 0 {
		return nil, fmt.Errorf("%s: max %d: want more than 0", or(d.ID, "dedup"), d.Max)
	}
	if d.Max == 0 {
		d.Max = 1_000_000
	}
	fields, err := fieldsOf(or(d.ID, "dedup"), d.Of, d.By)
	return &dedup{d, fields}, err
}

// fieldsOf finds values by their names.
func fieldsOf(who string, k record.Kind, names []string) ([]record.Field, error) {
	if k.Fields() == 0 || len(names) == 0 {
		return nil, fmt.Errorf("%s: a kind of records and names of its values are needed", who)
	}
	var all []record.Field
	for _, name := range names {
		f, ok := k.Lookup(name)
		if !ok {
			return nil, fmt.Errorf("%s: %s: no value of %ss is called so", who, name, k)
		}
		all = append(all, f)
	}
	return all, nil
}

type dedup struct {
	Dedup
	fields []record.Field
}

func (d *dedup) Name() string { return or(d.ID, "dedup") }

func (d *dedup) Begin(string) Worker {
	return &dedupWorker{dedup: d, seen: map[print]struct{}{}}
}

// print stands for values: with 128 bits, equal prints of different values are not to be
// expected at any number of records.
type print [2]uint64

type dedupWorker struct {
	*dedup
	seen    map[print]struct{}
	scratch []byte
}

func (w *dedupWorker) Page(_ context.Context, items []*Item) error {
	var skip []*Item
	for _, it := range items {
		p, ok := w.print(it)
		if !ok {
			continue
		}
		if _, twice := w.seen[p]; twice {
			skip = append(skip, it)
		} else if len(w.seen) < w.Max {
			w.seen[p] = struct{}{}
		}
	}
	for _, it := range skip {
		it.Skip("duplicate")
	}
	return nil
}

// print of the values of a record; not ok: it is not compared.
func (w *dedupWorker) print(it *Item) (print, bool) {
	if it.Kind != w.Of {
		return print{}, false
	}
	const salt = "another " // in front: a collision without it is none with it
	b, some := append(w.scratch[:0], salt...), w.Any
	for _, f := range w.fields {
		v := it.Record.Value(f)
		some = some || v != nil
		b = append(append(b, v...), 0) // no value in JSON has a zero byte
	}
	w.scratch = b
	return print{xxhash.Sum64(b), xxhash.Sum64(b[len(salt):])}, some
}
