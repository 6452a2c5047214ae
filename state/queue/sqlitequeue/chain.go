package sqlitequeue

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// chainLate is how many late jobs of an ordered group are looked up at once.
const chainLate = 64

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
		mem := l.lock()
		some := mem.waiting.asking[:min(len(mem.waiting.asking), fillStrands)]
		ms = max(ms, mem.waiting.late.seen.at)
		looks := make([]*lookUp, len(some))
		for i, p := range mem.waiting.pages(some, 1) {
			looks[i] = &lookUp{page: *p, segs: p.strand.unread() && len(p.strand.ready) == 0}
		}
		if len(some) > 0 {
			mem.log.watch()
		}
		l.unlock()
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
		mem = l.lock()
		gone := mem.log.unwatch()
		if err == nil {
			mem.waiting.asking = mem.waiting.asking[len(some):]
			for _, k := range looks {
				mem.learns(k, gone, ms)
			}
		}
		l.unlock()
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
