package delivery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// Audit is the proof that nothing is missing: the books of every queue and of its dead letters,
// each read independently, and how they agree.
type Audit struct {
	System   string       `json:"system"`
	Balanced bool         `json:"balanced"`
	Queues   []QueueAudit `json:"queues"`
	Emitted  uint64       `json:"emitted"` // jobs of partners: accepted into their queues, or parked beside these
	Faults   []string     `json:"faults"`  // what does not add up, in words
}

// QueueAudit has the books of one queue and of its dead letters.
type QueueAudit struct {
	Queue string `json:"queue"`
	deadletter.Audit
}

// Audit reads the books and compares them.
func (s *System) Audit(ctx context.Context) (Audit, error) {
	a := Audit{System: Name, Queues: []QueueAudit{}, Faults: []string{}}
	names, targets := EventQueues(), s.now().targets
	for _, t := range targets {
		names = append(names, t.queue)
	}
	for i, name := range names {
		q, err := s.audit(ctx, name, &a)
		if err != nil {
			return a, err
		}
		a.Queues = append(a.Queues, q)
		if i < len(EventQueues()) {
			continue
		}
		a.Emitted += q.Accepted
		over, err := s.audit(ctx, ParkedOf(targets[i-len(EventQueues())].Name), &a)
		if err != nil {
			return a, err
		}
		if over.Accepted > 0 {
			a.Queues = append(a.Queues, over)
			a.Emitted += over.Accepted - over.Delivered // they are in the partner's queue, and counted there
		}
	}
	left, err := s.left(ctx)
	if err != nil {
		return a, err
	}
	for _, name := range left {
		q, err := s.audit(ctx, name, &a)
		if err != nil {
			return a, err
		}
		if a.Emitted += q.Accepted; strings.HasPrefix(name, parked) {
			a.Emitted -= q.Delivered
		}
		if q.InFlight > 0 || q.Letters.Held > 0 {
			a.Queues = append(a.Queues, q)
		}
	}
	a.Balanced = len(a.Faults) == 0
	return a, nil
}

func (s *System) audit(ctx context.Context, name string, a *Audit) (QueueAudit, error) {
	books, letters := s.booksOf(name)
	q, faults, err := deadletter.AuditOf(ctx, books, letters, "jobs")
	if err != nil {
		return QueueAudit{}, fmt.Errorf("audit queue %s: %w", name, err)
	}
	if q.Letters.Put < q.Dead && !strings.HasPrefix(name, parked) { // its dead letters are the partner's
		faults = append(faults, "jobs are dead without a letter")
	}
	for _, f := range faults {
		a.Faults = append(a.Faults, fmt.Sprintf("queue %s: %s", name, f))
	}
	return QueueAudit{name, q}, nil
}

// Books are those of every pipeline's source, by its name.
func (s *System) Books() map[string]tidemill.Bookkeeper {
	all, now := maps.Clone(s.sources), s.now()
	for _, t := range now.targets {
		maps.Copy(all, t.sources)
	}
	for _, r := range now.retired {
		maps.Copy(all, r.sources)
	}
	return tidemill.Bookkeepers(all)
}

// booksOf are the books of a queue and of its dead letters, also of a queue that no pipeline
// works on.
func (s *System) booksOf(name string) (books, letters tidemill.Bookkeeper) {
	all := s.Books()
	if books = all[name]; books != nil && all[ReplayOf(name)] != nil {
		return books, all[ReplayOf(name)]
	}
	return s.p.Queues.Open(name, queue.Options{}).(tidemill.Bookkeeper), s.p.DeadLetters.Open(name).(tidemill.Bookkeeper)
}

// left are the queues of partners that are no longer configured. Their jobs stay, and no
// pipeline works on them.
func (s *System) left(ctx context.Context) (names []string, err error) {
	all, err := s.p.Queues.Queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	for _, name := range all {
		p, ok := PartnerOf(name)
		if !ok {
			p, ok = strings.CutPrefix(name, parked)
		}
		if ok && !slices.ContainsFunc(s.now().targets, func(t *target) bool { return t.Name == p }) {
			names = append(names, name)
		}
	}
	return names, nil
}

// warnLeft logs what waits in queues that no pipeline works on.
func (s *System) warnLeft(ctx context.Context) error {
	names, err := s.left(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		st, err := s.p.Queues.Stats(ctx, name)
		if err != nil {
			return fmt.Errorf("look at queue %s: %w", name, err)
		}
		if n := st.Waiting + st.Delayed + st.Leased; n > 0 {
			// Logged at each audit, while the queue of a partner that is gone from the configuration
			// holds jobs.
			// To do: configure the partner again, or remove the jobs (`tidemill queue remove`).
			s.o.Log.WarnContext(ctx, "jobs wait for a partner that is not configured", "queue", name, "count", n)
		}
	}
	return nil
}
