package delivery

import (
	"context"
	"time"

	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/queue"
)

// watch notes since when a partner fails, for all instances, and switches it off when that has
// lasted too long. A delivery by any instance ends the failing. A partner for which nothing
// waits, or whose queue was paused by hand, is not tried and does not fail.
func (s *System) watch(ctx context.Context, t *target, is *queue.Settings) error {
	now := queue.Millis(s.o.Now())
	st := t.live.Stats()
	fails := !is.Paused && st.Breaker != policy.Closed && t.level.queued.Load() > 0
	switch last := t.health.success(); {
	case !is.Off.IsZero():
	case !is.FailingSince.IsZero() && last.After(is.FailingSince):
		return s.note(ctx, t, is, func(q *queue.Settings) { q.FailingSince = time.Time{} })
	case fails && is.FailingSince.IsZero():
		return s.note(ctx, t, is, func(q *queue.Settings) { q.FailingSince = now })
	case fails && t.OffAfter > 0 && now.Sub(is.FailingSince) >= t.OffAfter:
		// Logged when a partner has failed without a success for as long as `off_after` says; its
		// events wait.
		// To do: mend it, or talk to the partner; then let it go on with `tidemill partner close`.
		s.o.Log.ErrorContext(ctx, "a partner is switched off", "partner", t.Name, "since", is.FailingSince, "error", st.Why)
		t.level.off.Store(true)
		return s.note(ctx, t, is, func(q *queue.Settings) { q.Off, q.Paused = now, true })
	}
	return nil
}

// SwitchOff sends a partner nothing and queues nothing for it, in all instances, until its circuit is
// closed. Its jobs wait; what is being sent is finished.
func (s *System) SwitchOff(ctx context.Context, partner string) error {
	t, err := s.find(partner)
	if err != nil {
		return err
	}
	_, err = s.p.Queues.Set(ctx, t.queue, func(q *queue.Settings) {
		if q.Off.IsZero() {
			q.Off = queue.Millis(s.o.Now())
		}
		q.Paused, q.PausedUntil = true, time.Time{}
	})
	if err == nil {
		t.level.off.Store(true)
	}
	return err
}

// note changes what is known of a partner, unless that was changed since it was read.
func (s *System) note(ctx context.Context, t *target, was *queue.Settings, change func(*queue.Settings)) error {
	_, err := s.p.Queues.Set(ctx, t.queue, func(q *queue.Settings) {
		if q.Off.Equal(was.Off) && q.FailingSince.Equal(was.FailingSince) {
			change(q)
		}
	})
	return err
}
