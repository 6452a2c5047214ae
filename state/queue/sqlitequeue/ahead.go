package sqlitequeue

import (
	"cmp"
	"container/heap"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// How much is read at once.
const (
	pageJobs    = 1024     // unless more is asked for
	pageBytes   = 4 << 20  // and about that at most
	aheadBytes  = 32 << 20 // of the pages of all groups together
	fillStrands = 64       // groups
)

// room is how much of one queue is in memory, with any backlog.
type room struct {
	ahead   int // jobs handed over from Add, or read ahead, by all groups together, while the reader keeps up
	backs   int // waiting jobs that came due; more are found when those are done
	strands int // groups, where keys are kept apart; more are found in the file when those are done
}

// page is the part of a group that is read.
type page struct {
	strand *group
	after  uint64
	upTo   uint64 // all its segments up to here were read
	want   int
	bytes  int
	items  []item
}

// pages plans the reading of groups. mu is held.
func (l *line) pages(some []*group, want int) []*page {
	n := max(len(l.strands), 1)
	pages := make([]*page, len(some))
	for i, s := range some {
		pages[i] = &page{strand: s, after: s.cursor, upTo: s.end,
			want: max(want, min(pageJobs, l.room.ahead/n)), bytes: min(pageBytes, aheadBytes/n)}
		want = 1
	}
	return pages
}

// readAhead reads the pages. mu is not held.
func (l *line) readAhead(ctx context.Context, s *Store, pages []*page) error {
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for _, p := range pages {
			if err := p.read(tx, l); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read queue %q: %w", l.name, err)
	}
	return nil
}

// aheadSQL reads the segments of a group, but none that no caller has reported yet.
const aheadSQL = `SELECT s.pos, s.n, s.jobs, e.bits FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
	WHERE s.strand=? AND s.pos>? AND s.pos<=? ORDER BY s.pos`

func (p *page) read(tx *sqlitedb.Tx, l *line) error {
	rows, err := tx.Query(aheadSQL, []byte(p.strand.id), l.place(p.after), l.place(p.upTo))
	if err != nil {
		return err
	}
	defer rows.Close()
	bytes := 0
	for rows.Next() {
		var place int64
		var n int
		var blob []byte
		var ended sql.NullInt64
		if err := rows.Scan(&place, &n, &blob, &ended); err != nil {
			return err
		}
		seg := &segment{first: position(place), n: n, ended: uint64(ended.Int64), saved: ended.Valid}
		p.add(seg, blob)
		bytes += len(blob)
		if len(p.items) >= p.want || bytes > p.bytes {
			p.upTo = seg.first + uint64(n) - 1
			return nil
		}
	}
	p.upTo = max(p.upTo, p.after)
	return rows.Err()
}

// add adds the jobs that are in a segment.
func (p *page) add(seg *segment, blob []byte) {
	for it := range jobsOf(seg, blob, seg.ended) {
		if it.strand = p.strand; p.strand.chain {
			h, _ := readHead(it.rec)
			it.due, it.priority = h.added, h.priority
		}
		p.items = append(p.items, it)
	}
}

// watch begins to note jobs that end, or leave their segment, while the file is read. Only
// the holder of the turn "handing" reads so. mu is held.
func (l *line) watch() { l.gone = map[uint64]struct{}{} }

// unwatch returns the noted jobs. mu is held.
func (l *line) unwatch() map[uint64]struct{} {
	gone := l.gone
	l.gone = nil
	return gone
}

// fill takes up the jobs that were read, except those that are gone. mu is held.
func (l *line) fill(pages []*page, gone map[uint64]struct{}) {
	for _, p := range pages {
		s := l.keep(p.strand)
		if l.relists { // it may have been read before
			p.items = slices.DeleteFunc(p.items, func(it item) bool {
				_, is := gone[it.n]
				return is || l.outs[it.n] != nil || l.backs[it.n] != nil
			})
		}
		for i := range p.items {
			l.knows(&p.items[i])
		}
		if len(s.ready) == 0 {
			s.ready = p.items
		} else {
			s.ready = append(s.ready, p.items...)
		}
		l.ahead += len(p.items)
		s.cursor = max(s.cursor, p.upTo)
		s.end = max(s.end, p.upTo)
		l.seat(s)
	}
}

// knows lets a job that was read share its segment with the others in memory. mu is held.
func (l *line) knows(it *item) {
	if is := l.segs[it.seg.first]; is != nil {
		it.seg = is
	} else {
		l.segs[it.seg.first] = it.seg
	}
	if it.n <= l.boot {
		it.handed = max(it.handed, 1)
	}
}

// due takes up late jobs that have come due. Its caller has the turn "handing".
func (l *line) due(ctx context.Context, s *Store) error {
	for dropped := false; ; {
		now, ms := s.now()
		l.mu.Lock()
		if !l.redo.IsZero() && !l.redo.After(now) {
			l.redo, l.seen, l.nextAt = time.Time{}, dueMark{at: -1}, 1
		}
		due := l.nextAt > 0 && l.nextAt <= ms
		if due && len(l.backs) >= l.room.backs {
			l.evict()
		}
		if due && len(l.backs) >= l.room.backs && l.limited && !dropped {
			l.drop()
			dropped = true
		}
		look := due && len(l.backs) < l.room.backs
		from, few := l.seen, len(l.backs) < pageJobs
		if look {
			l.watch()
			l.seen, l.nextAt = dueMark{ms, lastPlace}, 0 // so that later ones are not skipped
		}
		l.vague = l.vague || due && !look
		l.mu.Unlock()
		if !look {
			return nil
		}
		d := &duePage{upTo: from, few: few}
		err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error { return d.read(tx, l, from, ms) })
		l.mu.Lock()
		gone := l.unwatch()
		if err != nil {
			d.upTo, d.next = from, 1
		}
		if d.upTo.less(l.seen) {
			l.seen = d.upTo
		}
		if d.next > 0 {
			l.looksAt(d.next)
		}
		if err == nil && d.upTo.place == lastPlace && l.dropped {
			l.dropped, l.redo = false, now.Add(redoAfter)
		}
		if err == nil {
			for _, f := range d.items {
				if _, is := gone[f.n]; !is {
					f.strand = l.strand(l.apart.of(nil, l.no, f.head.priority, f.head.tenant, f.head.key))
					f.priority = f.head.priority
					l.takeUp(f.item)
				}
			}
		}
		l.mu.Unlock()
		if err != nil {
			return fmt.Errorf("read what comes due in queue %q: %w", l.name, err)
		}
	}
}

// redoAfter is when dropped jobs are looked for again.
const redoAfter = 10 * time.Second

// drop makes room for other due jobs, where limits hold back those in memory. Some jobs of each
// group stay; the others are found again when all due jobs were read. mu is held, and its
// caller has the turn "handing".
func (l *line) drop() {
	var some []*group
	for _, s := range l.strands { // in any order: each on its own
		if len(s.back) > 0 && !s.chain {
			some = append(some, s)
		}
	}
	for _, s := range some {
		keep := min(l.room.backs/2/len(some), len(s.back))
		slices.SortFunc(s.back, func(a, b *item) int { return cmp.Compare(a.n, b.n) })
		rest := s.back[keep:]
		s.back = s.back[:keep:keep]
		for i, it := range s.back {
			it.index = int32(i)
		}
		for _, it := range rest {
			if _, late := l.hot[it.n]; !late {
				heap.Push(&s.back, it)
				continue
			}
			delete(l.backs, it.n)
			delete(l.hot, it.n)
			l.tally(s, it, -1)
			l.dropped = true
		}
		l.seat(s)
	}
}

// duePage is late jobs that have come due.
type duePage struct {
	items []dueItem
	upTo  dueMark
	next  int64 // when to look again
	few   bool  // the jobs may be kept in memory, else only their places
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

func (d *duePage) read(tx *sqlitedb.Tx, l *line, from dueMark, now int64) error {
	if from.at < 0 {
		if whole, err := d.scan(tx, noTimeSQL, l.no, from.place); err != nil || !whole {
			d.upTo.at, d.next = -1, 1
			return err
		}
		from = dueMark{}
	}
	whole, err := d.scan(tx, dueSQL, l.no, from.at, now, from.at, from.place)
	if err != nil {
		return err
	}
	if !whole { // more are left
		d.next = max(d.upTo.at, 1)
		return nil
	}
	d.upTo = dueMark{now, lastPlace}
	return tx.QueryRow("SELECT coalesce(min(at),0) FROM queue_late WHERE queue=? AND at>?", l.no, now).Scan(&d.next)
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
		var place int64
		var failures []byte
		if err := rows.Scan(&place, &it.at, &it.tries, &it.handed, &it.due, &it.rec, &failures); err != nil {
			return false, err
		}
		it.n = position(place)
		it.head, _ = readHead(it.rec)
		if bytes += len(it.rec) + len(failures); !d.few || bytes > pageBytes {
			it.rec = nil
		} else if failures != nil {
			it.past = &past{failures: failures}
		}
		d.items = append(d.items, it)
		d.upTo = dueMark{it.at, place}
	}
	return true, rows.Err()
}
