package idset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tidemill/tidemill/internal/blocks"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

const (
	mergeRuns = 8 // this many runs of one level are merged
	topLevel  = 2 // runs of that level, some eight million ids, are left as they are
)

// Forget says what Sweep may drop; the zero value: nothing.
type Forget struct {
	// Before is when ids were added that are dropped. They are dropped a run at a time, so some are
	// dropped later.
	Before time.Time
	// Held says whether an id is kept nevertheless, by its position. It is made when a run is dropped.
	Held func(context.Context) (func(pos int64) bool, error)
}

// SweepEvery is how often to call Sweep: at 40,000 new ids a second it finds three runs.
const SweepEvery = 10 * time.Second

// Sweep does the housekeeping that no caller should wait for: it merges runs and forgets old ids.
// Call it every SweepEvery; without it adding becomes slower with every run. Callers add and look
// up meanwhile.
func (s *Set) Sweep(ctx context.Context, f Forget) error {
	if err := s.sweeping.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.sweeping.Release(1)
	if err := s.flushAll(ctx); err != nil {
		return err
	}
	if err := s.numbers.Mend(ctx); err != nil {
		return fmt.Errorf("remove unfinished runs of %s: %w", s.o.Name, err)
	}
	if err := s.forget(ctx, f); err != nil {
		return fmt.Errorf("forget old ids of %s: %w", s.o.Name, err)
	}
	for level := range topLevel {
		for {
			runs := s.ofLevel(level)
			if len(runs) < mergeRuns {
				break
			}
			oldest := runs[len(runs)-mergeRuns:]
			if err := s.merge(ctx, oldest, level+1); err != nil {
				return fmt.Errorf("merge ids of %s: %w", s.o.Name, err)
			}
		}
	}
	return nil
}

// flushAll waits for who writes tables, and writes those that are full.
func (s *Set) flushAll(ctx context.Context) error {
	if err := s.flushing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.flushing.Release(1)
	return s.flush(ctx)
}

func (s *Set) snapshot() []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

func (s *Set) ofLevel(level int) (runs []*run) {
	for _, r := range s.snapshot() {
		if r.level == level {
			runs = append(runs, r)
		}
	}
	return runs
}

// Relieve writes full tables, for a caller that is about to add ids. While another caller does that
// it returns, unless there are too many: ids in memory are bounded.
func (s *Set) Relieve(ctx context.Context) error {
	s.mu.Lock()
	held := 0
	for _, t := range s.tables {
		held += len(t.entries)
	}
	s.mu.Unlock()
	if held < s.o.Table {
		return nil
	}
	if held >= 4*s.o.Table {
		return s.flushAll(ctx)
	}
	if !s.flushing.TryAcquire(1) {
		return nil
	}
	defer s.flushing.Release(1)
	return s.flush(ctx)
}

// flush writes full tables as runs, and any that an error left behind. Its caller holds the lock.
func (s *Set) flush(ctx context.Context) error {
	s.mu.Lock()
	if t := s.tables[len(s.tables)-1]; len(t.entries) >= s.o.Table {
		s.tables = append(s.tables, s.newTable(t.gen+1, s.o.Table))
		if t.open == 0 {
			close(t.quiet)
		}
	}
	old := slices.Clone(s.tables[:len(s.tables)-1])
	s.mu.Unlock()
	for _, t := range old {
		select {
		case <-t.quiet:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.flushTable(ctx, t); err != nil {
			return fmt.Errorf("write %d set: %w", len(t.entries), err)
		}
	}
	return nil
}

// flushTable writes a table that changes no more.
func (s *Set) flushTable(ctx context.Context, t *table) error {
	known := make([]Entry, 0, len(t.entries))
	for i := range t.entries {
		if e := &t.entries[i]; e.Pos != 0 {
			known = append(known, e.Entry)
		}
	}
	r, err := s.write(ctx, 0, s.o.Now().UnixMilli(), len(known), inOrder(known), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec(s.sql.forget, logID(t.gen+1, 0))
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish(r)
	s.tables = slices.DeleteFunc(s.tables, func(o *table) bool { return o == t })
	return nil
}

// Add adds ids whose things are stored, as a run; last runs in the transaction that makes it valid.
// It is for things that were stored before there was a set.
func (s *Set) Add(ctx context.Context, entries []Entry, last func(*sqlitedb.Tx) error) error {
	if err := s.flushing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.flushing.Release(1)
	r, err := s.write(ctx, 0, s.o.Now().UnixMilli(), len(entries), inOrder(entries), last)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish(r)
	return nil
}

// inOrder yields entries in their order.
func inOrder(entries []Entry) func() (Entry, error) {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return a.compare(b.ID) })
	return func() (Entry, error) {
		if len(sorted) == 0 {
			return Entry{}, io.EOF
		}
		e := sorted[0]
		sorted = sorted[1:]
		return e, nil
	}
}

// publish replaces runs by a new one for look-ups. mu is held.
func (s *Set) publish(r *run, instead ...*run) {
	runs := slices.DeleteFunc(slices.Clone(s.runs), func(o *run) bool { return slices.Contains(instead, o) })
	if r != nil {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(b.newest, a.newest) })
	s.runs = runs
}

// write writes a run: at most count entries that next yields in order until io.EOF. last runs
// in the transaction that makes the run valid. Without any it writes no run.
func (s *Set) write(ctx context.Context, level int, newest int64, count int, next func() (Entry, error), last func(*sqlitedb.Tx) error) (r *run, err error) {
	r = &run{no: s.numbers.Next(), level: level, newest: newest, filter: newFilter(count)}
	defer func(no int64) {
		if err != nil {
			s.numbers.Gone(no)
		}
	}(r.no)
	var args []any
	var block []byte
	write := func() error {
		err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
			_, err := tx.Bulk(s.sql.addBlock, "(?,?)", "", args)
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
				r.fences = append(r.fences, n.Hash)
				block = make([]byte, 0, blockIDs*entryBytes)
			}
			block = n.append(block)
			r.filter.add(n.Hash)
			r.count++
		}
		if len(block) == blockIDs*entryBytes || end && len(block) > 0 {
			args = append(args, r.block(len(r.fences)-1), block)
			block = nil
		}
		if len(args) == 2*blocks.Chunk || end && len(args) > 0 {
			if err := write(); err != nil {
				return nil, err
			}
		}
	}
	fences, filter := wordBytes(r.fences), wordBytes(r.filter)
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if r.count > 0 {
			if _, err := tx.Exec(s.sql.addRun,
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

// merge makes one run of several.
func (s *Set) merge(ctx context.Context, runs []*run, level int) error {
	var newest int64
	count := 0
	all := make([]*blocks.Reader[Entry], len(runs))
	for i, r := range runs {
		all[i] = s.entries(r)
		newest, count = max(newest, r.newest), count+r.count
	}
	return s.replace(ctx, runs, level, newest, count, func() (Entry, error) {
		return blocks.Least(ctx, all, func(a, b Entry) int { return a.compare(b.ID) })
	})
}

// replace writes a run of what next yields instead of others.
func (s *Set) replace(ctx context.Context, runs []*run, level int, newest int64, count int, next func() (Entry, error)) error {
	r, err := s.write(ctx, level, newest, count, next, func(tx *sqlitedb.Tx) error {
		for _, o := range runs {
			if _, err := tx.Exec(s.sql.dropRun, o.no); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.publish(r, runs...)
	s.mu.Unlock()
	for _, o := range runs {
		s.numbers.Gone(o.no)
	}
	// A reader of the old runs at this moment has a snapshot that holds them, or misses a block and
	// reads again.
	return s.numbers.Mend(ctx)
}

// forget drops the runs whose ids are all old enough. Ids that are held move to a new run: no table is
// written meanwhile, for what that has of an id is newer.
func (s *Set) forget(ctx context.Context, f Forget) error {
	if f.Before.IsZero() {
		return nil
	}
	var held func(int64) bool
	for _, r := range s.snapshot() {
		if r.newest > f.Before.UnixMilli() {
			continue
		}
		if held == nil {
			var err error
			if held, err = f.Held(ctx); err != nil {
				return err
			}
		}
		b := s.entries(r)
		next := func() (Entry, error) {
			for {
				e, err := b.Peek(ctx)
				if err != nil {
					return Entry{}, err
				}
				if b.Take(); held(e.Pos) {
					return e, nil
				}
			}
		}
		if err := s.flushing.Acquire(ctx, 1); err != nil {
			return err
		}
		err := s.replace(ctx, []*run{r}, 0, s.o.Now().UnixMilli(), r.count, next)
		s.flushing.Release(1)
		if err != nil {
			return err
		}
	}
	return nil
}
