package sqlitequeue

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// How much is read at once.
const (
	pageJobs   = 1024     // unless more is asked for
	pageBytes  = 4 << 20  // and about that at most
	aheadBytes = 32 << 20 // of the pages of all groups together
	fillGroups = 64       // groups
)

// page is the part of a group that is read.
type page struct {
	group *group
	after uint64
	upTo  uint64 // all its segments up to here were read
	want  int
	bytes int
	items []item
}

// pages plans the reading of groups.
func (w *waitingSet) pages(some []*group, want int) []*page {
	n := max(len(w.groups), 1)
	pages := make([]*page, len(some))
	for i, s := range some {
		pages[i] = &page{group: s, after: s.cursor, upTo: s.end,
			want: max(want, min(pageJobs, w.bounds.ahead/n)), bytes: min(pageBytes, aheadBytes/n)}
		want = 1
	}
	return pages
}

// readAhead reads the pages, without the lock.
func (q *queueState) readAhead(ctx context.Context, s *Store, pages []*page) error {
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for _, p := range pages {
			if err := p.read(tx, q); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read queue %q: %w", q.name, err)
	}
	return nil
}

// aheadSQL reads the segments of a group, but none that no caller has reported yet.
const aheadSQL = `SELECT s.pos, s.n, s.jobs, e.bits FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
	WHERE s.strand=? AND s.pos>? AND s.pos<=? ORDER BY s.pos`

func (p *page) read(tx *sqlitedb.Tx, q *queueState) error {
	rows, err := tx.Query(aheadSQL, []byte(p.group.id), q.filePos(p.after), q.filePos(p.upTo))
	if err != nil {
		return err
	}
	defer rows.Close()
	bytes := 0
	for rows.Next() {
		seg, blob, err := scanSegment(rows)
		if err != nil {
			return err
		}
		p.add(seg, blob)
		bytes += len(blob)
		if len(p.items) >= p.want || bytes > p.bytes {
			p.upTo = seg.last()
			return nil
		}
	}
	p.upTo = max(p.upTo, p.after)
	return rows.Err()
}

// add adds the jobs that are in a segment.
func (p *page) add(seg *segment, blob []byte) {
	for it := range jobsOf(seg, blob, seg.ended) {
		if it.group = p.group; p.group.ordered {
			h, _ := readHead(it.rec)
			it.due, it.priority = h.added, h.priority
		}
		p.items = append(p.items, it)
	}
}
