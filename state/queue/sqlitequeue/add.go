package sqlitequeue

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Add implements queue.Intake. Concurrent callers are written together.
func (s *Store) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if added != nil && len(added) != len(jobs) {
		return fmt.Errorf("add %d jobs: room for %d answers", len(jobs), len(added))
	}
	for _, m := range jobs {
		if err := queue.Check(m); err != nil {
			return err
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	if err := s.names.Relieve(ctx); err != nil {
		return fmt.Errorf("add %d jobs: make room for their names: %w", len(jobs), err)
	}
	in, err := s.prepare(ctx, jobs)
	if err != nil {
		return fmt.Errorf("add %d jobs: %w", len(jobs), err)
	}
	in.fit(s.o.Capacity, 0, len(jobs))
	if err := s.committers[giveway.Line(ctx)].write(ctx, s, in); err != nil {
		return fmt.Errorf("add %d jobs: %w", len(jobs), err)
	}
	if added == nil {
		return in.refused(0, len(jobs))
	}
	for i := range in.jobs {
		added[i] = in.jobs[i].state
	}
	return nil
}

// intake is jobs being added.
type intake struct {
	jobs  []incoming
	claim *idset.Claim
	done  chan struct{} // closed when they are added, or err says why not
	lead  chan struct{} // cap 1: write the next group
	leads bool          // it was told so; group.mu
	err   error
}

// incoming is one job being added.
type incoming struct {
	queue    *queueState
	tenant   string
	key      []byte // the caller's
	priority uint8
	added    int64
	rec      []byte
	late     bool   // it goes to queue_late
	at       int64  // when it comes due; 0: at once
	group    []byte // of a late and due job; set when it is laid out
	failures []byte // of a job that is retried by hand
	name     idset.ID
	twin     int // index of an earlier job of the same name in the batch; -1: none
	state    queue.Added
	n        uint64 // its position, once it is written
}

// prepare encodes jobs and claims their names. finish must follow.
func (s *Store) prepare(ctx context.Context, jobs []*tidemill.Message) (*intake, error) {
	in := &intake{jobs: make([]incoming, len(jobs)), done: make(chan struct{}), lead: make(chan struct{}, 1)}
	now, ms := s.now()
	size := 0
	for _, m := range jobs {
		size += recordSize(m)
	}
	records := make([]byte, 0, size) // all of them: copies are kept
	want, says := make([]idset.ID, len(jobs)), make([]int, len(jobs))
	var scratch []byte
	var q *queueState
	for i, m := range jobs {
		if q == nil || q.name != m.To {
			var err error
			if q, err = s.state(ctx, m.To); err != nil {
				return nil, err
			}
		}
		j := &in.jobs[i]
		from := len(records)
		records = appendRecord(records, m, ms)
		j.queue, j.tenant, j.key, j.priority, j.added = q, m.Tenant, m.Key, m.Priority, ms
		j.rec, j.at = records[from:len(records):len(records)], putAt(m.At, now)
		j.late = j.at > 0
		j.name, scratch = nameOf(q.no, m.Tenant, m.ID, scratch)
		want[i] = j.name
	}
	var err error
	if in.claim, err = s.names.Claim(ctx, want, says, nil); err != nil {
		return nil, err
	}
	for i, say := range says {
		j := &in.jobs[i]
		j.twin = -1
		switch {
		case say == idset.Known:
			j.state = queue.Known
		case say >= 0:
			j.twin = say
		}
	}
	return in, nil
}

// fit decides whether the queue has capacity for the jobs in [from, to), and says whether it has
// for all. They count as held until finish.
func (in *intake) fit(capacity, from, to int) bool {
	all := true
	for i := from; i < to; i++ {
		j := &in.jobs[i]
		switch {
		case j.twin >= 0:
			if j.state = in.jobs[j.twin].state; j.state == queue.New {
				j.state = queue.Known
			}
		case j.state == queue.Known:
		case j.queue.is.Load().Closed:
			j.state = queue.Closed
		case j.queue.held.Add(1) > int64(rules.Capacity(j.queue.is.Load(), capacity)):
			j.queue.held.Add(-1)
			j.state = queue.Full
		default:
			j.state = queue.New
		}
		all = all && (j.state == queue.New || j.state == queue.Known)
	}
	return all
}

// refused is the error for the jobs in [from, to) that are Full or Closed; nil: none is.
func (in *intake) refused(from, to int) (err error) {
	for i := from; i < to && err == nil; i++ {
		err = rules.Refused(in.jobs[i].state, in.jobs[i].queue.name)
	}
	return err
}

// unfit leaves those jobs out: they no longer count as held.
func (in *intake) unfit(from, to int) {
	for i := from; i < to; i++ {
		if j := &in.jobs[i]; j.state == queue.New {
			j.queue.held.Add(-1)
			j.state = queue.Full
		}
	}
}

// fresh counts the jobs that are to be written.
func (in *intake) fresh() (n int) {
	for i := range in.jobs {
		if in.jobs[i].state == queue.New {
			n++
		}
	}
	return n
}

// finish ends what prepare began: the New jobs are added, or, with an error, not.
func (in *intake) finish(s *Store, err error) {
	in.err = err
	if err != nil {
		in.unfit(0, len(in.jobs))
		s.names.Resolve(in.claim, nil)
		close(in.done)
		return
	}
	positions := make([]int64, len(in.claim.Held))
	for k, i := range in.claim.Held {
		if j := &in.jobs[i]; j.state == queue.New {
			positions[k] = j.queue.filePos(j.n)
		}
	}
	s.names.Resolve(in.claim, positions)
	close(in.done)
}
