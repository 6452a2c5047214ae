package crm

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// letters keep one dead letter of an event, whatever the name of its job when it died.
type letters struct{ deadletter.Store }

// Put implements tidemill.DeadLetters.
func (l letters) Put(ctx context.Context, all []tidemill.DeadLetter) error {
	for i := range all {
		if id := EventOf(all[i].Message); id != all[i].Message.ID {
			m := *all[i].Message
			m.ID = id
			all[i].Message = &m
		}
	}
	return l.Store.Put(ctx, all)
}

// Has implements tidemill.DeadLetters. It is asked for jobs that come again: if a job's dead
// letter is not recognised its work is done once more.
func (l letters) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	events := make([]string, len(ids))
	for i, id := range ids {
		events[i] = eventNamed(id)
	}
	return l.Store.Has(ctx, pipeline, events, marks)
}

// openAgain makes a job of a dead letter. The dead letter is removed when the job is durable.
func (s *System) openAgain(it *flow.Item[struct{}]) error {
	job := &tidemill.Message{ID: retryName(it.ID, it.Mark), To: Queue, Tenant: it.Tenant, Type: it.Type, Time: it.Time, Payload: it.Payload,
		Priority: s.o.Priorities.Of(it.Type), Header: []tidemill.Field{{Name: []byte(EventHeader), Value: []byte(it.ID)}}}
	if request := it.Get(RequestHeader); request != nil {
		job.Header = append(job.Header, tidemill.Field{Name: []byte(RequestHeader), Value: request})
	}
	it.Emit(job)
	it.Deliver()
	return nil
}

// ErrNoDeadLetter says that an event has no dead letter.
var ErrNoDeadLetter = errors.New("job not found: the event has no dead letter")

// Retry opens the job of one dead event again, with all its tries before it.
func (s *System) Retry(ctx context.Context, tenant, id string) error {
	f := deadletter.Filter{Pipeline: Queue, Tenant: tenant, IDs: []string{id}, Max: 1}
	n, err := s.p.DeadLetters.Replay(ctx, f)
	if err == nil && n == 0 {
		if n, err = s.p.DeadLetters.Count(ctx, f); err == nil && n == 0 { // an existing one is replaying already
			err = &tidemill.Error{Kind: tidemill.NotFound, Err: ErrNoDeadLetter}
		}
	}
	if err != nil {
		return fmt.Errorf("retry event %q of tenant %q: %w", id, tenant, err)
	}
	return nil
}

// expireLetters deletes expired dead letters, step by step.
func (s *System) expireLetters(ctx context.Context) error {
	const step = 1000
	names := []string{Queue}
	for _, in := range s.p.Intakes {
		names = append(names, in.Name)
	}
	for _, name := range names {
		for {
			n, err := s.p.DeadLetters.Delete(ctx, deadletter.Filter{Pipeline: name, Before: s.o.Now().Add(-s.o.DeadFor), Max: step})
			s.expired.Add(uint64(max(n, 0)))
			if n > 0 {
				// Logged when dead letters of the CRM were older than they are kept.
				s.o.Log.Info("dead letters deleted for their age", "pipeline", name, "count", n, "keep", s.o.DeadFor)
			}
			if err != nil {
				return err
			}
			if n < step {
				break
			}
		}
	}
	return nil
}

// states of jobs by operators' names for them.
var states = map[string]queue.State{"completed": queue.Completed, "failed": queue.Failed, "delayed": queue.Delayed, "wait": queue.Waiting, "waiting": queue.Waiting}

// Clean removes at most so many jobs of a state (0: all), and returns how many: completed,
// failed, delayed or wait. Those that had not ended never will; the books count them as
// skipped.
func (s *System) Clean(ctx context.Context, state string, most int) (int, error) {
	is, ok := states[state]
	if !ok {
		return 0, tidemill.Fail(tidemill.Validation, "clean jobs that are %q: want completed, failed, delayed or wait", state)
	}
	return s.p.Queues.Remove(ctx, queue.Filter{Queue: Queue, State: is, Max: most})
}
