package crm

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// State is the state of the system. Matched and Expired are this instance's; all else is shared
// by all instances.
type State struct {
	Jobs    queue.Stats
	Ended   tidemill.Count // events of the queue since it exists: delivered are those that a handler accepted
	Depths  []queue.Depth  // waiting jobs by priority, the highest first
	Paused  bool
	Closed  bool // it is draining: no new events are accepted
	Dead    int  // dead letters
	Matched float64
	Met     bool   // Matched is valid: there were events in the last five minutes
	Expired uint64 // dead letters deleted for their age
}

// Waiting is the depth of the queue: due jobs, and delayed ones.
func (s *State) Waiting() int64 { return s.Jobs.Waiting + s.Jobs.Delayed }

// Look returns the state of the system.
func (s *System) Look(ctx context.Context) (*State, error) {
	st := &State{Expired: s.expired.Load()}
	st.Matched, st.Met = s.Matched()
	settings, err := s.p.Queues.Settings(ctx, Queue)
	st.Paused, st.Closed = settings.Paused, settings.Closed
	if err == nil {
		st.Jobs, err = s.p.Queues.Stats(ctx, Queue)
	}
	if err == nil {
		var b tidemill.Books
		b, err = s.Books()[Queue].Books(ctx)
		st.Ended = b.Settled
	}
	if err == nil {
		st.Depths, err = s.p.Queues.Depths(ctx, Queue)
	}
	if err == nil {
		st.Dead, err = s.p.DeadLetters.Count(ctx, deadletter.Filter{Pipeline: Queue})
	}
	if err != nil {
		return nil, fmt.Errorf("look at the CRM system: %w", err)
	}
	return st, nil
}

// Audit is the proof that nothing is missing: the books of the queue and of its dead letters,
// and how they agree.
type Audit struct {
	System   string `json:"system"`
	Balanced bool   `json:"balanced"`
	Queue    string `json:"queue"`
	deadletter.Audit
	Faults []string `json:"faults"` // what does not add up, in words
}

// Audit reads the books and compares them.
func (s *System) Audit(ctx context.Context) (*Audit, error) {
	books := s.Books()
	a, faults, err := deadletter.AuditOf(ctx, books[Queue], books[DeadQueue], "jobs")
	if err != nil {
		return nil, fmt.Errorf("audit queue %s: %w", Queue, err)
	}
	return &Audit{System: Name, Balanced: len(faults) == 0, Queue: Queue, Audit: a, Faults: append([]string{}, faults...)}, nil
}

// Books are those of every pipeline's source, by its name.
func (s *System) Books() map[string]tidemill.Bookkeeper { return tidemill.Bookkeepers(s.sources) }
