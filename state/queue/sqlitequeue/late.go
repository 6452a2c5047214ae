package sqlitequeue

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// lateJobs is which jobs of queue_late are in memory, and when to look for others. Those that
// came due up to seen are in memory or ended, except where dropped or vague say otherwise.
type lateJobs struct {
	rows    int64               // in queue_late
	hot     map[uint64]struct{} // those of them that wait in memory, or are handed out
	seen    dueMark             // all due jobs up to here were read
	nextAt  int64               // when the next late job comes due; 0: never
	redo    time.Time           // when to read all due jobs again; zero: none was dropped
	dropped bool                // some due jobs were dropped from memory
	limited bool                // limits hold back those in memory, and memory is full
	vague   bool                // late jobs in the file, due or delayed, may hold back ordered groups
}

// dueMark is a position in queue_late by time; jobs without a time come first.
type dueMark struct {
	at  int64
	pos int64
}

// lastPos is after all others of a time.
const lastPos = 1<<63 - 1

func (m dueMark) less(o dueMark) bool { return m.at < o.at || m.at == o.at && m.pos < o.pos }

// start notes how many are in the file at the start: all due jobs are to be read.
func (j *lateJobs) start(rows int64) {
	if j.rows = rows; rows > 0 {
		j.seen, j.nextAt, j.vague = dueMark{at: -1}, 1, true
	}
}

// applied takes over a change that was written.
func (j *lateJobs) applied(k *change) {
	for _, n := range k.dropped {
		delete(j.hot, n)
	}
	j.rows += int64(len(k.moved) - len(k.dropped))
}

// noteDue notes that a late job comes due then. If the clock went back, that time is read
// again.
func (j *lateJobs) noteDue(at int64) {
	if at <= j.seen.at {
		j.seen = dueMark{at - 1, lastPos}
	}
	j.lookAt(at)
}

// lookAt notes when to look for due jobs.
func (j *lateJobs) lookAt(at int64) {
	if j.nextAt == 0 || at < j.nextAt {
		j.nextAt = at
	}
}

// read takes over how far due jobs were read, or that it failed.
func (j *lateJobs) read(d *duePage, from dueMark, now time.Time, err error) {
	if err != nil {
		d.upTo, d.next = from, 1
	}
	if d.upTo.less(j.seen) {
		j.seen = d.upTo
	}
	if d.next > 0 {
		j.lookAt(d.next)
	}
	if err == nil && d.upTo.pos == lastPos && j.dropped {
		j.dropped, j.redo = false, now.Add(redoAfter)
	}
}

// takeUp lets a late job wait to be handed out, unless it does already.
func (w *waitingSet) takeUp(it item) {
	if _, hot := w.late.hot[it.n]; !hot {
		w.late.hot[it.n] = struct{}{}
		w.push(it)
	}
}

// lookForDue says whether to read late jobs that have come due, and makes room for them. It
// drops jobs unless some were dropped before. Its caller has the turn "handing".
func (w *waitingSet) lookForDue(now time.Time, ms int64, dropped *bool) bool {
	j := &w.late
	if !j.redo.IsZero() && !j.redo.After(now) {
		j.redo, j.seen, j.nextAt = time.Time{}, dueMark{at: -1}, 1
	}
	due := j.nextAt > 0 && j.nextAt <= ms
	if due && len(w.backs) >= w.bounds.backs {
		w.evict()
	}
	if due && len(w.backs) >= w.bounds.backs && j.limited && !*dropped {
		w.drop()
		*dropped = true
	}
	look := due && len(w.backs) < w.bounds.backs
	j.vague = j.vague || due && !look
	return look
}

// due takes up late jobs that have come due. Its caller has the turn "handing".
func (q *queueState) due(ctx context.Context, s *Store) error {
	for dropped := false; ; {
		now, ms := s.now()
		mem := q.lock()
		look := mem.waiting.lookForDue(now, ms, &dropped)
		from, few := mem.waiting.late.seen, len(mem.waiting.backs) < pageJobs
		if look {
			mem.log.watch()
			mem.waiting.late.seen, mem.waiting.late.nextAt = dueMark{ms, lastPos}, 0 // so that later ones are not skipped
		}
		q.unlock()
		if !look {
			return nil
		}
		d := &duePage{upTo: from, few: few}
		err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error { return d.read(tx, q, from, ms) })
		mem = q.lock()
		gone := mem.log.unwatch()
		mem.waiting.late.read(d, from, now, err)
		if err == nil {
			mem.waiting.addDue(d.items, gone)
		}
		q.unlock()
		if err != nil {
			return fmt.Errorf("read what comes due in queue %q: %w", q.name, err)
		}
	}
}

// addDue takes up jobs that were read, except those that are gone.
func (w *waitingSet) addDue(items []dueItem, gone map[uint64]struct{}) {
	for _, f := range items {
		if _, is := gone[f.n]; !is {
			f.group = w.groupNamed(w.apart.of(nil, f.head.priority, f.head.tenant, f.head.key))
			f.priority = f.head.priority
			w.takeUp(f.item)
		}
	}
}

// redoAfter is when dropped jobs are looked for again.
const redoAfter = 10 * time.Second

// evict drops due jobs from memory while others of their keys hold them back: the job that
// does so may have to come due first. They are looked up when they may go. Its caller
// has the turn "handing".
func (w *waitingSet) evict() {
	for n, it := range w.backs { // in any order: all of them
		s := it.group
		if _, late := w.late.hot[n]; !late || !s.ordered || s.holder == 0 {
			continue
		}
		heap.Remove(&s.back, int(it.index))
		delete(w.backs, n)
		delete(w.late.hot, n)
		w.tally(s, it, -1)
		s.unsure = true
	}
}

// drop makes room for other due jobs, where limits hold back those in memory. Some jobs of each
// group stay; the others are found again when all due jobs were read. Its caller has
// the turn "handing".
func (w *waitingSet) drop() {
	var some []*group
	for _, s := range w.groups { // in any order: each on its own
		if len(s.back) > 0 && !s.ordered {
			some = append(some, s)
		}
	}
	for _, s := range some {
		keep := min(w.bounds.backs/2/len(some), len(s.back))
		slices.SortFunc(s.back, func(a, b *item) int { return cmp.Compare(a.n, b.n) })
		rest := s.back[keep:]
		s.back = s.back[:keep:keep]
		for i, it := range s.back {
			it.index = int32(i)
		}
		for _, it := range rest {
			if _, late := w.late.hot[it.n]; !late {
				heap.Push(&s.back, it)
				continue
			}
			delete(w.backs, it.n)
			delete(w.late.hot, it.n)
			w.tally(s, it, -1)
			w.late.dropped = true
		}
		w.seat(s)
	}
}

// duePage is late jobs that have come due.
type duePage struct {
	items []dueItem
	upTo  dueMark
	next  int64 // when to look again
	few   bool  // the jobs may be kept in memory, else only their positions
}

type dueItem struct {
	item
	head head
}

// dueSQL finds the due jobs, and of those without a time the ones stored at the start.
const (
	noTimeSQL = `SELECT pos, 0, tries, handed, due, job, failures FROM queue_late WHERE queue=? AND at IS NULL AND pos>? ORDER BY pos`
	dueSQL    = `SELECT pos, at, tries, handed, due, job, failures FROM queue_late
		WHERE queue=? AND at>=? AND at<=? AND (at>? OR pos>?) ORDER BY at, pos`
)

func (d *duePage) read(tx *sqlitedb.Tx, q *queueState, from dueMark, now int64) error {
	if from.at < 0 {
		if whole, err := d.scan(tx, noTimeSQL, q.no, from.pos); err != nil || !whole {
			d.upTo.at, d.next = -1, 1
			return err
		}
		from = dueMark{}
	}
	whole, err := d.scan(tx, dueSQL, q.no, from.at, now, from.at, from.pos)
	if err != nil {
		return err
	}
	if !whole { // more are left
		d.next = max(d.upTo.at, 1)
		return nil
	}
	d.upTo = dueMark{now, lastPos}
	return tx.QueryRow("SELECT coalesce(min(at),0) FROM queue_late WHERE queue=? AND at>?", q.no, now).Scan(&d.next)
}

// scan says whether it found all.
func (d *duePage) scan(tx *sqlitedb.Tx, query string, args ...any) (all bool, err error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	bytes := 0
	for rows.Next() {
		if len(d.items) >= pageJobs {
			return false, nil
		}
		var it dueItem
		var pos int64
		var failures []byte
		if err := rows.Scan(&pos, &it.at, &it.tries, &it.handed, &it.due, (*sqlitedb.Blob)(&it.rec), &failures); err != nil {
			return false, err
		}
		it.n = position(pos)
		it.head, _ = readHead(it.rec)
		if bytes += len(it.rec) + len(failures); !d.few || bytes > pageBytes {
			it.rec = nil
		} else if failures != nil {
			it.past = &past{failures: failures}
		}
		d.items = append(d.items, it)
		d.upTo = dueMark{it.at, pos}
	}
	return true, rows.Err()
}
