package memoryqueue

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Stats implements queue.Inspector.
func (s *Store) Stats(ctx context.Context, name string) (st queue.Stats, err error) {
	err = s.at(ctx, name, func(q *queueState, _ time.Time) { st = q.stats() })
	return st, err
}

func (q *queueState) stats() queue.Stats {
	st := queue.Stats{Waiting: q.count(queue.Waiting), Delayed: q.count(queue.Delayed), Leased: q.count(queue.Leased),
		Completed: q.count(queue.Completed), Failed: q.count(queue.Failed)}
	for _, j := range q.jobs {
		if j.state.Held() && (st.Oldest.IsZero() || j.added.Before(st.Oldest)) {
			st.Oldest = j.added
		}
	}
	return st
}

// at calls do with a queue, if one has that name.
func (s *Store) at(ctx context.Context, name string, do func(q *queueState, now time.Time)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		now := s.o.Now()
		q.look(now)
		do(q, now)
	}
	return nil
}

// List implements queue.Inspector: queues by name, the jobs of each oldest first; or
// all that from its end.
func (s *Store) List(ctx context.Context, f queue.Filter) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		left, looks := f.Max, rules.Looks{Most: f.Look}
		all := s.positions(f.Queue)
		if f.Back {
			slices.Reverse(all)
		}
		for _, j := range all {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			job := s.job(j.queue, j.pos)
			if job == nil || !f.Follows(job) || f.State == queue.Waiting && f.Tenant != "" && f.Tenant != job.Tenant {
				continue
			}
			if !f.Matches(job) {
				if err := looks.Pass(job.Mark); err != nil {
					yield(nil, err)
					return
				}
				continue
			}
			if !yield(job, nil) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

type position struct {
	queue *queueState
	pos   uint64
}

// positions are the positions of the jobs of one or of all queues now, in order.
func (s *Store) positions(name string) []position {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []position
	for _, q := range s.queues {
		if name != "" && q.name != name {
			continue
		}
		for pos := range q.jobs {
			all = append(all, position{q, pos})
		}
	}
	slices.SortFunc(all, func(a, b position) int {
		return cmp.Or(cmp.Compare(a.queue.name, b.queue.name), cmp.Compare(a.pos, b.pos))
	})
	return all
}

// job copies the job at a position, or returns nil when it is gone.
func (s *Store) job(q *queueState, pos uint64) *queue.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.look(s.o.Now())
	j := q.jobs[pos]
	if j == nil {
		return nil
	}
	return j.show(q)
}

// show copies a job for an operator.
func (j *job) show(q *queueState) *queue.Job {
	out := &queue.Job{State: j.state, Cause: j.cause, Added: j.added, Ended: j.ended, Fate: j.fate, Failures: slices.Clone(j.fails)}
	j.fill(&out.Message, q)
	out.Mark.Epoch = 0 // operators hold no lease
	return out
}

// Retry implements queue.Mover.
func (s *Store) Retry(ctx context.Context, f queue.Filter) (n int, err error) {
	refused := queue.New
	err = s.each(ctx, f, func(q *queueState, j *job, now time.Time) bool {
		switch {
		case j.state != queue.Failed || refused != queue.New:
			return false
		case q.settings.Closed:
			refused = queue.Closed
			return false
		case q.held() >= rules.Capacity(&q.settings, s.o.Capacity):
			refused = queue.Full
			return false
		}
		q.ended[queue.Failed] = slices.DeleteFunc(q.ended[queue.Failed], func(o *job) bool { return o == j })
		q.forget(j)
		m := j.m
		m.Tries, m.Handed, m.At = 0, 0, time.Time{}
		q.accept(m, j.fails, time.Time{}, now)
		return true
	}, &n)
	return n, cmp.Or(err, rules.Refused(refused, f.Queue))
}

// Promote implements queue.Mover.
func (s *Store) Promote(ctx context.Context, f queue.Filter) (n int, err error) {
	err = s.each(ctx, f, func(q *queueState, j *job, _ time.Time) bool {
		if j.state != queue.Delayed {
			return false
		}
		j.m.At = time.Time{}
		q.wait(j)
		return true
	}, &n)
	return n, err
}

// Remove implements queue.Mover.
func (s *Store) Remove(ctx context.Context, f queue.Filter) (n int, err error) {
	err = s.each(ctx, f, func(q *queueState, j *job, now time.Time) bool {
		switch j.state {
		case queue.Leased:
			return false
		case queue.Waiting, queue.Delayed:
			q.drop(j, tidemill.None, tidemill.NoKind, "", now)
			q.settled.Skipped++
		default:
			q.ended[j.state] = slices.DeleteFunc(q.ended[j.state], func(o *job) bool { return o == j })
			q.forget(j)
		}
		return true
	}, &n)
	return n, err
}

// each lets do change the jobs that a filter chooses, and counts those that it changed.
func (s *Store) each(ctx context.Context, f queue.Filter, do func(*queueState, *job, time.Time) bool, n *int) error {
	if f.Queue == "" {
		return rules.NoQueue()
	}
	most := f.Max
	return s.at(ctx, f.Queue, func(q *queueState, now time.Time) {
		states := []queue.State{f.State}
		if f.State == "" {
			states = []queue.State{queue.Waiting, queue.Delayed, queue.Leased, queue.Completed, queue.Failed}
		}
		for _, pos := range slices.Sorted(q.positions()) {
			j, g := q.jobs[pos], f
			if g.State = j.state; slices.Contains(states, j.state) && g.Matches(j.show(q)) && do(q, j, now) {
				if *n++; *n == most {
					return
				}
			}
		}
	})
}

func (q *queueState) positions() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for pos := range q.jobs {
			if !yield(pos) {
				return
			}
		}
	}
}

// find is the job of a name, or nil.
func (q *queueState) find(n queue.Name) *job {
	return q.jobs[q.names[name{n.Tenant, n.ID}]]
}

// Look implements queue.Mover.
func (s *Store) Look(ctx context.Context, n queue.Name) (found *queue.Job, err error) {
	err = s.at(ctx, n.Queue, func(q *queueState, _ time.Time) {
		if j := q.find(n); j != nil {
			found = j.show(q)
		}
	})
	if err == nil && found == nil {
		err = queue.NotFound(n)
	}
	return found, err
}

// Edit implements queue.Mover.
func (s *Store) Edit(ctx context.Context, n queue.Name, payload []byte, seen string) error {
	answer := queue.NotFound(n)
	err := s.at(ctx, n.Queue, func(q *queueState, _ time.Time) {
		switch j := q.find(n); {
		case j == nil || j.state == queue.Completed:
		case j.state == queue.Leased:
			answer = queue.Out(n)
		default:
			if answer = rules.CheckEdit(n.Queue, &j.m, payload, seen); answer == nil {
				j.m.Payload = bytes.Clone(payload)
			}
		}
	})
	return cmp.Or(err, answer)
}

// Settings implements queue.Tuner.
func (s *Store) Settings(ctx context.Context, name string) (is queue.Settings, err error) {
	err = s.at(ctx, name, func(q *queueState, _ time.Time) { is = q.settings.Clone() })
	return is, err
}

// Set implements queue.Tuner.
func (s *Store) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	for {
		if err := ctx.Err(); err != nil {
			return queue.Settings{}, err
		}
		was, version := s.settings(name)
		to := was.Clone()
		change(&to) // an outside call: without the lock
		if err := to.Check(); err != nil {
			return was, err
		}
		if ok, err := s.set(name, version, to); ok || err != nil {
			return to, err
		}
	}
}

// settings are those of a queue, and how often they were set.
func (s *Store) settings(name string) (queue.Settings, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		return q.settings.Clone(), q.version
	}
	return queue.Settings{}, 0
}

// set replaces the settings of a queue, unless they were set since that version.
func (s *Store) set(name string, version int, to queue.Settings) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.state(name)
	if q.version != version {
		return false, nil
	}
	if to.Ordered != q.settings.Ordered && q.held() > 0 {
		return false, rules.NotEmpty(name)
	}
	if !rules.SameLimits(&to, &q.settings) {
		clear(q.spent)
	}
	q.settings = to.Clone()
	q.version++
	q.trim(s.o.Now())
	q.signal()
	return true, nil
}
