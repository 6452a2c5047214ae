package rowindex

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill/internal/blocks"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

const (
	mergeRuns = 8    // this many neighbours of one level are merged
	topLevel  = 2    // runs of that level, some four million rows, are left as they are
	goneSpan  = 4096 // ids that are noted together as gone: those with the same quotient
	goneShare = 4    // a run is written anew when one of so many of its rows is gone
)

// Removed says that rows are removed, in the transaction that removes them. ids ascend.
func (x *Index) Removed(tx *sqlitedb.Tx, ids []int64) error {
	for from := 0; from < len(ids); {
		to, before := from, int64(0)
		var packed []byte
		for ; to < len(ids) && ids[to]/goneSpan == ids[from]/goneSpan; to++ {
			packed = binary.AppendUvarint(packed, uint64(ids[to]-before))
			before = ids[to]
		}
		if _, err := tx.Exec(x.sql.addGone, ids[from], before, to-from, packed); err != nil {
			return fmt.Errorf("note %d rows that are removed: %w", len(ids), err)
		}
		from = to
	}
	return nil
}

// gone is rows that were removed together.
type gone struct {
	first, last int64
	count       int
	ids         []byte
}

// has are those of a range of ids.
func (g gone) has(first, last int64) (ids []int64, err error) {
	id := int64(0)
	for b := g.ids; len(b) > 0; {
		d, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errPacked
		}
		b, id = b[n:], id+int64(d)
		if id >= first && id <= last {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// gone reads what was removed of a range of ids. Some of it may be of rows beside the range.
func (x *Index) gone(ctx context.Context, first, last int64) (all []gone, err error) {
	err = x.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query(x.sql.gone, first/goneSpan*goneSpan, last)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var g gone
			if err := rows.Scan(&g.first, &g.last, &g.count, &g.ids); err != nil {
				return err
			}
			if g.last >= first {
				all = append(all, g)
			}
		}
		return rows.Err()
	})
	return all, err
}

// Sweep does the housekeeping that no caller should wait for: it merges runs and drops the entries of
// rows that were removed. Call it every minute or so; without it searching becomes slower with every
// run. Callers store and search meanwhile.
func (x *Index) Sweep(ctx context.Context) error {
	if err := x.sweeping.Acquire(ctx, 1); err != nil {
		return err
	}
	defer x.sweeping.Release(1)
	if err := x.numbers.Mend(ctx); err != nil {
		return fmt.Errorf("delete what is left of runs of the index %s that are no more: %w", x.o.Name, err)
	}
	if err := x.drop(ctx); err != nil {
		return fmt.Errorf("drop the rows that were removed from the index %s: %w", x.o.Name, err)
	}
	for level := range topLevel {
		for {
			runs := x.ofLevel(level)
			if len(runs) < mergeRuns {
				break
			}
			if err := x.replace(ctx, runs[:mergeRuns], level+1); err != nil {
				return fmt.Errorf("merge runs of the index %s: %w", x.o.Name, err)
			}
		}
	}
	return nil
}

func (x *Index) snapshot() []*run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs
}

// ofLevel are the runs of a level, by their ranges. They are neighbours: the oldest are merged first.
func (x *Index) ofLevel(level int) (runs []*run) {
	for _, r := range x.snapshot() {
		if r.level == level {
			runs = append(runs, r)
		}
	}
	return runs
}

// drop writes runs anew that have many rows that are gone.
func (x *Index) drop(ctx context.Context) error {
	for _, r := range x.snapshot() {
		all, err := x.gone(ctx, r.first, r.last)
		if err != nil {
			return err
		}
		n := 0
		for _, g := range all {
			n += g.count // one that is of two runs counts for both: that is early, and not wrong
		}
		if n == 0 || goneShare*n < r.count {
			continue
		}
		if err := x.replace(ctx, []*run{r}, r.level); err != nil {
			return err
		}
	}
	return nil
}

// replace writes one run instead of neighbours, without the rows that are gone; without any row it
// writes none.
func (x *Index) replace(ctx context.Context, runs []*run, level int) error {
	instead := &run{level: level, first: runs[0].first, last: runs[len(runs)-1].last}
	dead, err := x.dead(ctx, instead.first, instead.last)
	if err != nil {
		return err
	}
	all := make([]*blocks.Reader[entry], len(runs))
	for i, r := range runs {
		all[i] = x.entries(r)
	}
	next := func() (entry, error) {
		for {
			if e, err := blocks.Least(ctx, all, entry.compare); err != nil || !dead.has(e.at.Row) {
				return e, err
			}
		}
	}
	dropped := func(tx *sqlitedb.Tx) error {
		for _, r := range runs {
			if _, err := tx.Exec(x.sql.dropRun, r.no); err != nil {
				return err
			}
		}
		return dead.forget(tx, x)
	}
	if instead, err = x.write(ctx, instead, next, dropped); err != nil {
		return err
	}
	x.publish(instead, runs)
	for _, r := range runs {
		x.numbers.Gone(r.no)
	}
	// A reader of the old runs at this moment has a snapshot that holds them, or misses a block and
	// searches again.
	return x.numbers.Mend(ctx)
}

// publish replaces runs by another one; nil: by none.
func (x *Index) publish(r *run, instead []*run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var runs []*run
	for _, o := range x.runs {
		switch {
		case !slices.Contains(instead, o):
			runs = append(runs, o)
		case o == instead[0] && r != nil:
			runs = append(runs, r)
		}
	}
	x.runs = runs
}

// dead are the rows of a range that are gone.
type dead struct {
	first, last int64
	bits        []uint64
	of          []gone
}

func (x *Index) dead(ctx context.Context, first, last int64) (*dead, error) {
	d := &dead{first: first, last: last}
	var err error
	if d.of, err = x.gone(ctx, first, last); err != nil || len(d.of) == 0 {
		return d, err
	}
	d.bits = make([]uint64, (last-first)/64+1)
	for _, g := range d.of {
		ids, err := g.has(first, last)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			d.bits[(id-first)/64] |= 1 << ((id - first) % 64)
		}
	}
	return d, nil
}

func (d *dead) has(id int64) bool {
	return d.bits != nil && d.bits[(id-d.first)/64]&(1<<((id-d.first)%64)) != 0
}

// forget deletes what is noted of the rows, but for those of other ranges that were removed with them.
func (d *dead) forget(tx *sqlitedb.Tx, x *Index) error {
	for _, g := range d.of {
		if _, err := tx.Exec(x.sql.dropGone, g.first); err != nil {
			return err
		}
		for _, part := range [][2]int64{{g.first, d.first - 1}, {d.last + 1, g.last}} {
			ids, err := g.has(part[0], part[1])
			if err == nil {
				err = x.Removed(tx, ids)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
