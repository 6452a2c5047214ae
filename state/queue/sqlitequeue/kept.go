package sqlitequeue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Ended jobs are kept in queue_kept, as many and for as long as the settings say.
const (
	keptCompleted = iota
	keptFailed
	keptStates
)

// keptState is where a job with that fate is kept.
func keptState(f tidemill.Fate) int {
	if f == tidemill.Dead {
		return keptFailed
	}
	return keptCompleted
}

// keeping is the setting for a state.
func keeping(s *queue.Settings, state int) queue.Keep {
	if state == keptFailed {
		return s.Failed
	}
	return s.Completed
}

// forgetJobs of a state are deleted in one transaction at least, where they are too many or too
// old: others wait for it.
const forgetJobs = 1000

// ends is the changes of kept jobs in a transaction.
type ends struct {
	settings *queue.Settings
	now      int64
	rows     []keptRow
	gone     []uint64          // deleted by hand
	edited   []keptRow         // with another payload
	less     [keptStates]int64 // deleted by hand, of each state
	had      [keptStates]int64 // kept before

	trimmed [keptStates]int64 // deleted because they are too many, or too old
}

// keptRow is a row of queue_kept.
type keptRow struct {
	n             uint64
	state         int
	fate          tidemill.Fate
	tries, handed int
	cause         []byte
	failures      []byte
	rec           []byte
	ended         int64 // where it was read
}

func (e *ends) none() bool {
	if e == nil {
		return true
	}
	for state, had := range e.had {
		k := keeping(e.settings, state)
		if had > int64(k.Count) || had > 0 && k.Age > 0 {
			return false
		}
	}
	return len(e.rows)+len(e.gone)+len(e.edited) == 0
}

// apply writes it. The writer runs it.
func (e *ends) apply(tx *sqlitedb.Tx, q *queueState) error {
	if e.none() {
		return nil
	}
	e.trimmed = [keptStates]int64{}
	args := make([]any, 0, 10*len(e.rows))
	have := e.had
	for _, r := range e.rows {
		args = append(args, q.filePos(r.n), q.no, r.state, e.now, uint8(r.fate), r.tries, r.handed, r.cause, r.failures, r.rec)
		have[r.state]++
	}
	if _, err := tx.Bulk("INSERT INTO queue_kept(pos,queue,state,ended,fate,tries,handed,cause,failures,job) VALUES ", "(?,?,?,?,?,?,?,?,?,?)", "", args); err != nil {
		return fmt.Errorf("keep what has ended: %w", err)
	}
	args = args[:0]
	for _, n := range e.gone {
		args = append(args, q.filePos(n))
	}
	if _, err := tx.Bulk("DELETE FROM queue_kept WHERE state IN (0,1) AND pos IN (", "?", ")", args); err != nil {
		return err
	}
	for _, r := range e.edited {
		if _, err := tx.Exec("UPDATE queue_kept SET job=? WHERE state IN (0,1) AND pos=?", r.rec, q.filePos(r.n)); err != nil {
			return err
		}
	}
	most := int64(forgetJobs + len(e.rows)) // more than come
	for state := range e.trimmed {
		k := keeping(e.settings, state)
		have[state] -= e.less[state]
		if many := have[state] - int64(k.Count); many > 0 {
			n, err := tx.Exec(trimSQL, q.no, state, min(many, most))
			if err != nil {
				return err
			}
			e.trimmed[state] += n
		}
		if k.Age > 0 && have[state] > 0 {
			n, err := tx.Exec(agedSQL, q.no, state, e.now-k.Age.Milliseconds(), most)
			if err != nil {
				return err
			}
			e.trimmed[state] += n
		}
	}
	return nil
}

const (
	trimSQL = "DELETE FROM queue_kept WHERE seq IN (SELECT seq FROM queue_kept WHERE queue=? AND state=? ORDER BY ended, seq LIMIT ?)"
	agedSQL = "DELETE FROM queue_kept WHERE seq IN (SELECT seq FROM queue_kept WHERE queue=? AND state=? AND ended<=? ORDER BY ended, seq LIMIT ?)"
)

// tidy deletes what need not be kept any longer.
func (s *Store) tidy(ctx context.Context, q *queueState) error {
	idle := func() bool {
		mem := q.lock()
		defer q.unlock()
		return mem.ends(s.o.Now()).none()
	}
	for !idle() {
		more, err := s.tidySome(ctx, q)
		if err != nil {
			return fmt.Errorf("forget what has ended in queue %q: %w", q.name, err)
		}
		if !more {
			break
		}
	}
	return nil
}

// tidySome deletes a part of it, and says whether more may be left.
func (s *Store) tidySome(ctx context.Context, q *queueState) (more bool, err error) {
	if err := q.ending.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer q.ending.Release(1)
	k := &change{queue: q}
	mem := q.lock()
	k.ends = mem.ends(s.o.Now())
	q.unlock()
	if err := s.commit(ctx, k, nil); err != nil {
		return false, err
	}
	mem = q.lock()
	defer q.unlock()
	mem.applied(k)
	for _, n := range k.ends.trimmed {
		more = more || n >= forgetJobs
	}
	return more, nil
}

const keptColumns = "pos, state, ended, fate, tries, handed, cause, failures, job"

func scanKept(scan func(...any) error) (*keptRow, error) {
	var r keptRow
	var pos int64
	var fate uint8
	if err := scan(&pos, &r.state, &r.ended, &fate, &r.tries, &r.handed, &r.cause, &r.failures, &r.rec); err != nil {
		return nil, err
	}
	r.n, r.fate = position(pos), tidemill.Fate(fate)
	return &r, nil
}

// keptAt is the kept job at a position, or nil.
func (s *Store) keptAt(ctx context.Context, q *queueState, n uint64) (r *keptRow, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		r, err = scanKept(tx.QueryRow("SELECT "+keptColumns+" FROM queue_kept WHERE state IN (0,1) AND pos=?", q.filePos(n)).Scan)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read queue %q: %w", q.name, err)
	}
	return r, nil
}

// keptJobs yields the kept jobs of a queue in a state, from the filter's position on.
func (s *Store) keptJobs(ctx context.Context, q *queueState, f queue.Filter, looks *rules.Looks) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		after, end := span(f)
		state, order, want := keptCompleted, "ASC", wanted(f)
		if f.State == queue.Failed {
			state = keptFailed
		}
		if f.Back {
			order = "DESC"
		}
		if err := s.tidy(ctx, q); err != nil {
			yield(nil, err)
			return
		}
		for more := true; more; {
			var page []*keptRow
			err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
				rows, err := tx.Query("SELECT "+keptColumns+" FROM queue_kept WHERE state=? AND pos>? AND pos<=? ORDER BY pos "+order+" LIMIT ?", state, q.filePos(after), q.filePos(end), want)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					r, err := scanKept(rows.Scan)
					if err != nil {
						return err
					}
					page = append(page, r)
				}
				return rows.Err()
			})
			if err != nil {
				yield(nil, fmt.Errorf("read queue %q: %w", q.name, err))
				return
			}
			for _, r := range page {
				if after = r.n; f.Back {
					after, end = 0, r.n-1
				}
				if !r.may(&f) {
					if err := looks.Pass(q.markOf(r.n)); err != nil {
						yield(nil, err)
						return
					}
				} else if !yield(r.job(q), nil) {
					return
				}
			}
			more, want = len(page) > 0, listPage
		}
	}
}

// may says whether a filter may choose it; its time is that of the end.
func (r *keptRow) may(f *queue.Filter) bool {
	head := *f
	head.Before = time.Time{}
	return may(&head, r.rec) && (f.Before.IsZero() || time.UnixMilli(r.ended).Before(f.Before))
}

// job shows a job to an operator.
func (r *keptRow) job(q *queueState) *queue.Job {
	j := &queue.Job{State: queue.Completed, Cause: string(r.cause), Failures: readFailures(r.failures), Fate: r.fate, Ended: time.UnixMilli(r.ended).UTC()}
	if r.state == keptFailed {
		j.State = queue.Failed
	}
	if added, err := readRecord(r.rec, &j.Message); err != nil {
		j.Message = tidemill.Message{}
		j.Cause = errDamaged.Error()
	} else {
		j.Added = time.UnixMilli(added).UTC()
	}
	j.To, j.Tries, j.Handed = q.name, r.tries, r.handed
	j.Mark = q.markOf(r.n)
	return j
}
