package flow

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// Stats is the state of an engine. Numbers count since it was made; the durable truth is in
// the source's books.
type Stats struct {
	State    State
	Received uint64         // handed out to us
	Settled  tidemill.Count // ends that the source applied
	Acked    uint64         // ends from outside that the source applied
	Retried  uint64         // handed back after a failed try
	Returned uint64         // handed back without counting a try: breaker, limit, stop
	Left     uint64         // left pending: shed, an ack awaited, time was up
	Shed     uint64         // of those: dropped from the buffer by the drop policy
	Stale    uint64         // ends that came too late: the lease was lost
	Failures map[tidemill.Kind]uint64
	Failure  string    // the last failure of a message that was not a skip, in words; empty: none so far
	FailedAt time.Time // when that was

	InFlight int  // held now
	Buffered int  // of those: waiting for a lane
	Awaited  int  // left for an ack from outside and not acked yet, as far as known
	Paced    bool // no more is asked for until acks from outside come: the subscriber is slower than the engine
	Workers  int  // lanes that get messages
	Lanes    []LaneStats

	Breaker  policy.State
	Until    time.Time // nothing passes the breaker before; zero: messages may pass
	Why      string    // the failure for which messages are kept back; empty: none is
	Errors   int       // of source, dead letters and Emits in a row
	Last     error     // the last of them
	LastAt   time.Time
	LastDone time.Time // when a message was last settled
	Turned   time.Time // when anything last made progress; an engine that waits for messages, for the breaker or for Resume makes progress all the time
}

// LaneStats is the state of one lane.
type LaneStats struct {
	Held     int // dealt to it and not settled
	Buffered int // of those: waiting in its ring
}

// stats are the numbers behind Stats.
type stats struct {
	mu       sync.Mutex // guards all below
	s        Stats      // only the counted fields
	failures [tidemill.Unknown + 1]uint64

	turned  atomic.Int64 // unix ns: when the loop, a lane or a stage last made progress
	waiting atomic.Int64 // goroutines that wait on purpose: for messages, for the breaker, paused
}

func (s *stats) received(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.s.Received += uint64(n)
}

func (s *stats) shed(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.s.Shed += uint64(n)
}

// failed counts failures of messages by kind; why is the last one that was not a skip, if
// any.
func (s *stats) failed(kinds *[tidemill.Unknown + 1]uint64, why string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why != "" {
		s.s.Failure, s.s.FailedAt = why, now
	}
	for k, n := range kinds {
		s.failures[k] += n
	}
}

// turn notes progress.
func (s *stats) turn(now time.Time) { s.turned.Store(now.UnixNano()) }

// idle notes that a goroutine waits on purpose, until busy.
func (s *stats) idle() { s.waiting.Add(1) }

// busy ends idle.
func (s *stats) busy(now time.Time) {
	s.waiting.Add(-1)
	s.turn(now)
}

// told counts the answers to settlements; the first outside of them came from outside.
func (s *stats) told(now time.Time, ends []tidemill.Settlement, outside int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ends {
		end := &ends[i]
		switch {
		case end.Outcome == tidemill.Unanswered:
		case end.Outcome == tidemill.Stale && i >= outside && end.End == tidemill.Left: // its ack was faster
		case end.Outcome == tidemill.Stale:
			s.s.Stale++
		case end.End == tidemill.Done:
			s.s.Settled.Add(end.Row())
			if i < outside {
				s.s.Acked++
			}
			s.s.Errors, s.s.LastDone = 0, now
		case end.End == tidemill.Left:
			s.s.Left++
		case end.CountTry:
			s.s.Retried++
		default:
			s.s.Returned++
		}
	}
	s.turn(now)
}

// failedTo notes an error that is not repeated, because time is up.
func (s *stats) failedTo(err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.s.Last, s.s.LastAt = err, now
}

func (s *stats) last() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s.Last
}

// Stats returns the engine's state now.
func (e *Engine) Stats() Stats {
	now := e.p.Now()
	e.stats.mu.Lock()
	s, failures := e.stats.s, e.stats.failures
	e.stats.mu.Unlock()
	s.State = e.State()
	if ns := e.stats.turned.Load(); e.stats.waiting.Load() > 0 {
		s.Turned = now
	} else if ns != 0 {
		s.Turned = time.Unix(0, ns)
	}
	s.Failures = make(map[tidemill.Kind]uint64)
	for k, n := range failures {
		if n > 0 {
			s.Failures[tidemill.Kind(k)] = n
		}
	}
	for _, l := range e.lanes {
		ls := LaneStats{Held: int(l.load.Load()), Buffered: l.in.Len()}
		s.Buffered += ls.Buffered
		s.Lanes = append(s.Lanes, ls)
	}
	s.InFlight, s.Workers = int(e.held.Load()), int(e.workers.Load())
	s.Awaited = int(max(e.acked.awaited.Load(), 0))
	s.Paced = e.p.Acks != nil && e.acked.window.waits(now)
	s.Breaker, s.Until, s.Why = e.gate.look(now)
	return s
}

// trouble counts an error of source, dead letters or Emits, which is going to be repeated,
// and ends the pipeline when too many came in a row. A full store is an alarm, not a reason
// to end: the engine waits until it has room.
func (e *Engine) trouble(doing string, err error) {
	full := tidemill.KindOf(err) == tidemill.RateLimit
	if full {
		e.stats.turn(e.p.Now())
	}
	e.stats.mu.Lock()
	if !full {
		e.stats.s.Errors++
	}
	e.stats.s.Last, e.stats.s.LastAt = err, e.p.Now()
	n := e.stats.s.Errors
	e.stats.mu.Unlock()
	if loud(n) {
		// Logged when a source, a queue or a store fails, at the first error in a row and at each tenth;
		// the pipeline repeats what it was doing.
		// To do: see whether the server or the disk that the error names is well, if it goes on.
		e.p.Log.Warn("repeating after an error", "pipeline", e.p.Name, "doing", doing, "error", err, "in_a_row", n)
	} else {
		// Logged at the errors in a row between those of `repeating after an error`.
		e.p.Log.Debug("still repeating after an error", "pipeline", e.p.Name, "doing", doing, "error", err, "in_a_row", n)
	}
	if !full && e.p.Fatal > 0 && n >= e.p.Fatal {
		e.shut(fmt.Errorf("%s: %w (%d), the last: %w", doing, ErrTooManyErrors, n, err))
	}
}

// loud reports whether an error is one that is warned of: the first in a row, and then each tenth.
func loud(inARow int) bool { return inARow == 1 || inARow%10 == 0 }
