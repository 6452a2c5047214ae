package sqlitequeue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

const (
	mergeRuns   = 8   // this many runs of one level are merged
	topLevel    = 2   // runs of that level, some eight million names, are left as they are
	chunkBlocks = 128 // blocks written or read at once: half a megabyte
)

// Sweep does the housekeeping that no caller should wait for: it merges runs of names and
// forgets old ones. Call it every minute or so; without it adding jobs becomes slower with
// every run, and names are never forgotten.
func (s *Store) Sweep(ctx context.Context) error {
	x := s.names
	if err := x.lock(ctx); err != nil {
		return err
	}
	defer x.unlock()
	if err := x.flush(ctx, s.o.tableNames); err != nil {
		return err
	}
	if err := x.forget(ctx); err != nil {
		return fmt.Errorf("forget old names: %w", err)
	}
	for level := range topLevel {
		for {
			runs := x.ofLevel(level)
			if len(runs) < mergeRuns {
				break
			}
			oldest := runs[len(runs)-mergeRuns:]
			if err := x.merge(ctx, oldest, level+1); err != nil {
				return fmt.Errorf("merge names: %w", err)
			}
		}
	}
	return nil
}

func (x *names) lock(ctx context.Context) error {
	select {
	case x.flushing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *names) unlock() { <-x.flushing }

func (x *names) snapshot() []*run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs
}

func (x *names) ofLevel(level int) (runs []*run) {
	for _, r := range x.snapshot() {
		if r.level == level {
			runs = append(runs, r)
		}
	}
	return runs
}

// relieve writes full tables, for a caller that adds jobs. While another caller does that
// it returns, unless there are too many: names in memory are bounded.
func (x *names) relieve(ctx context.Context, limit int) error {
	x.mu.Lock()
	held := 0
	for _, t := range x.tables {
		held += len(t.entries)
	}
	x.mu.Unlock()
	if held < limit {
		return nil
	}
	if held < 4*limit {
		select {
		case x.flushing <- struct{}{}:
		default:
			return nil
		}
	} else if err := x.lock(ctx); err != nil {
		return err
	}
	defer x.unlock()
	return x.flush(ctx, limit)
}

// flush writes full tables as runs: the newest one when it holds at least limit names, and
// any that an error left behind. Its caller holds the lock.
func (x *names) flush(ctx context.Context, limit int) error {
	x.mu.Lock()
	if t := x.tables[len(x.tables)-1]; len(t.entries) >= limit {
		x.tables = append(x.tables, newTable(t.gen+1))
		if t.open == 0 {
			close(t.quiet)
		}
	}
	old := slices.Clone(x.tables[:len(x.tables)-1])
	x.mu.Unlock()
	for _, t := range old {
		select {
		case <-t.quiet:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := x.flushTable(ctx, t); err != nil {
			return fmt.Errorf("write %d names: %w", len(t.entries), err)
		}
	}
	return nil
}

// flushTable writes a table that changes no more.
func (x *names) flushTable(ctx context.Context, t *table) error {
	sorted := make([]named, 0, len(t.entries))
	for i := range t.entries {
		if e := &t.entries[i]; e.pos != 0 {
			sorted = append(sorted, e.named)
		}
	}
	slices.SortFunc(sorted, compareNames)
	r, err := x.write(ctx, 0, x.store.o.Now().UnixMilli(), len(sorted), func() (named, error) {
		if len(sorted) == 0 {
			return named{}, io.EOF
		}
		n := sorted[0]
		sorted = sorted[1:]
		return n, nil
	}, func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("DELETE FROM queue_name_log WHERE id<?", logID(t.gen+1, 0))
		return err
	})
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.publish(r)
	x.tables = slices.DeleteFunc(x.tables, func(o *table) bool { return o == t })
	return nil
}

// publish replaces runs by a new one for look-ups. mu is held.
func (x *names) publish(r *run, instead ...*run) {
	runs := slices.DeleteFunc(slices.Clone(x.runs), func(o *run) bool { return slices.Contains(instead, o) })
	if r != nil {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(b.newest, a.newest) })
	x.runs = runs
}

func compareNames(a, b named) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.check, b.check))
}

// write writes a run: at most count names that next yields in order until io.EOF. last runs
// in the transaction that makes the run valid. Without any name it writes no run.
func (x *names) write(ctx context.Context, level int, newest int64, count int, next func() (named, error), last func(*sqlitedb.Tx) error) (*run, error) {
	x.last++
	r := &run{no: x.last, level: level, newest: newest, filter: newFilter(count)}
	if err := x.clear(ctx, r.no, 1<<(63-runBits)-1); err != nil { // what a crash may have left
		return nil, err
	}
	var args []any
	var block []byte
	write := func() error {
		err := x.store.db.Write(ctx, func(tx *sqlitedb.Tx) error {
			_, err := tx.Bulk("INSERT INTO queue_name_block(id,names) VALUES ", "(?,?)", "", args)
			return err
		})
		args = args[:0]
		return err
	}
	for end := false; !end; {
		n, err := next()
		if end = errors.Is(err, io.EOF); err != nil && !end {
			return nil, err
		}
		if !end {
			if len(block) == 0 {
				r.fences = append(r.fences, n.hash)
			}
			block = n.append(block)
			r.filter.add(n.hash)
			r.count++
		}
		if len(block) == blockNames*namedBytes || end && len(block) > 0 {
			args = append(args, r.block(len(r.fences)-1), block)
			block = nil
		}
		if len(args) == 2*chunkBlocks || end && len(args) > 0 {
			if err := write(); err != nil {
				return nil, err
			}
		}
	}
	fences, filter := wordBytes(r.fences), wordBytes(r.filter)
	err := x.store.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if r.count > 0 {
			if _, err := tx.Exec("INSERT INTO queue_name_run(no,level,newest,count,fences,filter) VALUES(?,?,?,?,?,?)",
				r.no, r.level, r.newest, r.count, fences, filter); err != nil {
				return err
			}
		}
		return last(tx)
	})
	if err != nil || r.count == 0 {
		return nil, err
	}
	return r, nil
}

// clear deletes blocks of runs from to, to included, in chunks.
func (x *names) clear(ctx context.Context, from, to int64) error {
	for n := int64(1); n > 0; {
		err := x.store.db.Write(ctx, func(tx *sqlitedb.Tx) (err error) {
			n, err = tx.Exec("DELETE FROM queue_name_block WHERE id IN (SELECT id FROM queue_name_block WHERE id>=? AND id<=? LIMIT ?)",
				from<<runBits, to<<runBits|(1<<runBits-1), 8*chunkBlocks)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// merge makes one run of several.
func (x *names) merge(ctx context.Context, runs []*run, level int) error {
	var newest int64
	count := 0
	all := make([]*blocks, len(runs))
	for i, r := range runs {
		all[i] = &blocks{names: x, run: r}
		newest, count = max(newest, r.newest), count+r.count
	}
	return x.replace(ctx, runs, level, newest, count, func() (named, error) { return least(ctx, all) })
}

// replace writes a run of what next yields instead of others.
func (x *names) replace(ctx context.Context, runs []*run, level int, newest int64, count int, next func() (named, error)) error {
	r, err := x.write(ctx, level, newest, count, next, func(tx *sqlitedb.Tx) error {
		for _, o := range runs {
			if _, err := tx.Exec("DELETE FROM queue_name_run WHERE no=?", o.no); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.publish(r, runs...)
	x.mu.Unlock()
	for _, o := range runs {
		// A reader of the old run at this moment has a snapshot that holds it, or misses a
		// block and reads again.
		if err := x.clear(ctx, o.no, o.no); err != nil {
			return err
		}
	}
	return nil
}

// blocks reads a run from its beginning.
type blocks struct {
	names *names
	run   *run
	at    int // the next block
	chunk []byte
}

// peek returns the next name without taking it; io.EOF: no more names.
func (b *blocks) peek(ctx context.Context) (named, error) {
	if len(b.chunk) == 0 && b.at < len(b.run.fences) {
		to := min(b.at+chunkBlocks, len(b.run.fences))
		err := b.names.store.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			rows, err := tx.Query("SELECT names FROM queue_name_block WHERE id>=? AND id<? ORDER BY id", b.run.block(b.at), b.run.block(to))
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var block []byte
				if err := rows.Scan(&block); err != nil {
					return err
				}
				b.chunk = append(b.chunk, block...)
			}
			return rows.Err()
		})
		if err != nil {
			return named{}, err
		}
		b.at = to
	}
	if len(b.chunk) < namedBytes {
		return named{}, io.EOF
	}
	return readNamed(b.chunk), nil
}

func (b *blocks) take() { b.chunk = b.chunk[namedBytes:] }

// least takes the first name of all.
func least(ctx context.Context, all []*blocks) (named, error) {
	var from *blocks
	var first named
	for _, b := range all {
		n, err := b.peek(ctx)
		if errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			return named{}, err
		}
		if from == nil || n.less(first.name) {
			from, first = b, n
		}
	}
	if from == nil {
		return named{}, io.EOF
	}
	from.take()
	return first, nil
}

// forget drops the runs whose names are all old enough. Names of jobs that are still held
// move to a new run.
func (x *names) forget(ctx context.Context) error {
	old := x.store.o.Now().Add(-queue.Remember).UnixMilli()
	var held *held
	for _, r := range x.snapshot() {
		if r.newest > old {
			continue
		}
		if held == nil {
			var err error
			if held, err = x.store.held(ctx); err != nil {
				return err
			}
		}
		b := &blocks{names: x, run: r}
		next := func() (named, error) {
			for {
				n, err := b.peek(ctx)
				if err != nil {
					return named{}, err
				}
				if b.take(); held.have(n.pos) {
					return n, nil
				}
			}
		}
		if err := x.replace(ctx, []*run{r}, 0, x.store.o.Now().UnixMilli(), r.count, next); err != nil {
			return err
		}
	}
	return nil
}
