package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// Partners says how each partner stands. Its recent requests are this instance's. Its queue,
// its dead letters and its pause are shared by all instances.
func (s *System) Partners(ctx context.Context) ([]PartnerHealth, error) {
	targets := s.now().targets
	all := make([]PartnerHealth, len(targets))
	for i, t := range targets {
		var err error
		if all[i], err = s.healthOf(ctx, t); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// healthOf says how one partner stands.
func (s *System) healthOf(ctx context.Context, t *target) (h PartnerHealth, err error) {
	if err = s.stands(ctx, t, &h); err == nil {
		h.Jobs, err = s.p.Queues.Stats(ctx, t.queue)
	}
	if err == nil {
		h.Dead, err = s.p.DeadLetters.Count(ctx, deadletter.Filter{Pipeline: t.queue})
	}
	if err == nil {
		h.Parked, err = s.p.Queues.Stats(ctx, ParkedOf(t.Name))
	}
	h.Limit, h.Policy, h.Dropped, h.Expired = t.limit, t.Queue.Full, t.level.dropped.Load(), t.level.expired.Load()
	t.health.look(&h)
	return h, err
}

// Away are the partners that are left alone or being tried again, with the state of their
// circuits. It counts no probe.
func (s *System) Away(ctx context.Context) (map[string]policy.State, error) {
	away := map[string]policy.State{}
	for _, t := range s.now().targets {
		var h PartnerHealth
		if err := s.stands(ctx, t, &h); err != nil {
			return nil, err
		}
		if h.Circuit != policy.Closed {
			away[t.Name] = h.Circuit
		}
	}
	return away, nil
}

// fullFor is how long a queue counts as full after a dead letter found no room: a lane that has
// one asks for room every few seconds.
const fullFor = 15 * time.Second

// Full are the queues on which this instance waits for room for dead letters.
func (s *System) Full() (queues []string) {
	for _, e := range s.Pipelines() {
		if st := e.Stats(); errors.Is(st.Last, deadletter.ErrFull) && s.o.Now().Sub(st.LastAt) < fullFor {
			queues = append(queues, e.Name())
		}
	}
	return queues
}

// Overfull is how many partners' queues are at their limit.
func (s *System) Overfull() (n int) {
	for _, t := range s.now().targets {
		if l := &t.level; l.queued.Load() >= t.limit || l.parked.Load() > 0 {
			n++
		}
	}
	return n
}

// stands says whether a partner's jobs go on: by this instance's circuit, and by what operators
// have set for all instances.
func (s *System) stands(ctx context.Context, t *target, h *PartnerHealth) error {
	st := t.live.Stats()
	is, err := s.p.Queues.Settings(ctx, t.queue)
	h.Partner, h.Circuit, h.Until, h.Why = t.Name, st.Breaker, st.Until, st.Why
	h.Held, h.Paused = is.Paused, is.Paused || st.State == flow.Paused
	h.FailingSince, h.Off = is.FailingSince, is.Off
	if is.Paused && !is.PausedUntil.IsZero() {
		h.Circuit, h.Until, h.Why, h.Paused = policy.Open, is.PausedUntil, "opened by hand", false
	}
	if err != nil || h.Circuit != policy.Closed || !h.Until.IsZero() {
		return err
	}
	until, err := s.shut(ctx, t)
	if !until.IsZero() {
		h.Circuit, h.Until, h.Why = policy.Open, until, elsewhere
	}
	return err
}

// elsewhere is why a partner is left alone that this instance did not find down.
const elsewhere = "another instance has found it away, or this one before it was started anew"

// shut is until when all instances leave a partner alone; zero: they do not.
func (s *System) shut(ctx context.Context, t *target) (time.Time, error) {
	_, until, err := s.p.Queues.Turn(ctx, t.queue, "", 0)
	if !until.After(s.o.Now()) {
		return time.Time{}, err
	}
	return until, err
}

// OpenCircuit leaves a partner alone for a time (0: a minute), in all instances. Its jobs wait
// in its paused queue and count no try. So do its dead letters being replayed meanwhile. A queue that
// is paused without an end, as that of a partner that is switched off, stays so.
func (s *System) OpenCircuit(ctx context.Context, partner string, d time.Duration) error {
	t, err := s.find(partner)
	if err != nil {
		return err
	}
	if d <= 0 {
		d = time.Minute
	}
	_, err = s.p.Queues.Set(ctx, t.queue, func(q *queue.Settings) {
		if !q.Paused || !q.PausedUntil.IsZero() {
			q.Paused, q.PausedUntil = true, queue.Millis(s.o.Now().Add(d))
		}
	})
	return err
}

// CloseCircuit lets a partner's jobs go on at once, including those that were delayed while it
// was left alone or after a failure.
func (s *System) CloseCircuit(ctx context.Context, partner string) error {
	t, err := s.find(partner)
	if err != nil {
		return err
	}
	if _, err := s.p.Queues.Set(ctx, t.queue, goOn); err != nil {
		return err
	}
	t.level.off.Store(false)
	t.live.Reset()
	t.replay.Reset()
	if err := t.gate.Gate(ctx, time.Time{}, 0); err != nil {
		return err
	}
	_, err = s.p.Queues.Promote(ctx, queue.Filter{Queue: t.queue})
	return err
}

// goOn ends a timed pause, and switches a partner on.
func goOn(q *queue.Settings) {
	if !q.Off.IsZero() {
		q.Paused, q.Off, q.FailingSince = false, time.Time{}, time.Time{}
	}
	if !q.PausedUntil.IsZero() {
		q.Paused, q.PausedUntil = false, time.Time{}
	}
}

// obey applies to circuits what holds for all instances. A queue goes on when its circuit was
// opened by hand for a time that is over. This instance closes a circuit that another instance
// has closed.
func (s *System) obey(ctx context.Context) error {
	if err := s.levels(ctx, s.now().targets); err != nil {
		return err
	}
	for _, t := range s.now().targets {
		is, err := s.p.Queues.Settings(ctx, t.queue)
		if err != nil {
			return err
		}
		if err := s.closeAsOthers(ctx, t, is.Paused); err != nil {
			return err
		}
		if err := s.watch(ctx, t, &is); err != nil {
			return err
		}
		if is.PausedUntil.IsZero() || s.o.Now().Before(is.PausedUntil) {
			continue
		}
		_, err = s.p.Queues.Set(ctx, t.queue, func(q *queue.Settings) {
			if !q.PausedUntil.IsZero() && !s.o.Now().Before(q.PausedUntil) { // it was not opened anew
				q.EndPause()
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ErrNoPartner says that no partner has that name.
var ErrNoPartner = errors.New("there is no such partner")

func (s *System) find(partner string) (*target, error) {
	targets := s.now().targets
	names := make([]string, 0, len(targets))
	for _, t := range targets {
		if t.Name == partner {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return nil, fmt.Errorf("partner %q: %w; there are: %s", partner, ErrNoPartner, strings.Join(names, ", "))
}

// holds says why nothing goes to a partner now, by its queue's settings; empty: it does.
func (s *System) holds(ctx context.Context, t *target, is *queue.Settings) (string, error) {
	if is.Paused {
		return pausedText(t.queue, is), nil
	}
	if why := t.waits(s.o.Now()); why != "" {
		return why, nil
	}
	until, err := s.shut(ctx, t)
	if until.IsZero() {
		return "", err
	}
	return fmt.Sprintf("the circuit is open until %s: %s", until.UTC().Format(time.RFC3339), elsewhere), nil
}

// waits says why this instance hands out nothing of a partner's queue now; empty: it does.
func (t *target) waits(now time.Time) string {
	st := t.live.Stats()
	switch {
	case st.State == flow.Paused:
		return "its pipeline is paused"
	case st.Breaker == policy.Open:
		return fmt.Sprintf("the circuit is open until %s: %s", st.Until.UTC().Format(time.RFC3339), st.Why)
	case st.Breaker == policy.HalfOpen:
		return "the circuit is half open: one try at a time"
	case st.Until.After(now):
		return fmt.Sprintf("the partner asked for less until %s", st.Until.UTC().Format(time.RFC3339))
	}
	return ""
}

// closeAsOthers closes the circuit of this instance where the gate of the queue was opened
// since. It is sure that the queue had been told of the circuit once it sees that twice.
func (s *System) closeAsOthers(ctx context.Context, t *target, paused bool) error {
	until := t.live.Stats().Until
	if paused || !until.After(s.o.Now()) {
		t.alone = time.Time{}
		return nil
	}
	shut, err := s.shut(ctx, t)
	switch {
	case err != nil:
		return err
	case !shut.IsZero():
		t.alone = time.Time{}
	case until.Equal(t.alone):
		t.live.Reset()
		t.replay.Reset()
	default:
		t.alone = until
	}
	return nil
}
