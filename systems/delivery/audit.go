package delivery

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Audit is the proof that nothing is missing: the books of every queue and of every
// queue's dead letters, each found independently, and how they hang together.
type Audit struct {
	System   string       `json:"system"`
	Balanced bool         `json:"balanced"`
	Queues   []QueueAudit `json:"queues"`
	Emitted  uint64       `json:"emitted"` // jobs that partners' queues took in
	Faults   []string     `json:"faults"`  // what does not add up, in words
}

// QueueAudit are the books of one queue, and of its dead letters.
type QueueAudit struct {
	Queue     string `json:"queue"`
	Accepted  uint64 `json:"accepted"`
	Delivered uint64 `json:"delivered"`
	Skipped   uint64 `json:"skipped"`
	Dead      uint64 `json:"dead"`
	InFlight  uint64 `json:"in_flight"`
	Lost      uint64 `json:"lost"`

	Letters deadletter.Account `json:"dead_letters"`
}

// Audit reads the books and compares them.
func (s *System) Audit(ctx context.Context) (Audit, error) {
	a := Audit{System: Name, Queues: []QueueAudit{}, Faults: []string{}}
	names := Doors()
	for _, t := range s.targets {
		names = append(names, t.queue)
	}
	for i, name := range names {
		q, err := s.audit(ctx, name, &a)
		if err != nil {
			return a, err
		}
		if i >= len(Doors()) {
			a.Emitted += q.Accepted
		}
		a.Queues = append(a.Queues, q)
	}
	a.Balanced = len(a.Faults) == 0
	return a, nil
}

func (s *System) audit(ctx context.Context, name string, a *Audit) (q QueueAudit, err error) {
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			a.Faults = append(a.Faults, fmt.Sprintf("queue %s: ", name)+fmt.Sprintf(format, args...))
		}
	}
	// In this order: what happens meanwhile makes the later numbers larger, never smaller.
	books, err := s.sources[name].(tidemill.Bookkeeper).Books(ctx)
	if err != nil {
		return q, err
	}
	dead, err := s.sources[ReplayOf(name)].(tidemill.Bookkeeper).Books(ctx)
	if err != nil {
		return q, err
	}
	q = QueueAudit{Queue: name, Accepted: books.Accepted, Delivered: books.Settled.Delivered, Skipped: books.Settled.Skipped,
		Dead: books.Settled.Dead, InFlight: books.Pending, Lost: books.Lost,
		Letters: deadletter.AccountOf(dead)}
	fault(books.Off() > 0, "%d jobs are missing: fewer ended or are in flight than were accepted", books.Off())
	fault(books.Off() < 0, "%d jobs were counted twice: more ended or are in flight than were accepted", -books.Off())
	fault(books.Lost > 0, "%d jobs were lost at the source", books.Lost)
	fault(dead.Off() != 0, "dead letters do not add up: put is not held + replayed + discarded, by %d", dead.Off())
	fault(dead.Accepted < books.Settled.Dead, "jobs are dead without a letter")
	return q, nil
}

// Books are those of every pipeline's source, by its name.
func (s *System) Books() map[string]tidemill.Bookkeeper {
	all := map[string]tidemill.Bookkeeper{}
	for name, source := range s.sources {
		if b, ok := source.(tidemill.Bookkeeper); ok {
			all[name] = b
		}
	}
	return all
}
