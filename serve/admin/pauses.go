package admin

import (
	"context"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/queue"
)

// pauseQueue pauses a queue until it is resumed, or for as long as is said.
func (a *API) pauseQueue(ctx context.Context, q *api.Pausing) (api.Queue, error) {
	long, err := answer.For(q.For)
	if err != nil {
		return api.Queue{}, err
	}
	var until time.Time
	if long > 0 {
		until = queue.Millis(a.Now().Add(long))
	}
	return a.steerQueue(ctx, q.Queue, "pause", func(s *queue.Settings) { s.Paused, s.PausedUntil = true, until })
}

// endPauses resumes queues that were paused for a time that is over.
func (a *API) endPauses(ctx context.Context, queues []queue.Standing, now time.Time) {
	over := func(s *queue.Settings) bool { return s.Paused && !s.PausedUntil.IsZero() && !now.Before(s.PausedUntil) }
	for i := range queues {
		q := &queues[i]
		if !over(&q.Settings) {
			continue
		}
		resumed := false
		_, err := a.Queues.Set(ctx, q.Queue, func(s *queue.Settings) {
			if resumed = over(s); resumed { // it was not paused anew
				s.EndPause()
			}
		})
		if err != nil {
			// Logged when a queue that was paused for a time could not be resumed. It is tried again every ten
			// seconds.
			//
			// To do: see why its store cannot be written; tidemill queue resume does it by hand.
			a.Log.ErrorContext(ctx, "cannot end the pause of a queue", "queue", q.Queue, "error", err)
		} else if resumed {
			// Logged when a queue was resumed because the time of its pause was over.
			a.Log.InfoContext(ctx, "pause of a queue is over", "queue", q.Queue)
			a.standing.queues.Changed()
		}
	}
}
