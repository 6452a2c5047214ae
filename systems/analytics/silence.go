package analytics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
)

// A silence counts how often in a row a store that is only read did not answer.
type silence struct {
	of    string
	times atomic.Int64
}

const (
	// After so many times in a row the store is down: the events are not the cause.
	silentAtLeast = 5
	// Then it is asked this often by the events that asked last, and by others after so many
	// times: if these events are the cause after all, they must not stop all others.
	silentPause = 5 * time.Second
	silentTurns = 100
	// The longest time between two hand-outs of one event.
	againAtMost = time.Minute
)

// answered ends a silence.
func (s *silence) answered() { s.times.Store(0) }

// comeAgain hands back events whose store did not answer. The events did not cause that, so no
// try is counted. But an event that reached its limit of hand-outs is dead, to be replayed. If
// the store stays silent, the error makes the stage wait, which stops reading: in a long outage
// events wait at the source.
func (s *System) comeAgain(ctx context.Context, batch []*item, who *silence, err error) error {
	if n := who.times.Add(1); n >= silentAtLeast && n%silentTurns != 0 {
		// Logged when a store has not answered many times in a row: no more events are read until it
		// does.
		// To do: make the store that `neighbour` names answer; then it goes on by itself, and nothing
		// is lost.
		s.options.Log.ErrorContext(ctx, "no answer, events wait", "neighbour", who.of, "in_a_row", n, "error", err)
		return &tidemill.Error{Kind: tidemill.RateLimit, After: silentPause, Err: err}
	}
	// Logged when a store did not answer for a batch; its events come again, and no try is counted.
	// To do: see whether the store that `neighbour` names is well, if it goes on.
	s.options.Log.WarnContext(ctx, "no answer, events come again", "neighbour", who.of, "count", len(batch), "error", err)
	for _, it := range batch {
		if most := s.options.Handouts; most > 0 && it.Handed-it.Tries >= most {
			it.Fail(tidemill.Fail(tidemill.Transient, "%s could not be asked, %d times handed out: %w", who.of, it.Handed, err))
			continue
		}
		it.Again(min(time.Second<<min(max(it.Handed-1, 0), 10), againAtMost))
	}
	return nil
}
