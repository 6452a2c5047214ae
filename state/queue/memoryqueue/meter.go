package memoryqueue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

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
	err = s.at(ctx, name, func(q *queueState, _ time.Time) {
		all = q.depths(func(j *job) queue.Depth { return queue.Depth{Priority: j.m.Priority} })
		slices.SortFunc(all, func(a, b queue.Depth) int { return int(b.Priority) - int(a.Priority) })
	})
	return all, err
}

// Standing implements queue.Meter.
func (s *Store) Standing(ctx context.Context) (all []queue.Standing, err error) {
	names, err := s.Queues(ctx)
	for _, name := range names {
		err = cmp.Or(err, s.at(ctx, name, func(q *queueState, _ time.Time) {
			all = append(all, queue.Standing{Queue: name, Stats: q.stats(), Settings: q.settings.Clone(),
				Books: tidemill.Books{Accepted: q.end, Settled: q.settled}})
		}))
	}
	return all, err
}

// Tenants implements queue.Meter.
func (s *Store) Tenants(ctx context.Context, name string, most int) (all []queue.Depth, err error) {
	names, of := []string{name}, ""
	if name == "" {
		names, err = s.Queues(ctx)
	}
	for _, one := range names {
		if name == "" {
			of = one
		}
		err = cmp.Or(err, s.at(ctx, one, func(q *queueState, _ time.Time) {
			some := q.depths(func(j *job) queue.Depth { return queue.Depth{Queue: of, Tenant: j.m.Tenant} })
			slices.SortFunc(some, rules.Deeper)
			all = append(all, some[:min(len(some), cmp.Or(most, 100))]...)
		}))
	}
	return all, err
}

// Tenant implements queue.Meter.
func (s *Store) Tenant(ctx context.Context, tenant string) (all []queue.Depth, err error) {
	names, err := s.Queues(ctx)
	for _, name := range names {
		err = cmp.Or(err, s.at(ctx, name, func(q *queueState, _ time.Time) {
			for _, d := range q.depths(func(j *job) queue.Depth { return queue.Depth{Queue: name, Tenant: j.m.Tenant} }) {
				if d.Tenant == tenant {
					all = append(all, d)
				}
			}
		}))
	}
	return all, err
}

// depths counts waiting jobs, by the result of of for each.
func (q *queueState) depths(of func(*job) queue.Depth) (all []queue.Depth) {
	at := map[queue.Depth]int{}
	for _, pos := range slices.Sorted(q.positions()) {
		j := q.jobs[pos]
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
