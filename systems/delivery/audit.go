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
	Queue string `json:"queue"`
	deadletter.Audit
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

func (s *System) audit(ctx context.Context, name string, a *Audit) (QueueAudit, error) {
	books := s.Books()
	q, faults, err := deadletter.AuditOf(ctx, books[name], books[ReplayOf(name)], "jobs")
	if err != nil {
		return QueueAudit{}, fmt.Errorf("audit queue %s: %w", name, err)
	}
	if q.Letters.Put < q.Dead {
		faults = append(faults, "jobs are dead without a letter")
	}
	for _, f := range faults {
		a.Faults = append(a.Faults, fmt.Sprintf("queue %s: %s", name, f))
	}
	return QueueAudit{name, q}, nil
}

// Books are those of every pipeline's source, by its name.
func (s *System) Books() map[string]tidemill.Bookkeeper { return tidemill.Bookkeepers(s.sources) }
