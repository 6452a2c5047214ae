package sqlitequeue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/bits"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// jobPage is jobs in order of position as they lie in the file: for listings and for a
// look-up by position. Hand-outs do not use it.
type jobPage struct {
	items []item
	upTo  uint64 // every job up to here was read
	bytes int
}

// read reads at least one job, and about want, from after the position on, if any follow up
// to end.
func (q *queueState) read(ctx context.Context, s *Store, after, end uint64, want int) (*jobPage, error) {
	p := &jobPage{upTo: end}
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := p.segments(tx, q, after, want); err != nil {
			return err
		}
		return p.lates(tx, q, after, want)
	})
	if err != nil {
		return nil, fmt.Errorf("read queue %q: %w", q.name, err)
	}
	return p, nil
}

// segments reads jobs of segments. The position may lie inside the first one.
func (p *jobPage) segments(tx *sqlitedb.Tx, q *queueState, after uint64, want int) error {
	start := q.filePos(after + 1)
	err := tx.QueryRow("SELECT pos FROM queue_segment WHERE pos<=? AND pos>=? ORDER BY pos DESC LIMIT 1", start, q.filePos(0)).Scan(&start)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	rows, err := tx.Query(`SELECT s.pos, s.n, s.jobs, e.bits, s.strand FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
		WHERE s.pos>=? AND s.pos<=? ORDER BY s.pos`, start, q.filePos(p.upTo))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if len(p.items) >= want || p.bytes > pageBytes {
			return nil // upTo is where the last one ends
		}
		var pos int64
		var n int
		var blob, group []byte
		var ended sql.NullInt64
		if err := rows.Scan(&pos, &n, &blob, &ended, &group); err != nil {
			return err
		}
		seg := &segment{first: position(pos), n: n, ended: uint64(ended.Int64), saved: ended.Valid}
		p.bytes += len(blob)
		p.add(seg, blob, group, after)
		if last := seg.first + uint64(n) - 1; len(p.items) >= want || p.bytes > pageBytes {
			p.upTo = last
		}
	}
	return rows.Err()
}

// add adds the jobs of a segment that are in it and come after a position.
func (p *jobPage) add(seg *segment, blob, group []byte, after uint64) {
	of := readGroup(group)
	for it := range jobsOf(seg, blob, seg.ended) {
		if it.n > after {
			it.group = of
			p.items = append(p.items, it)
		}
	}
}

// jobsOf yields the jobs that are in a segment. In a damaged one, the first job has its
// bytes.
func jobsOf(seg *segment, blob []byte, ended uint64) iter.Seq[item] {
	return func(yield func(item) bool) {
		records, err := cutSegment(blob, seg.n)
		for i := range seg.n {
			if ended&(1<<i) != 0 {
				continue
			}
			it := item{n: seg.first + uint64(i), seg: seg, damaged: err != nil}
			if err == nil {
				it.rec = records[i]
			} else if i == bits.TrailingZeros64(^ended) {
				it.rec = blob // once, to be kept with the first
			}
			if !yield(it) {
				return
			}
		}
	}
}

// lates merges late jobs in.
func (p *jobPage) lates(tx *sqlitedb.Tx, q *queueState, after uint64, want int) error {
	rows, err := tx.Query(`SELECT pos, coalesce(at,0), tries, handed, due, job, cause, failures FROM queue_late
		WHERE pos>? AND pos<=? ORDER BY pos`, q.filePos(after), q.filePos(p.upTo))
	if err != nil {
		return err
	}
	defer rows.Close()
	fresh := p.items
	p.items = make([]item, 0, len(fresh))
	late := 0
	for rows.Next() {
		if late >= want || p.bytes > 2*pageBytes { // the rest of the range is for the next page
			p.upTo = p.items[len(p.items)-1].n
			return nil
		}
		var it item
		was := new(past)
		var pos int64
		if err := rows.Scan(&pos, &it.at, &it.tries, &it.handed, &it.due, &it.rec, &was.cause, &was.failures); err != nil {
			return err
		}
		it.n, it.past = position(pos), was
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
