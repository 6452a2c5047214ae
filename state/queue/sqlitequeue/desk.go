package sqlitequeue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// Books implements tidemill.Bookkeeper, from one snapshot of the file. It looks at every
// segment held, though not at its jobs.
func (s *source) Books(ctx context.Context) (tidemill.Books, error) {
	var b tidemill.Books
	l := s.store.find(s.queue)
	if l == nil {
		return b, ctx.Err()
	}
	err := s.store.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		var next, delivered, skipped, dead, pending int64
		if err := tx.QueryRow("SELECT next, delivered, skipped, dead FROM queue WHERE no=?", l.no).Scan(&next, &delivered, &skipped, &dead); err != nil {
			return err
		}
		if err := tx.QueryRow(pendingSQL, l.place(0), l.place(placeMask), l.no).Scan(&pending); err != nil {
			return err
		}
		b = tidemill.Books{
			Accepted: uint64(next), Pending: uint64(pending),
			Settled: tidemill.Count{Delivered: uint64(delivered), Skipped: uint64(skipped), Dead: uint64(dead)},
		}
		return nil
	})
	if err != nil {
		return b, fmt.Errorf("read the books of queue %q: %w", s.queue, err)
	}
	return b, nil
}

// Stats implements queue.Desk. The counts are of one moment, but for jobs that change
// hands while it is asked.
func (s *Store) Stats(ctx context.Context, name string) (queue.Stats, error) {
	var st queue.Stats
	l := s.find(name)
	if l == nil {
		return st, ctx.Err()
	}
	now, ms := s.now()
	l.mu.Lock()
	l.expire(now)
	st.Leased = int64(len(l.outs))
	l.mu.Unlock()
	var pending int64
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := tx.QueryRow(pendingSQL, l.place(0), l.place(placeMask), l.no).Scan(&pending); err != nil {
			return err
		}
		return tx.QueryRow("SELECT count(*) FROM queue_late WHERE queue=? AND at>?", l.no, ms).Scan(&st.Delayed)
	})
	if err != nil {
		return st, fmt.Errorf("count queue %q: %w", name, err)
	}
	st.Waiting = max(pending-st.Leased-st.Delayed, 0)
	p, err := l.read(ctx, s, 0, l.last(), 1, 1<<63-1, noSegment)
	if err != nil {
		return st, err
	}
	for _, it := range p.items {
		var m tidemill.Message
		if added, err := readRecord(it.rec, &m); err == nil && !it.damaged {
			st.Oldest = time.UnixMilli(added).UTC()
			break
		}
	}
	return st, nil
}

func (l *line) last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

func noSegment(uint64) *segment { return nil }

// List implements queue.Desk: queues by name, the jobs of each oldest first, page by page.
func (s *Store) List(ctx context.Context, f queue.Filter) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		left := f.Max
		for _, l := range s.chosen(f.Queue) {
			for job, err := range s.jobs(ctx, l) {
				if err == nil && !f.Matches(job) {
					continue
				}
				if !yield(job, err) || err != nil {
					return
				}
				if left--; left == 0 {
					return
				}
			}
		}
	}
}

// chosen are the queues of that name, or all, by name.
func (s *Store) chosen(name string) []*line {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*line
	for _, l := range s.lines {
		if name == "" || l.name == name {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *line) int { return cmp.Compare(a.name, b.name) })
	return all
}

// jobs yields all jobs of a queue.
func (s *Store) jobs(ctx context.Context, l *line) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		for after, end := uint64(0), l.last(); after < end; {
			p, err := l.read(ctx, s, after, end, 256, 1<<63-1, noSegment)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, it := range p.items {
				if err := ctx.Err(); err != nil {
					yield(nil, err)
					return
				}
				if !yield(s.job(l, it), nil) {
					return
				}
			}
			after = p.upTo
		}
	}
}

// job shows a job to an operator.
func (s *Store) job(l *line, it pageItem) *queue.Job {
	j := &queue.Job{State: queue.Waiting, Cause: string(it.cause)}
	if _, err := readRecord(it.rec, &j.Message); err != nil || it.damaged {
		j.Message = tidemill.Message{}
		j.Cause = errDamaged.Error()
	}
	now, ms := s.now()
	j.To, j.Tries, j.Handed = l.name, it.tries, it.handed
	j.Mark = tidemill.Mark{Shard: l.no, Lo: it.n}
	if it.at != 0 {
		j.At = time.UnixMilli(it.at).UTC()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	switch o := l.outs[it.n]; {
	case o != nil:
		j.State, j.Handed = queue.Leased, o.handed
	case it.at > ms:
		j.State = queue.Delayed
	}
	if it.seg != nil && (it.n <= l.boot || it.n <= l.top) {
		j.Handed = max(j.Handed, 1)
	}
	return j
}

// Damaged counts the jobs of a queue that were found to be other bytes than were written.
// They are dead in the books, and kept in the table queue_damaged.
func (s *Store) Damaged(ctx context.Context, name string) (n int, err error) {
	l := s.find(name)
	if l == nil {
		return 0, ctx.Err()
	}
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		err := tx.QueryRow("SELECT count(*) FROM queue_damaged WHERE pos BETWEEN ? AND ?", l.place(0), l.place(placeMask)).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return n, err
}
