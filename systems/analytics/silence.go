package analytics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
)

// A silence counts how often in a row a neighbour that is only asked did not answer.
type silence struct {
	of    string
	times atomic.Int64
}

const (
	// So many times in a row, and it is the neighbour that is away and not an event that
	// it cannot answer.
	silentAtLeast = 5
	// Then it is asked this often, by the events that asked last, and by others after so
	// many times: should it be these events after all, they must not stop all others.
	silentPause = 5 * time.Second
	silentTurns = 100
	// The longest time between two hand-outs of one event.
	againAtMost = time.Minute
)

// answered ends a silence.
func (s *silence) answered() { s.times.Store(0) }

// comeAgain hands back events for which a neighbour could not be asked. None of them is to
// blame, so no try is burnt; but what was handed out as often as is allowed is dead, to be
// replayed. If the neighbour stays silent, the error makes the stage wait instead, and with
// it reading: in a long outage events wait at the source.
func (s *System) comeAgain(ctx context.Context, batch []*item, who *silence, err error) error {
	if n := who.times.Add(1); n >= silentAtLeast && n%silentTurns != 0 {
		s.options.Log.ErrorContext(ctx, "no answer, events wait", "neighbour", who.of, "in_a_row", n, "error", err)
		return &tidemill.Error{Kind: tidemill.RateLimit, After: silentPause, Err: err}
	}
	s.options.Log.WarnContext(ctx, "no answer, events come again", "neighbour", who.of, "events", len(batch), "error", err)
	for _, it := range batch {
		if most := s.options.Handouts; most > 0 && it.Handed-it.Tries >= most {
			it.Fail(tidemill.Fail(tidemill.Transient, "%s could not be asked, %d times handed out: %w", who.of, it.Handed, err))
			continue
		}
		it.Again(min(time.Second<<min(max(it.Handed-1, 0), 10), againAtMost))
	}
	return nil
}
