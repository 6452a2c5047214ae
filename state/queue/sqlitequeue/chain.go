package sqlitequeue

import (
	"container/heap"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// chainLate is how many late jobs of an ordered group are looked up at once.
const chainLate = 64

// ask notes that an ordered group has to be looked up in the file. mu is held.
func (l *line) ask(s *group) {
	if !s.asked {
		s.asked = true
		l.asking = append(l.asking, s)
	}
}

// lookUp is the look-up of one ordered group.
type lookUp struct {
	page
	segs bool // its segments too
	late []dueItem
	more bool // late jobs, after those
}

// lookUp looks up ordered groups whose first job is not known. Its caller has the turn
// "handing".
func (l *line) lookUp(ctx context.Context, s *Store) error {
	for {
		_, ms := s.now()
		l.mu.Lock()
		some := l.asking[:min(len(l.asking), fillStrands)]
		ms = max(ms, l.seen.at)
		looks := make([]*lookUp, len(some))
		for i, p := range l.pages(some, 1) {
			looks[i] = &lookUp{page: *p, segs: p.strand.unread() && len(p.strand.ready) == 0}
		}
		if len(some) > 0 {
			l.watch()
		}
		l.mu.Unlock()
		if len(some) == 0 {
			return nil
		}
		err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			for _, k := range looks {
				if err := k.read(tx, l, ms); err != nil {
					return err
				}
			}
			return nil
		})
		l.mu.Lock()
		gone := l.unwatch()
		if err == nil {
			l.asking = l.asking[len(some):]
			for _, k := range looks {
				l.learns(k, gone, ms)
			}
		}
		l.mu.Unlock()
		if err != nil {
			return fmt.Errorf("look up keys of queue %q: %w", l.name, err)
		}
	}
}

// chainSQL finds the late jobs that have joined an ordered group, the first of them first.
const chainSQL = `SELECT pos, coalesce(at,0), tries, handed, due, job FROM queue_late
	WHERE strand=? AND due<=? ORDER BY due, pos LIMIT ?`

func (k *lookUp) read(tx *sqlitedb.Tx, l *line, now int64) error {
	if k.segs {
		if err := k.page.read(tx, l); err != nil {
			return err
		}
	}
	rows, err := tx.Query(chainSQL, []byte(k.strand.id), now, chainLate+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if len(k.late) == chainLate {
			k.more = true
			return nil
		}
		var it dueItem
		var place int64
		if err := rows.Scan(&place, &it.at, &it.tries, &it.handed, &it.due, &it.rec); err != nil {
			return err
		}
		it.n = position(place)
		it.head, _ = readHead(it.rec)
		it.rec = nil
		k.late = append(k.late, it)
	}
	return rows.Err()
}

// learns takes up the result of a look-up, without jobs that have ended meanwhile. mu is
// held.
func (l *line) learns(k *lookUp, gone map[uint64]struct{}, now int64) {
	s := k.strand
	s.unsure, s.lateTo = false, after{}
	for i := range k.late {
		it := &k.late[i]
		if _, ended := gone[it.n]; ended {
			continue
		}
		it.strand, it.priority = s, it.head.priority
		if k.more {
			s.lateTo = it.after()
		}
		if _, hot := l.hot[it.n]; !hot && it.at > now {
			s.holder = it.n // delayed: it comes when it is due
		} else {
			l.takeUp(it.item)
		}
	}
	if k.segs {
		l.fill([]*page{&k.page}, gone)
	}
	s.asked = false
	l.seat(s)
}

// listStrands is how many groups are looked for at once.
const listStrands = 1000

// full says that memory has no room for more groups. Groups that are handed out do not
// count: they are bounded otherwise.
func (l *line) full() bool { return len(l.strands)-len(l.outs) >= l.room.strands }

// evict drops due jobs from memory while others of their keys hold them back: the job that
// does so may have to come due first. They are looked up when they may go. mu is held, and
// its caller has the turn "handing".
func (l *line) evict() {
	for n, it := range l.backs { // in any order: all of them
		s := it.strand
		if _, late := l.hot[n]; !late || !s.chain || s.holder == 0 {
			continue
		}
		heap.Remove(&s.back, int(it.index))
		delete(l.backs, n)
		delete(l.hot, n)
		l.tally(s, it, -1)
		s.unsure = true
	}
}

// forgets drops groups whose keys' limits allow no job now, so that others are found. Its
// caller has the turn "handing".
func (l *line) forgets() {
	var some []*group
	for _, lv := range l.levels {
		for tenant := lv.ring.first; tenant != nil; tenant = tenant.next {
			for leaf := tenant.ring.first; leaf != nil && len(some) < min(listStrands, l.room.strands); leaf = leaf.next {
				for _, s := range leaf.strands {
					if s.key != "" {
						some = append(some, s)
					}
				}
			}
		}
	}
	for _, s := range some {
		l.forget(s)
	}
}

// list looks in the file for groups that found no place in memory, when memory has room, or
// when too few of those in memory may go on. Its caller has the turn "handing".
func (l *line) list(ctx context.Context, s *Store) error {
	l.mu.Lock()
	if l.unlisted && l.stuck {
		l.forgets()
	}
	look := l.unlisted && (l.stuck || len(l.strands)-len(l.outs) <= l.room.strands/2)
	from := l.listed
	if from == nil {
		from, l.missed, l.relists = strandsOf(l.no), false, true
	}
	l.mu.Unlock()
	if !look {
		return nil
	}
	var found []foundStrand
	end := false
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for len(found) < listStrands && !end {
			var f foundStrand
			err := tx.QueryRow("SELECT strand FROM queue_segment WHERE strand>? AND strand<? ORDER BY strand LIMIT 1", from, strandsOf(l.no+1)).Scan(&f.id)
			if end = errors.Is(err, sql.ErrNoRows); end {
				return nil
			}
			if err == nil {
				err = tx.QueryRow("SELECT max(pos) FROM queue_segment WHERE strand=?", f.id).Scan(&f.last)
			}
			if err != nil {
				return err
			}
			found, from = append(found, f), f.id
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for keys of queue %q: %w", l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range found {
		if is := l.strands[string(f.id)]; is == nil {
			s := l.keep(readStrand(f.id))
			s.end = max(s.end, min(position(f.last), l.end))
			l.seat(s)
		}
	}
	if l.listed = from; end {
		l.listed, l.unlisted, l.round = nil, l.missed, l.round+1
	}
	return nil
}

// foundStrand is a group found in the file.
type foundStrand struct {
	id   []byte
	last int64 // where its newest segment begins
}
