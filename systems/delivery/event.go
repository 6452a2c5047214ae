package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
)

// Event says where an event is and what became of it for each partner. It returns
// queue.ErrNotFound where nothing is known of it. What ended is known while its queue keeps it
// (Options.Kept), or while it has a dead letter.
func (s *System) Event(ctx context.Context, site, id string) (*EventStatus, error) {
	e := &EventStatus{ID: id, Site: site}
	routed, err := s.routing(ctx, e)
	if err != nil {
		return nil, err
	}
	found := routed
	for _, t := range s.now().targets {
		p, err := s.delivery(ctx, e, t)
		if err != nil {
			return nil, err
		}
		if p != nil {
			e.Partners = append(e.Partners, *p)
			found = true
		}
	}
	if !found {
		return nil, tidemill.Fail(tidemill.NotFound, "event %q of site %q: %w", id, site, queue.ErrNotFound)
	}
	if e.State == "" || e.State == StateDelivering || e.State == StateSettled && len(e.Partners) > 0 {
		e.State, e.Why = StateDone, ""
		if slices.ContainsFunc(e.Partners, func(p PartnerStatus) bool { return !ended(p.State) }) {
			e.State = StateDelivering
		}
	}
	return e, nil
}

func ended(state string) bool {
	return state == StateDelivered || state == StateSkipped || state == StateDead || state == StateHeld || state == StateSettled
}

// routing looks for the event in the queues of the ingest API and among their dead letters.
func (s *System) routing(ctx context.Context, e *EventStatus) (found bool, err error) {
	for _, endpoint := range EventQueues() {
		j, err := s.look(ctx, queue.Name{Queue: endpoint, Tenant: e.Site, ID: e.ID})
		if err != nil {
			return false, err
		}
		var l *deadletter.Letter
		if j == nil || j.State.Held() || j.Fate == tidemill.Dead { // a dead letter is the fate, even before its job has ended
			if l, err = s.letter(ctx, endpoint, e.Site, e.ID); err != nil {
				return false, err
			}
		}
		if j == nil && l == nil {
			continue
		}
		e.Queue, e.Job, e.Letter = endpoint, j, l
		if j != nil {
			e.Type, e.Received = j.Type, j.Added
		}
		switch {
		case l != nil:
			e.Type, e.State, e.Why = l.Type, StateDead, l.Kind.String()+": "+l.Cause
		case j.State.Held():
			e.State = StateQueued
			is, err := s.p.Queues.Settings(ctx, endpoint)
			if err != nil {
				return false, err
			}
			e.Why = s.why(j, &is, "")
		case j.Fate == tidemill.Skipped:
			e.State, e.Why = StateSkipped, j.Cause
		case j.Fate == tidemill.Dead:
			e.State, e.Why = StateSettled, "its dead letter was discarded, or replayed and went to no partner; it died of: "+j.Cause
		default:
			e.State = StateDelivering
		}
		return true, err
	}
	return false, nil
}

// look finds a job, or nil.
func (s *System) look(ctx context.Context, n queue.Name) (*queue.Job, error) {
	j, err := s.p.Queues.Look(ctx, n)
	if errors.Is(err, queue.ErrNotFound) {
		return nil, nil
	}
	return j, err
}

// delivery looks for the event's job for one partner, or returns nil.
func (s *System) delivery(ctx context.Context, e *EventStatus, t *target) (*PartnerStatus, error) {
	id := JobOf(e.ID, t.Name)
	p := &PartnerStatus{Partner: t.Name}
	l, err := s.letter(ctx, t.queue, e.Site, id)
	if err != nil {
		return nil, err
	}
	j, err := s.look(ctx, queue.Name{Queue: t.queue, Tenant: e.Site, ID: id})
	if err != nil {
		return nil, err
	}
	if l == nil && j == nil {
		return s.beside(ctx, e, t, id)
	}
	p.Job, p.Letter = j, l
	if l != nil && (j == nil || !j.Added.After(l.Last)) { // a dead letter is the fate, even before its job has ended, but not of a job that was retried since
		p.dead(l)
		e.Type = l.Type
		if l.State == deadletter.Replaying {
			is, err := s.p.Queues.Settings(ctx, t.queue)
			if err != nil {
				return nil, err
			}
			held, err := s.holds(ctx, t, &is)
			if held != "" {
				p.State, p.Why = StateWaiting, "to be replayed: "+held
			}
			return p, err
		}
		return p, nil
	}
	if j == nil {
		return nil, nil
	}
	e.Type = j.Type
	p.Attempts, p.Tries, p.Ended = j.Failures, j.Tries, j.Ended
	switch {
	case j.State == queue.Waiting:
		p.State = StateWaiting
	case j.State == queue.Delayed:
		p.State, p.Next = StateDelayed, j.At
	case j.State == queue.Leased:
		p.State = StateSending
	case j.Fate == tidemill.Delivered:
		p.State = StateDelivered
	case j.Fate == tidemill.Skipped:
		p.State, p.Why = StateSkipped, j.Cause
	default: // there was a dead letter
		return p, s.settled(ctx, p, j, t.sent(e.Site, e.ID))
	}
	if j.State.Held() {
		is, err := s.p.Queues.Settings(ctx, t.queue)
		if err != nil {
			return nil, err
		}
		held, err := s.holds(ctx, t, &is)
		if err != nil {
			return nil, err
		}
		p.Why = s.why(j, &is, held)
	}
	return p, nil
}

// beside looks for the event's job in the queue beside a partner's. It returns nil if there is
// no job, or if it was moved into the partner's queue.
func (s *System) beside(ctx context.Context, e *EventStatus, t *target, id string) (*PartnerStatus, error) {
	name := ParkedOf(t.Name)
	p := &PartnerStatus{Partner: t.Name}
	j, err := s.look(ctx, queue.Name{Queue: name, Tenant: e.Site, ID: id})
	if j == nil || err != nil {
		return nil, err
	}
	e.Type, p.Job = j.Type, j
	switch {
	case j.State.Held():
		p.State, p.Why = StateWaiting, fmt.Sprintf("the queue of %s is full: it holds %d jobs, and this one is parked beside it", t.Name, t.limit)
	case j.Fate == tidemill.Skipped:
		p.State, p.Why, p.Ended = StateSkipped, j.Cause, j.Ended
	case j.Fate == tidemill.Dead: // there was a dead letter
		p.Tries = -1 // nothing was tried
		return p, s.settled(ctx, p, j, t.sent(e.Site, e.ID))
	default:
		return nil, nil
	}
	return p, nil
}

// settled says what became of a job whose dead letter is gone: the ledger knows a replay that
// was delivered.
func (s *System) settled(ctx context.Context, p *PartnerStatus, j *queue.Job, key string) error {
	p.Tries++ // a job counts only failures that were tried again
	sent := &ledger.Entry{Key: key}
	if err := s.p.Sent.Find(ctx, []*ledger.Entry{sent}); err != nil {
		return err
	}
	if sent.State == ledger.Done && !sent.Ended.Before(j.Added) { // not before it was retried; a dead letter may be replayed before its job has ended
		p.State, p.Ended, p.Why = StateDelivered, sent.Ended, "by a replay of its dead letter"
		return nil
	}
	p.State, p.Why = StateSettled, "its dead letter was discarded, or not sent at its replay; it died of: "+j.Cause
	return nil
}

// dead fills in what a dead letter says. Only the last try of a replay is known.
func (p *PartnerStatus) dead(l *deadletter.Letter) {
	p.State, p.Why, p.Ended = StateDead, l.Kind.String()+": "+l.Cause, l.Last
	p.Attempts = queue.FailuresOf(&l.Message)
	for _, f := range l.History {
		p.Attempts = append(p.Attempts, queue.Failure{At: f.At, Kind: f.Kind, Cause: f.Cause})
		p.Tries += max(1, f.Tries)
	}
	switch {
	case l.State == deadletter.Replaying:
		p.State, p.Why, p.Ended = StateSending, "it is being replayed, after "+p.Why, time.Time{}
	case l.Kind == tidemill.Unknown:
		p.State = StateHeld
	}
}

// letter finds the dead letter of a message, or nil.
func (s *System) letter(ctx context.Context, pipeline, tenant, id string) (*deadletter.Letter, error) {
	for l, err := range s.p.DeadLetters.List(ctx, deadletter.Filter{Pipeline: pipeline, Tenant: tenant, IDs: []string{id}, Max: 1}) {
		return l, err
	}
	return nil, nil
}

// why says in words why a job waits: first what holds back its queue, then the job itself.
func (s *System) why(j *queue.Job, settings *queue.Settings, held string) string {
	limit := settings.LimitOf(j.Tenant)
	switch {
	case slices.Contains(s.Full(), j.To):
		return fullText
	case j.State == queue.Leased:
		return ""
	case settings.Paused:
		return pausedText(j.To, settings)
	case held != "":
		return held
	case j.State == queue.Delayed && j.Cause != "":
		return fmt.Sprintf("it is tried again at %s, after: %s", j.At.UTC().Format(time.RFC3339), j.Cause)
	case j.State == queue.Delayed:
		return fmt.Sprintf("it is not due before %s", j.At.UTC().Format(time.RFC3339))
	case limit != queue.Limit{}:
		return fmt.Sprintf("its turn has not come; the site's limit is %s", limitText(limit))
	case settings.Limit != queue.Limit{}:
		return fmt.Sprintf("its turn has not come; the queue's limit is %s", limitText(settings.Limit))
	}
	return "its turn has not come"
}

// fullText says why a queue waits that has no room for another dead letter.
const fullText = "there are as many dead letters of its queue as there may be, and it waits: replay or delete some, or raise delivery.dead_max"

// pausedText says why a paused queue hands out nothing.
func pausedText(name string, s *queue.Settings) string {
	if s.PausedUntil.IsZero() {
		return fmt.Sprintf("queue %s is paused", name)
	}
	return fmt.Sprintf("the circuit is open until %s: opened by hand", s.PausedUntil.UTC().Format(time.RFC3339))
}

func limitText(l queue.Limit) string {
	switch {
	case l.PerSecond > 0 && l.AtOnce > 0:
		return fmt.Sprintf("%g a second and %d at once", l.PerSecond, l.AtOnce)
	case l.PerSecond > 0:
		return fmt.Sprintf("%g a second", l.PerSecond)
	}
	return fmt.Sprintf("%d at once", l.AtOnce)
}
