package sqlitequeue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// jobPage is jobs in order of position as they lie in the file: for listings and for a
// look-up by position. Hand-outs do not use it.
type jobPage struct {
	items []item
	upTo  uint64 // every job up to here was read
	bytes int
}

// read reads at least one job, and about want, from after the position on, if any follow up
// to end. It leaves out jobs that are not of a state, as far as where they lie says so.
func (q *queueState) read(ctx context.Context, s *Store, after, end uint64, want int, state queue.State) (*jobPage, error) {
	p := &jobPage{upTo: end}
	_, ms := s.now()
	if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error { return p.read(tx, q, after, want, state, ms) }); err != nil {
		return nil, fmt.Errorf("read queue %q: %w", q.name, err)
	}
	return p, nil
}

// read reads about want jobs behind a position, up to upTo.
func (p *jobPage) read(tx *sqlitedb.Tx, q *queueState, after uint64, want int, state queue.State, ms int64) error {
	if state != queue.Delayed {
		if err := p.segments(tx, q, after, want); err != nil {
			return err
		}
	}
	return p.lates(tx, q, after, want, lateWhere(state, ms))
}

// span is where the jobs lie that a filter lists: behind one position, up to another.
func span(f queue.Filter) (after, end uint64) {
	switch {
	case !f.Back:
		return f.After.Lo, posMask
	case f.After == tidemill.Mark{}:
		return 0, posMask
	}
	return 0, max(f.After.Lo, 1) - 1
}

// lateWhere is the condition on late jobs of a state.
func lateWhere(state queue.State, ms int64) string {
	switch state {
	case queue.Delayed:
		return fmt.Sprintf(" AND at>%d", ms)
	case queue.Waiting:
		return fmt.Sprintf(" AND coalesce(at,0)<=%d", ms)
	}
	return ""
}

// listPage is how many jobs a listing reads at once.
const listPage = 256

// wanted is how many jobs a listing reads at first: most filters choose nearly all.
func wanted(f queue.Filter) int {
	if f.Max > 0 {
		return min(listPage, f.Max)
	}
	return listPage
}

// pages yields the jobs that have not ended, from the filter's position on, some at a time.
func (q *queueState) pages(ctx context.Context, s *Store, f queue.Filter) iter.Seq2[[]item, error] {
	after, end := span(f)
	return q.pagesIn(ctx, s, f, after, min(end, q.last()))
}

// pagesIn yields those behind a position and up to another.
func (q *queueState) pagesIn(ctx context.Context, s *Store, f queue.Filter, after, end uint64) iter.Seq2[[]item, error] {
	want := wanted(f)
	return func(yield func([]item, error) bool) {
		for after < end {
			items, upTo, err := q.readBetween(ctx, s, after, end, want, f)
			if !yield(items, err) || err != nil {
				return
			}
			if after = upTo; f.Back {
				after, end = 0, upTo
			}
			if want -= len(items); want <= 0 {
				want = listPage
			}
		}
	}
}

// readBetween reads about want jobs behind a position, up to another, or back from there. It says up to
// which position, or back to behind which, it read.
func (q *queueState) readBetween(ctx context.Context, s *Store, after, end uint64, want int, f queue.Filter) ([]item, uint64, error) {
	if !f.Back {
		p, err := q.read(ctx, s, after, end, want, f.State)
		if err != nil {
			return nil, 0, err
		}
		return p.items, p.upTo, nil
	}
	from, err := q.before(ctx, s, end, want, f.State)
	if err != nil {
		return nil, 0, err
	}
	var items []item
	for upTo := from; upTo < end; {
		p, err := q.read(ctx, s, upTo, end, want, f.State)
		if err != nil {
			return nil, 0, err
		}
		items, upTo = append(items, p.items...), p.upTo
	}
	slices.Reverse(items)
	return items, from, nil
}

// before is a position behind which, up to end, there are about as many jobs as are wanted.
func (q *queueState) before(ctx context.Context, s *Store, end uint64, want int, state queue.State) (from uint64, err error) {
	_, ms := s.now()
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for i, query := range []string{
			"SELECT s.pos, s.n-coalesce(e.gone,0), length(s.jobs) FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos WHERE s.pos>? AND s.pos<=? ORDER BY s.pos DESC",
			"SELECT pos, 1, length(job) FROM queue_late WHERE pos>? AND pos<=?" + lateWhere(state, ms) + " ORDER BY pos DESC",
		} {
			if i == 0 && state == queue.Delayed {
				continue
			}
			at, err := fullPage(tx, want, query, q.filePos(from), q.filePos(end))
			if err != nil {
				return err
			}
			from = max(from, at)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read queue %q: %w", q.name, err)
	}
	return from, nil
}

// fullPage is the position before the rows of a query that fill a page; 0: they do not.
func fullPage(tx *sqlitedb.Tx, want int, query string, args ...any) (before uint64, err error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	jobs, size := 0, 0
	for rows.Next() {
		var pos int64
		var n, length int
		if err := rows.Scan(&pos, &n, &length); err != nil {
			return 0, err
		}
		if jobs, size = jobs+n, size+length; jobs >= want || size > pageBytes {
			return position(pos) - 1, nil
		}
	}
	return 0, rows.Err()
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
		var group []byte
		seg, blob, err := scanSegment(rows, &group)
		if err != nil {
			return err
		}
		p.bytes += len(blob)
		p.add(seg, blob, group, after)
		if len(p.items) >= want || p.bytes > pageBytes {
			p.upTo = seg.last()
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

// scanSegment reads a segment from a row: its position, how many jobs it has, the jobs, and which of
// them have ended; then more.
func scanSegment(rows *sql.Rows, more ...any) (*segment, []byte, error) {
	var pos int64
	var blob sqlitedb.Blob
	var ended sql.NullInt64
	seg := new(segment)
	if err := rows.Scan(append([]any{&pos, &seg.n, &blob, &ended}, more...)...); err != nil {
		return nil, nil, err
	}
	seg.first, seg.ended, seg.saved = position(pos), uint64(ended.Int64), ended.Valid
	return seg, blob, nil
}

// lateColumns are those that scanLate reads.
const lateColumns = "pos, coalesce(at,0), tries, handed, due, job, cause, failures"

// scanLate reads a late job with its past from a row.
func scanLate(rows *sql.Rows) (it item, err error) {
	var pos int64
	it.past = new(past)
	err = rows.Scan(&pos, &it.at, &it.tries, &it.handed, &it.due, (*sqlitedb.Blob)(&it.rec), &it.past.cause, &it.past.failures)
	it.n = position(pos)
	return it, err
}

// lates merges late jobs in.
func (p *jobPage) lates(tx *sqlitedb.Tx, q *queueState, after uint64, want int, where string) error {
	rows, err := tx.Query(`SELECT `+lateColumns+` FROM queue_late
		WHERE pos>? AND pos<=?`+where+` ORDER BY pos`, q.filePos(after), q.filePos(p.upTo))
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
		it, err := scanLate(rows)
		if err != nil {
			return err
		}
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
