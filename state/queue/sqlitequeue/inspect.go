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
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Books implements tidemill.Bookkeeper, from one snapshot of the file. It reads every
// segment's row, but not its jobs.
func (s *source) Books(ctx context.Context) (tidemill.Books, error) { return s.books(ctx, true) }

// Counters implements tidemill.Counter. It reads one row.
func (s *source) Counters(ctx context.Context) (tidemill.Books, error) { return s.books(ctx, false) }

func (s *source) books(ctx context.Context, count bool) (tidemill.Books, error) {
	var b tidemill.Books
	q := s.store.find(s.queue)
	if q == nil {
		return b, ctx.Err()
	}
	err := s.store.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		var next, delivered, skipped, dead, pending int64
		if err := tx.QueryRow("SELECT next, delivered, skipped, dead FROM queue WHERE no=?", q.no).Scan(&next, &delivered, &skipped, &dead); err != nil {
			return err
		}
		if count {
			if err := tx.QueryRow(pendingSQL, q.pendingArgs()...).Scan(&pending); err != nil {
				return err
			}
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

// Stats implements queue.Inspector. The counts are of one moment, except for jobs that change
// hands meanwhile.
func (s *Store) Stats(ctx context.Context, name string) (queue.Stats, error) {
	q := s.find(name)
	if q == nil {
		return queue.Stats{}, ctx.Err()
	}
	if err := s.tidy(ctx, q); err != nil {
		return queue.Stats{}, err
	}
	var st queue.Stats
	if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) { st, err = q.stats(tx, s); return err }); err != nil {
		return st, fmt.Errorf("count queue %q: %w", name, err)
	}
	return st, nil
}

// stats counts the queue's jobs by state, and finds the oldest that it holds.
func (q *queueState) stats(tx *sqlitedb.Tx, s *Store) (st queue.Stats, err error) {
	now, ms := s.now()
	mem := q.lock()
	mem.expire(now)
	lates := mem.waiting.late.rows
	q.unlock()
	if lates > 0 {
		if err := tx.QueryRow("SELECT count(*) FROM queue_late WHERE queue=? AND at>?", q.no, ms).Scan(&st.Delayed); err != nil {
			return st, err
		}
	}
	mem = q.lock()
	st.Leased = int64(len(mem.leases.outs))
	st.Waiting = max(mem.log.pending-st.Leased-st.Delayed, 0)
	st.Completed, st.Failed = mem.log.kept[keptCompleted], mem.log.kept[keptFailed]
	end := mem.waiting.end
	q.unlock()
	if st.Waiting+st.Delayed+st.Leased == 0 {
		return st, nil
	}
	p := &jobPage{upTo: end}
	if err := p.read(tx, q, 0, 1, "", ms); err != nil {
		return st, err
	}
	for _, it := range p.items {
		if h, ok := readHead(it.rec); ok && !it.damaged {
			st.Oldest = time.UnixMilli(h.added).UTC()
			break
		}
	}
	return st, nil
}

// last is the position of the newest job.
func (q *queueState) last() uint64 {
	mem := q.lock()
	defer q.unlock()
	return mem.waiting.end
}

// List implements queue.Inspector: queues by name, the jobs of each oldest first, page by page; or
// all that from its end.
func (s *Store) List(ctx context.Context, f queue.Filter) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		left := f.Max
		queues := s.chosen(f.Queue)
		if f.Back {
			slices.Reverse(queues)
		}
		for _, q := range queues {
			for job, err := range s.search(ctx, q, f) {
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

// search yields the jobs of a queue that a filter chooses; the caller applies Max.
func (s *Store) search(ctx context.Context, q *queueState, f queue.Filter) iter.Seq2[*queue.Job, error] {
	var all iter.Seq2[*queue.Job, error]
	looks := &rules.Looks{Most: f.Look}
	switch {
	case len(f.IDs) > 0:
		all, looks.Most = s.named(ctx, q, f), 0
	case f.State == queue.Leased:
		all = s.leased(ctx, q, f)
	case f.State == "" || f.State.Held():
		all = s.jobs(ctx, q, f, looks)
	default:
		all = s.keptJobs(ctx, q, f, looks)
	}
	return func(yield func(*queue.Job, error) bool) {
		for job, err := range all {
			if err == nil && !f.Matches(job) {
				if err = looks.Pass(job.Mark); err != nil {
					yield(nil, err)
					return
				}
				continue
			}
			if !yield(job, err) || err != nil {
				return
			}
		}
	}
}

// chosen are the queues of that name, or all, by name.
func (s *Store) chosen(name string) []*queueState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*queueState
	for _, q := range s.queues {
		if name == "" || q.name == name {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *queueState) int { return cmp.Compare(a.name, b.name) })
	return all
}

// jobs yields the jobs of a queue that have not ended, from the filter's position on.
func (s *Store) jobs(ctx context.Context, q *queueState, f queue.Filter, looks *rules.Looks) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		for items, err := range q.chosen(ctx, s, f, looks) {
			for i := range items {
				if err := ctx.Err(); err != nil {
					yield(nil, err)
					return
				}
				if it := &items[i]; !it.damaged && !may(&f, it.rec) {
					if err := looks.Pass(q.markOf(it.n)); err != nil {
						yield(nil, err)
						return
					}
				} else if !yield(s.job(q, it), nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// markOf is the mark of the job at a position, without a lease.
func (q *queueState) markOf(n uint64) tidemill.Mark { return tidemill.Mark{Shard: q.no, Lo: n} }

// chosen yields the jobs that have not ended, from the filter's position on, some at a time: of a
// tenant few others.
func (q *queueState) chosen(ctx context.Context, s *Store, f queue.Filter, looks *rules.Looks) iter.Seq2[[]item, error] {
	if f.Tenant != "" && f.State != queue.Delayed {
		return q.pagesOf(ctx, s, f, looks)
	}
	return q.pages(ctx, s, f)
}

// named yields the jobs of a queue that have one of the filter's IDs, or seem to.
func (s *Store) named(ctx context.Context, q *queueState, f queue.Filter) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		var all []uint64
		for _, id := range f.IDs {
			some, err := s.positions(ctx, q, id)
			if err != nil {
				yield(nil, fmt.Errorf("look for job %q in queue %q: %w", id, q.name, err))
				return
			}
			all = append(all, some...)
		}
		slices.Sort(all)
		all = slices.Compact(all)
		if f.Back {
			slices.Reverse(all)
		}
		s.those(ctx, q, all, f.State == "" || f.State.Held())(yield)
	}
}

// leased yields the jobs of a queue that are handed out, from the filter's position on.
func (s *Store) leased(ctx context.Context, q *queueState, f queue.Filter) iter.Seq2[*queue.Job, error] {
	after, end := span(f)
	var all []uint64
	mem := q.lock()
	for n := range mem.leases.outs {
		if after < n && n <= end {
			all = append(all, n)
		}
	}
	q.unlock()
	if slices.Sort(all); f.Back {
		slices.Reverse(all)
	}
	return s.those(ctx, q, all, true)
}

// those yields the jobs at positions that are still there.
func (s *Store) those(ctx context.Context, q *queueState, positions []uint64, held bool) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		for _, n := range positions {
			job, err := s.jobAt(ctx, q, n, held)
			if job == nil && err == nil {
				continue
			}
			if !yield(job, err) || err != nil {
				return
			}
		}
	}
}

// jobAt is the job at a position, live or kept, or nil.
func (s *Store) jobAt(ctx context.Context, q *queueState, n uint64, held bool) (*queue.Job, error) {
	if !held {
		k, err := s.keptAt(ctx, q, n)
		if err != nil || k == nil {
			return nil, err
		}
		return k.job(q), nil
	}
	f, err := q.at(ctx, s, n)
	if err != nil || f == nil {
		return nil, err
	}
	return s.job(q, f), nil
}

// job shows a job to an operator.
func (s *Store) job(q *queueState, it *item) *queue.Job {
	j := &queue.Job{State: queue.Waiting, Failures: readFailures(it.failures())}
	if it.past != nil {
		j.Cause = string(it.past.cause)
	}
	if added, err := readRecord(it.rec, &j.Message); err != nil || it.damaged {
		j.Message = tidemill.Message{}
		j.Cause = errDamaged.Error()
	} else {
		j.Added = time.UnixMilli(added).UTC()
	}
	now, ms := s.now()
	j.To, j.Tries, j.Handed = q.name, int(it.tries), int(it.handed)
	j.Mark = q.markOf(it.n)
	if it.at != 0 {
		j.At = time.UnixMilli(it.at).UTC()
	}
	mem := q.lock()
	defer q.unlock()
	mem.expire(now)
	if it.seg != nil && it.n <= mem.log.boot {
		j.Handed = 1
	}
	w := mem.waiting.backs[it.n]
	switch o := mem.leases.outs[it.n]; {
	case o != nil:
		j.State, j.Handed = queue.Leased, int(o.handed)
	case w != nil:
		j.Handed = max(j.Handed, int(w.handed))
	case it.at > ms:
		j.State = queue.Delayed
	}
	return j
}

// Damaged counts the jobs of a queue whose bytes were found changed. They are dead in the
// books, and kept in the table queue_damaged.
func (s *Store) Damaged(ctx context.Context, name string) (n int, err error) {
	q := s.find(name)
	if q == nil {
		return 0, ctx.Err()
	}
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		err := tx.QueryRow("SELECT count(*) FROM queue_damaged WHERE pos BETWEEN ? AND ?", q.filePos(0), q.filePos(posMask)).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return n, err
}
