package sqlitequeue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// listing is how far the file was looked through for groups, where it may have more than
// memory has. It goes round and round, a page at a time.
type listing struct {
	unlisted bool   // the file may have more groups than memory
	from     []byte // the group up to which they were looked for; nil: the round has not begun
	missed   bool   // more came since that began
	relists  bool   // groups are read again whose jobs may be handed out
	stuck    bool   // more jobs were asked for than those in memory may hand out
	since    int    // the last round in which a job could go
	round    int    // how often all groups in the file were read
}

// again says that the file has to be looked through at once, after no job could go: not all of
// it was since one could. Else the next answer is for the next round.
func (g *listing) again() bool {
	if g.round <= g.since+1 {
		return true
	}
	g.since = g.round
	return false
}

// chose notes whether jobs were chosen, and whether more were asked for.
func (g *listing) chose(n, most int) {
	if g.stuck = n < most; n > 0 {
		g.since = g.round
	}
}

// begin is where to look on.
func (g *listing) begin(no uint32) []byte {
	if g.from == nil {
		g.missed, g.relists = false, true
		return groupsFrom(no)
	}
	return g.from
}

// listGroups is how many groups are looked for at once.
const listGroups = 1000

// lookFrom is where to look in the file for groups that are not in memory; nil: memory is full,
// and those in memory may go on. Its caller has the turn "handing".
func (w *waitingSet) lookFrom(out int) []byte {
	if w.listing.unlisted && w.listing.stuck {
		w.forgetHeldBack()
	}
	look := w.listing.unlisted && (w.listing.stuck || len(w.groups)-out <= w.bounds.groups/2)
	from := w.listing.begin(w.apart.no)
	if !look {
		return nil
	}
	return from
}

// forgetHeldBack drops groups whose keys' limits allow no job now, so that others are found. Its
// caller has the turn "handing".
func (w *waitingSet) forgetHeldBack() {
	var some []*group
	for _, lv := range w.levels {
		for tenant := lv.ring.first; tenant != nil; tenant = tenant.next {
			for leaf := tenant.ring.first; leaf != nil && len(some) < min(listGroups, w.bounds.groups); leaf = leaf.next {
				for _, s := range leaf.groups {
					if s.key != "" {
						some = append(some, s)
					}
				}
			}
		}
	}
	for _, s := range some {
		w.forget(s)
	}
}

// addGroups takes up groups that were found, up to a group, or the end of the file.
func (w *waitingSet) addGroups(found []foundGroup, to []byte, end bool) {
	for _, f := range found {
		if w.groups[string(f.id)] == nil {
			s := w.keep(readGroup(f.id))
			s.end = max(s.end, min(position(f.last), w.end))
			w.seat(s)
		}
	}
	g := &w.listing
	if g.from = to; end {
		g.from, g.unlisted, g.round = nil, g.missed, g.round+1
	}
}

// list looks in the file for groups that are not in memory, when memory is not full, or when
// too few of those in memory may go on. Its caller has the turn "handing".
func (q *queueState) list(ctx context.Context, s *Store) error {
	mem := q.lock()
	from := mem.waiting.lookFrom(len(mem.leases.outs))
	q.unlock()
	if from == nil {
		return nil
	}
	var found []foundGroup
	end := false
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for len(found) < listGroups && !end {
			f, err := nextGroup(tx, from, groupsFrom(q.no+1))
			if end = errors.Is(err, sql.ErrNoRows); end {
				return nil
			}
			if err != nil {
				return err
			}
			found, from = append(found, f), f.id
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for keys of queue %q: %w", q.name, err)
	}
	mem = q.lock()
	defer q.unlock()
	mem.waiting.addGroups(found, from, end)
	return nil
}

// foundGroup is a group found in the file.
type foundGroup struct {
	id   []byte
	last int64 // where its newest segment begins
}

// nextGroup is the first group in the file after a name and before another.
func nextGroup(tx *sqlitedb.Tx, from, to []byte) (f foundGroup, err error) {
	err = tx.QueryRow("SELECT strand FROM queue_segment WHERE strand>? AND strand<? ORDER BY strand LIMIT 1", from, to).Scan(&f.id)
	if err != nil {
		return f, err
	}
	return f, tx.QueryRow("SELECT max(pos) FROM queue_segment WHERE strand=?", f.id).Scan(&f.last)
}

// findGroups finds the groups of the queue, at the start.
func (w *waitingSet) findGroups(tx *sqlitedb.Tx) error {
	rows, err := tx.Query(groupsSQL, groupsFrom(w.apart.no), groupsFrom(w.apart.no+1))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var jobs, last int64
		if err := rows.Scan(&id, &jobs, &last); err != nil {
			return err
		}
		w.found(id, last, jobs, -1)
	}
	return rows.Err()
}

// groupsSQL finds the groups of a queue, what each holds, and where it ends.
const groupsSQL = `SELECT s.strand, sum(s.n)-coalesce(sum(e.gone),0), max(s.pos)
	FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
	WHERE s.strand>=? AND s.strand<? GROUP BY s.strand`

// findOrdered does the same where order is strict: the jobs of an ordered group have
// different priorities.
func (w *waitingSet) findOrdered(tx *sqlitedb.Tx) error {
	rows, err := tx.Query(`SELECT s.strand, s.pos, s.n-coalesce(e.gone,0), s.priority
		FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
		WHERE s.strand>=? AND s.strand<? ORDER BY s.strand, s.pos`, groupsFrom(w.apart.no), groupsFrom(w.apart.no+1))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var last, jobs int64
		var priority int
		if err := rows.Scan(&id, &last, &jobs, &priority); err != nil {
			return err
		}
		w.found(id, last, jobs, priority)
	}
	return rows.Err()
}

// found notes jobs of a group in the file; its last segment begins at last. priority -1:
// the group's. Nothing is handed out yet.
func (w *waitingSet) found(id []byte, last, jobs int64, priority int) {
	s := readGroup(id)
	of := item{priority: s.priority}
	if priority >= 0 {
		of.priority = uint8(priority)
	}
	w.tally(s, &of, jobs)
	if is := w.groups[s.id]; is != nil {
		s = is
	} else if w.full(0) {
		w.listing.unlisted = true
		return
	} else {
		s = w.keep(s)
	}
	s.end = max(s.end, position(last))
	w.seat(s)
}
