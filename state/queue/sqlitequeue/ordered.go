package sqlitequeue

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// orderedLate is how many late jobs of an ordered group are looked up at once.
const orderedLate = 64

// lookUp is the look-up of one ordered group.
type lookUp struct {
	page
	segs bool // its segments too
	late []dueItem
	more bool // late jobs, after those
}

// lookUp looks up ordered groups whose first job is not known. Its caller has the turn
// "handing".
func (q *queueState) lookUp(ctx context.Context, s *Store) error {
	for {
		_, ms := s.now()
		mem := q.lock()
		some := mem.waiting.asking[:min(len(mem.waiting.asking), fillGroups)]
		ms = max(ms, mem.waiting.late.seen.at)
		looks := make([]*lookUp, len(some))
		for i, p := range mem.waiting.pages(some, 1) {
			looks[i] = &lookUp{page: *p, segs: p.group.unread() && len(p.group.ready) == 0}
		}
		if len(some) > 0 {
			mem.log.watch()
		}
		q.unlock()
		if len(some) == 0 {
			return nil
		}
		err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			for _, k := range looks {
				if err := k.read(tx, q, ms); err != nil {
					return err
				}
			}
			return nil
		})
		mem = q.lock()
		gone := mem.log.unwatch()
		if err == nil {
			mem.waiting.asking = mem.waiting.asking[len(some):]
			for _, k := range looks {
				mem.learn(k, gone, ms)
			}
		}
		q.unlock()
		if err != nil {
			return fmt.Errorf("look up keys of queue %q: %w", q.name, err)
		}
	}
}

// orderedSQL finds the late jobs that have joined an ordered group, the first of them first.
const orderedSQL = `SELECT pos, coalesce(at,0), tries, handed, due, job FROM queue_late
	WHERE strand=? AND due<=? ORDER BY due, pos LIMIT ?`

func (k *lookUp) read(tx *sqlitedb.Tx, q *queueState, now int64) error {
	if k.segs {
		if err := k.page.read(tx, q); err != nil {
			return err
		}
	}
	rows, err := tx.Query(orderedSQL, []byte(k.group.id), now, orderedLate+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if len(k.late) == orderedLate {
			k.more = true
			return nil
		}
		var it dueItem
		var pos int64
		if err := rows.Scan(&pos, &it.at, &it.tries, &it.handed, &it.due, (*sqlitedb.Blob)(&it.rec)); err != nil {
			return err
		}
		it.n = position(pos)
		it.head, _ = readHead(it.rec)
		it.rec = nil
		k.late = append(k.late, it)
	}
	return rows.Err()
}
