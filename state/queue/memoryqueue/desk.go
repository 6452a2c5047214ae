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
	err = s.at(ctx, name, func(l *line, _ time.Time) {
		st = queue.Stats{Waiting: l.count(queue.Waiting), Delayed: l.count(queue.Delayed), Leased: l.count(queue.Leased),
			Completed: l.count(queue.Completed), Failed: l.count(queue.Failed)}
		for _, j := range l.jobs {
			if j.state.Held() && (st.Oldest.IsZero() || j.added.Before(st.Oldest)) {
				st.Oldest = j.added
			}
		}
	})
	return st, err
}

// at calls do with a queue, if one has that name.
func (s *Store) at(ctx context.Context, name string, do func(l *line, now time.Time)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.queues[name]; l != nil {
		now := s.o.Now()
		l.look(now)
		do(l, now)
	}
	return nil
}

// List implements queue.Inspector: queues by name, the jobs of each oldest first.
func (s *Store) List(ctx context.Context, f queue.Filter) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		left := f.Max
		for _, j := range s.positions(f.Queue) {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if j.pos <= f.After.Lo {
				continue
			}
			job := s.job(j.line, j.pos)
			if job == nil || !f.Matches(job) {
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
	line *line
	pos  uint64
}

// positions are the positions of the jobs of one or of all queues now, in order.
func (s *Store) positions(name string) []position {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []position
	for _, l := range s.queues {
		if name != "" && l.name != name {
			continue
		}
		for pos := range l.jobs {
			all = append(all, position{l, pos})
		}
	}
	slices.SortFunc(all, func(a, b position) int {
		return cmp.Or(cmp.Compare(a.line.name, b.line.name), cmp.Compare(a.pos, b.pos))
	})
	return all
}

// job copies the job at a position, or returns nil when it is gone.
func (s *Store) job(l *line, pos uint64) *queue.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.look(s.o.Now())
	j := l.jobs[pos]
	if j == nil {
		return nil
	}
	return j.show(l)
}

// show copies a job for a desk.
func (j *job) show(l *line) *queue.Job {
	out := &queue.Job{State: j.state, Cause: j.cause, Added: j.added, Ended: j.ended, Fate: j.fate, Failures: slices.Clone(j.fails)}
	j.fill(&out.Message, l)
	out.Mark.Epoch = 0 // a desk holds no lease
	return out
}

// Retry implements queue.Mover.
func (s *Store) Retry(ctx context.Context, f queue.Filter) (n int, err error) {
	refused := queue.New
	err = s.each(ctx, f, func(l *line, j *job, now time.Time) bool {
		switch {
		case j.state != queue.Failed || refused != queue.New:
			return false
		case l.settings.Closed:
			refused = queue.Closed
			return false
		case l.held() >= rules.Capacity(&l.settings, s.o.Capacity):
			refused = queue.Full
			return false
		}
		l.ended[queue.Failed] = slices.DeleteFunc(l.ended[queue.Failed], func(o *job) bool { return o == j })
		l.forget(j)
		m := j.m
		m.Tries, m.Handed, m.At = 0, 0, time.Time{}
		l.accept(m, j.fails, time.Time{}, now)
		return true
	}, &n)
	return n, cmp.Or(err, rules.Refused(refused, f.Queue))
}

// Promote implements queue.Mover.
func (s *Store) Promote(ctx context.Context, f queue.Filter) (n int, err error) {
	err = s.each(ctx, f, func(l *line, j *job, _ time.Time) bool {
		if j.state != queue.Delayed {
			return false
		}
		j.m.At = time.Time{}
		l.wait(j)
		return true
	}, &n)
	return n, err
}

// Remove implements queue.Mover.
func (s *Store) Remove(ctx context.Context, f queue.Filter) (n int, err error) {
	err = s.each(ctx, f, func(l *line, j *job, now time.Time) bool {
		switch j.state {
		case queue.Leased:
			return false
		case queue.Waiting, queue.Delayed:
			l.drop(j, tidemill.None, tidemill.NoKind, "", now)
			l.settled.Skipped++
		default:
			l.ended[j.state] = slices.DeleteFunc(l.ended[j.state], func(o *job) bool { return o == j })
			l.forget(j)
		}
		return true
	}, &n)
	return n, err
}

// each lets do change the jobs that a filter chooses, and counts those that it changed.
func (s *Store) each(ctx context.Context, f queue.Filter, do func(*line, *job, time.Time) bool, n *int) error {
	if f.Queue == "" {
		return rules.NoQueue()
	}
	most := f.Max
	return s.at(ctx, f.Queue, func(l *line, now time.Time) {
		states := []queue.State{f.State}
		if f.State == "" {
			states = []queue.State{queue.Waiting, queue.Delayed, queue.Leased, queue.Completed, queue.Failed}
		}
		for _, pos := range slices.Sorted(l.positions()) {
			j, g := l.jobs[pos], f
			if g.State = j.state; slices.Contains(states, j.state) && g.Matches(j.show(l)) && do(l, j, now) {
				if *n++; *n == most {
					return
				}
			}
		}
	})
}

func (l *line) positions() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for pos := range l.jobs {
			if !yield(pos) {
				return
			}
		}
	}
}

// find is the job of a name, or nil.
func (l *line) find(n queue.Name) *job {
	return l.jobs[l.names[name{n.Tenant, n.ID}]]
}

// Look implements queue.Mover.
func (s *Store) Look(ctx context.Context, n queue.Name) (found *queue.Job, err error) {
	err = s.at(ctx, n.Queue, func(l *line, _ time.Time) {
		if j := l.find(n); j != nil {
			found = j.show(l)
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
	err := s.at(ctx, n.Queue, func(l *line, _ time.Time) {
		switch j := l.find(n); {
		case j == nil || j.state == queue.Completed:
		case j.state == queue.Leased:
			answer = queue.Out(n)
		default:
			if answer = queue.CheckEdit(n.Queue, &j.m, payload, seen); answer == nil {
				j.m.Payload = bytes.Clone(payload)
			}
		}
	})
	return cmp.Or(err, answer)
}

// Settings implements queue.Tuner.
func (s *Store) Settings(ctx context.Context, name string) (is queue.Settings, err error) {
	err = s.at(ctx, name, func(l *line, _ time.Time) { is = l.settings.Clone() })
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
	if l := s.queues[name]; l != nil {
		return l.settings.Clone(), l.version
	}
	return queue.Settings{}, 0
}

// set replaces the settings of a queue, unless they were set since that version.
func (s *Store) set(name string, version int, to queue.Settings) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.line(name)
	if l.version != version {
		return false, nil
	}
	if to.Ordered != l.settings.Ordered && l.held() > 0 {
		return false, rules.NotEmpty(name)
	}
	if !rules.SameLimits(&to, &l.settings) {
		clear(l.spent)
	}
	l.settings = to.Clone()
	l.version++
	l.trim(s.o.Now())
	l.signal()
	return true, nil
}

// Queues implements queue.Meter.
func (s *Store) Queues(ctx context.Context) (names []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Depths implements queue.Meter.
func (s *Store) Depths(ctx context.Context, name string) (all []queue.Depth, err error) {
	err = s.at(ctx, name, func(l *line, _ time.Time) {
		all = l.depths(func(j *job) queue.Depth { return queue.Depth{Priority: j.m.Priority} })
		slices.SortFunc(all, func(a, b queue.Depth) int { return int(b.Priority) - int(a.Priority) })
	})
	return all, err
}

// Tenants implements queue.Meter.
func (s *Store) Tenants(ctx context.Context, name string, most int) (all []queue.Depth, err error) {
	err = s.at(ctx, name, func(l *line, _ time.Time) {
		all = l.depths(func(j *job) queue.Depth { return queue.Depth{Tenant: j.m.Tenant} })
		slices.SortFunc(all, rules.Deeper)
		all = all[:min(len(all), cmp.Or(most, 100))]
	})
	return all, err
}

// depths counts waiting jobs, by the result of of for each.
func (l *line) depths(of func(*job) queue.Depth) (all []queue.Depth) {
	at := map[queue.Depth]int{}
	for _, pos := range slices.Sorted(l.positions()) {
		j := l.jobs[pos]
		if j.state != queue.Waiting {
			continue
		}
		d := of(j)
		i, ok := at[d]
		if !ok {
			i = len(all)
			at[d] = i
			d.Oldest = j.added
			all = append(all, d)
		}
		all[i].Waiting++
	}
	return all
}
