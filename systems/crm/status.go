package crm

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// State is how the system stands. All but Matched and Expired are everybody's; these are
// this instance's.
type State struct {
	Jobs    queue.Stats
	Depths  []queue.Depth // what waits, by priority, the highest first
	Paused  bool
	Closed  bool // it is being drained: no new events are taken
	Dead    int  // letters
	Matched float64
	Met     bool   // Matched says something: there were events in the last five minutes
	Expired uint64 // letters deleted for their age
}

// Waiting is the depth of the queue: jobs that are due, and those put off.
func (s *State) Waiting() int64 { return s.Jobs.Waiting + s.Jobs.Delayed }

// Look says how the system stands.
func (s *System) Look(ctx context.Context) (*State, error) {
	st := &State{Expired: s.expired.Load()}
	st.Matched, st.Met = s.Matched()
	settings, err := s.p.Queues.Settings(ctx, Queue)
	st.Paused, st.Closed = settings.Paused, settings.Closed
	if err == nil {
		st.Jobs, err = s.p.Queues.Stats(ctx, Queue)
	}
	if err == nil {
		st.Depths, err = s.p.Queues.Depths(ctx, Queue)
	}
	if err == nil {
		st.Dead, err = s.p.Letters.Count(ctx, deadletter.Filter{Pipeline: Queue})
	}
	if err != nil {
		return nil, fmt.Errorf("look at the CRM system: %w", err)
	}
	return st, nil
}

// Audit is the proof that nothing is missing: the books of the queue and of its dead
// letters, each found independently, and how they hang together.
type Audit struct {
	System    string             `json:"system"`
	Balanced  bool               `json:"balanced"`
	Queue     string             `json:"queue"`
	Accepted  uint64             `json:"accepted"`
	Delivered uint64             `json:"delivered"`
	Skipped   uint64             `json:"skipped"`
	Dead      uint64             `json:"dead"`
	InFlight  uint64             `json:"in_flight"`
	Lost      uint64             `json:"lost"`
	Letters   deadletter.Account `json:"dead_letters"`
	Faults    []string           `json:"faults"` // what does not add up, in words
}

// Audit reads the books and compares them.
func (s *System) Audit(ctx context.Context) (*Audit, error) {
	// In this order: what happens meanwhile makes the later numbers larger, never smaller.
	books, err := s.sources[Queue].(tidemill.Bookkeeper).Books(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the books of queue %s: %w", Queue, err)
	}
	dead, err := s.sources[DeadQueue].(tidemill.Bookkeeper).Books(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the books of its dead letters: %w", err)
	}
	a := &Audit{System: Name, Queue: Queue, Accepted: books.Accepted, Delivered: books.Settled.Delivered, Skipped: books.Settled.Skipped,
		Dead: books.Settled.Dead, InFlight: books.Pending, Lost: books.Lost, Letters: deadletter.AccountOf(dead), Faults: []string{}}
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			a.Faults = append(a.Faults, fmt.Sprintf(format, args...))
		}
	}
	fault(books.Off() > 0, "%d jobs are missing: fewer ended or are in flight than were accepted", books.Off())
	fault(books.Off() < 0, "%d jobs were counted twice: more ended or are in flight than were accepted", -books.Off())
	fault(books.Lost > 0, "%d jobs were lost at the source", books.Lost)
	fault(dead.Off() != 0, "dead letters do not add up: put is not held + replayed + discarded, by %d", dead.Off())
	a.Balanced = len(a.Faults) == 0
	return a, nil
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
