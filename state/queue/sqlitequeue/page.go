package sqlitequeue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

const (
	pageJobs  = 1024    // read ahead at once, if nobody asks for more
	pageBytes = 4 << 20 // and no more than about that
	aheadJobs = 4096    // handed over from Add in memory, while the reader keeps up
)

// page is jobs in order of position as they lie in the file.
type page struct {
	items []pageItem
	upTo  uint64 // every job up to here was looked at
	bytes int
}

type pageItem struct {
	item
	cause []byte // of the last failed try
}

// read reads at least one job, and about want, from after the position on, if there are
// any up to end. Late jobs are in it if they come due by dueBy. Its caller knows segments
// that are in memory by known.
func (l *line) read(ctx context.Context, s *Store, after, end uint64, want int, dueBy int64, known func(first uint64) *segment) (*page, error) {
	p := &page{upTo: end}
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := p.segments(tx, l, after, want, known); err != nil {
			return err
		}
		return p.lates(tx, l, after, want, dueBy)
	})
	if err != nil {
		return nil, fmt.Errorf("read queue %q: %w", l.name, err)
	}
	return p, nil
}

// segments reads jobs of segments. The position may lie inside the first one.
func (p *page) segments(tx *sqlitedb.Tx, l *line, after uint64, want int, known func(uint64) *segment) error {
	start := l.place(after + 1)
	err := tx.QueryRow("SELECT pos FROM queue_segment WHERE pos<=? AND pos>=? ORDER BY pos DESC LIMIT 1", start, l.place(0)).Scan(&start)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	rows, err := tx.Query(`SELECT s.pos, s.n, s.jobs, e.bits FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
		WHERE s.pos>=? AND s.pos<=? ORDER BY s.pos`, start, l.place(p.upTo))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if len(p.items) >= want || p.bytes > pageBytes {
			return nil // upTo is where the last one ends
		}
		var place int64
		var n int
		var blob []byte
		var ended sql.NullInt64
		if err := rows.Scan(&place, &n, &blob, &ended); err != nil {
			return err
		}
		seg := known(position(place))
		if seg == nil {
			seg = &segment{first: position(place), n: n, ended: uint64(ended.Int64), saved: ended.Valid}
		}
		p.bytes += len(blob)
		p.add(seg, blob, uint64(ended.Int64), after)
		if last := seg.first + uint64(n) - 1; len(p.items) >= want || p.bytes > pageBytes {
			p.upTo = last
		}
	}
	return rows.Err()
}

// add adds the jobs of a segment that are in it and come after a position.
func (p *page) add(seg *segment, blob []byte, ended, after uint64) {
	records, err := cutSegment(blob, seg.n)
	for i := range seg.n {
		n := seg.first + uint64(i)
		if n <= after || ended&(1<<i) != 0 {
			continue
		}
		it := item{n: n, seg: seg, damaged: err != nil}
		if err == nil {
			it.rec = records[i]
		} else if i == bits.TrailingZeros64(^ended) {
			it.rec = blob // once, to be kept with the first
		}
		p.items = append(p.items, pageItem{item: it})
	}
}

// lates merges late jobs in.
func (p *page) lates(tx *sqlitedb.Tx, l *line, after uint64, want int, dueBy int64) error {
	rows, err := tx.Query(`SELECT pos, coalesce(at,0), tries, handed, job, cause FROM queue_late
		WHERE pos>? AND pos<=? AND (at IS NULL OR at<=?) ORDER BY pos`, l.place(after), l.place(p.upTo), dueBy)
	if err != nil {
		return err
	}
	defer rows.Close()
	fresh := p.items
	p.items = make([]pageItem, 0, len(fresh))
	late := 0
	for rows.Next() {
		if late >= want || p.bytes > 2*pageBytes { // the rest of the range is for the next page
			p.upTo = p.items[len(p.items)-1].n
			return nil
		}
		var it pageItem
		var place int64
		if err := rows.Scan(&place, &it.at, &it.tries, &it.handed, &it.rec, &it.cause); err != nil {
			return err
		}
		it.n = position(place)
		for len(fresh) > 0 && fresh[0].n < it.n {
			p.items, fresh = append(p.items, fresh[0]), fresh[1:]
		}
		p.items = append(p.items, it)
		p.bytes += len(it.rec)
		late++
	}
	p.items = append(p.items, fresh...)
	return rows.Err()
}

// fill reads ahead when there is nothing ready. Its caller has the turn "handing".
func (l *line) fill(ctx context.Context, s *Store, want int) error {
	l.mu.Lock()
	if len(l.ready) > 0 || l.cursor == l.end {
		l.mu.Unlock()
		return nil
	}
	after, end := l.cursor, l.end
	_, ms := s.now()
	dueBy := max(ms, l.seen.at)
	l.reading = true
	l.mu.Unlock()
	p, err := l.read(ctx, s, after, end, max(want, pageJobs), dueBy, l.segment)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = false
	if err != nil {
		return err
	}
	for _, it := range p.items {
		if it.seg != nil {
			l.segs[it.seg.first] = it.seg
			if it.n <= l.boot {
				it.handed = 1
			}
		} else {
			l.hot[it.n] = struct{}{}
		}
		l.ready = append(l.ready, it.item)
	}
	l.cursor = p.upTo
	return nil
}

// segment returns a segment that is in memory, or nil.
func (l *line) segment(first uint64) *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segs[first]
}

// due takes up late jobs that have come due behind the cursor; those before it are found
// by position. Its caller has the turn "handing".
func (l *line) due(ctx context.Context, s *Store) error {
	_, ms := s.now()
	l.mu.Lock()
	look := l.nextAt > 0 && l.nextAt <= ms && len(l.back) < pageJobs
	from, cursor := l.seen, l.cursor
	l.mu.Unlock()
	if !look {
		return nil
	}
	var found []item
	upTo, next := dueMark{at: ms, place: 1<<63 - 1}, int64(0)
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query(`SELECT pos, at, tries, handed, job FROM queue_late
			WHERE queue=? AND at>=? AND at<=? AND (at>? OR pos>?) ORDER BY at, pos`, l.no, from.at, ms, from.at, from.place)
		if err != nil {
			return err
		}
		defer rows.Close()
		bytes := 0
		for rows.Next() {
			var it item
			var place int64
			if err := rows.Scan(&place, &it.at, &it.tries, &it.handed, &it.rec); err != nil {
				return err
			}
			it.n = position(place)
			if it.n <= cursor {
				found = append(found, it)
				bytes += len(it.rec)
			}
			if len(found) == pageJobs || bytes > pageBytes {
				upTo, next = dueMark{it.at, place}, it.at // there may be more
				return nil
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return tx.QueryRow("SELECT coalesce(min(at),0) FROM queue_late WHERE queue=? AND at>?", l.no, ms).Scan(&next)
	})
	if err != nil {
		return fmt.Errorf("read what comes due in queue %q: %w", l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.nextAt = upTo, next
	for _, it := range found {
		l.takeUp(it)
	}
	return nil
}
