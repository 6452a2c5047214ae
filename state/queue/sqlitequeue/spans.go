package sqlitequeue

import (
	"context"
	"sort"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// spans are positions in the file, in order: of a backlog, one span a queue.
type spans struct{ from, to []int64 } // both ends included

func (s *spans) add(from, to int64) {
	if last := len(s.to) - 1; last >= 0 && s.to[last]+1 == from {
		s.to[last] = to
		return
	}
	s.from, s.to = append(s.from, from), append(s.to, to)
}

func (s *spans) have(pos int64) bool {
	i := sort.Search(len(s.to), func(i int) bool { return s.to[i] >= pos })
	return i < len(s.to) && s.from[i] <= pos
}

// held is where jobs are: in segments, late, or kept after their end. Some that ended in the
// same segment count as held.
type held struct{ segments, late, completed, failed spans }

func (h *held) have(pos int64) bool {
	return h.segments.have(pos) || h.late.have(pos) || h.completed.have(pos) || h.failed.have(pos)
}

// held finds where jobs are. It reads segments before late jobs, and those before kept
// ones, because jobs move that way.
func (s *Store) held(ctx context.Context) (*held, error) {
	h := new(held)
	if err := s.scan(ctx, "SELECT pos, n FROM queue_segment WHERE pos>? ORDER BY pos LIMIT 10000", &h.segments); err != nil {
		return nil, err
	}
	if err := s.scan(ctx, "SELECT pos, 1 FROM queue_late WHERE pos>? ORDER BY pos LIMIT 10000", &h.late); err != nil {
		return nil, err
	}
	if err := s.scan(ctx, "SELECT pos, 1 FROM queue_kept WHERE state=0 AND pos>? ORDER BY pos LIMIT 10000", &h.completed); err != nil {
		return nil, err
	}
	return h, s.scan(ctx, "SELECT pos, 1 FROM queue_kept WHERE state=1 AND pos>? ORDER BY pos LIMIT 10000", &h.failed)
}

// scan reads positions in pages: no snapshot is held for long.
func (s *Store) scan(ctx context.Context, query string, into *spans) error {
	for last := int64(-1); ; {
		rows := 0
		err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			page, err := tx.Query(query, last)
			if err != nil {
				return err
			}
			defer page.Close()
			for page.Next() {
				var pos, n int64
				if err := page.Scan(&pos, &n); err != nil {
					return err
				}
				into.add(pos, pos+n-1)
				last = pos
				rows++
			}
			return page.Err()
		})
		if err != nil || rows == 0 {
			return err
		}
	}
}
