package delivery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Trial is what a partner would make of an event, or has made of it.
type Trial struct {
	ID      string // that the partner gets
	Site    string
	Takes   bool             // the event would be routed to it
	Why     string           // it would not, or its condition failed
	Skip    string           // NoRoute or NoConsent, where that is why; else empty
	Failed  error            // why its condition failed; nil: it did not
	Request *partner.Request // nil: the mapping refuses the event
	Refused error            // by the mapping; nil: it does not

	Sent *partner.Attempt // nil: nothing was sent
}

// Try shows what request an event would make to a partner, and whether it would be routed there.
// Nothing is sent, and nothing is kept. An event without an eventId or a site gets a new id, and
// the site that is given. Its error is that there is no such partner, or no event.
func (s *System) Try(name, site string, raw []byte) (*Trial, error) {
	t, err := s.find(name)
	if err != nil {
		return nil, err
	}
	trial, _, err := s.trial(t, site, raw)
	return trial, err
}

// SendTest sends an event to a partner, once and at once: beside its queue, its circuit and the books.
// A partner that takes it has it, whatever it is.
func (s *System) SendTest(ctx context.Context, name, site string, raw []byte) (*Trial, error) {
	t, err := s.find(name)
	if err != nil {
		return nil, err
	}
	trial, m, err := s.trial(t, site, raw)
	if err != nil || trial.Refused != nil {
		return trial, err
	}
	trial.Sent = &partner.Attempt{At: s.o.Now()}
	err = t.Sink.Write(context.WithValue(ctx, sentKey{}, trial.Sent), []*tidemill.Message{m})
	if err != nil && trial.Sent.Err == nil { // it did not come to a request
		trial.Sent.Err = err
	}
	return trial, nil
}

// sentKey has a context note the request that is made in it.
type sentKey struct{}

// observe counts a request, and notes it where somebody waits for it.
func (t *target) observe(ctx context.Context, batch []*tidemill.Message, a partner.Attempt) {
	t.health.observe(ctx, batch, a)
	if to, ok := ctx.Value(sentKey{}).(*partner.Attempt); ok {
		a.Body = bytes.Clone(a.Body)
		*to = a
	}
}

// trial is a try of an event that nobody has accepted.
func (s *System) trial(t *target, site string, raw []byte) (*Trial, *tidemill.Message, error) {
	e, err := partner.ReadEvent(&tidemill.Message{Tenant: site, Payload: raw}, "")
	if err != nil {
		return nil, nil, err
	}
	text := func(name string) string { v, _ := e.Get(name).(string); return v }
	m := &tidemill.Message{ID: cmp.Or(text("eventId"), "test-"+uuid.NewString()), Tenant: cmp.Or(site, text("siteId")), Type: text("eventType"), Payload: raw, Time: s.o.Now()}
	return s.try(t, m)
}

// try says what a partner would make of an event, with the job that it would be.
func (s *System) try(t *target, event *tidemill.Message) (*Trial, *tidemill.Message, error) {
	m := *event
	m.ID, m.To = JobOf(event.ID, t.Name), t.queue
	e, err := partner.ReadEvent(&m, event.ID)
	if err != nil {
		return nil, nil, err
	}
	trial := &Trial{ID: event.ID, Site: event.Tenant}
	trial.Takes, trial.Failed = t.Route.Takes(e)
	switch {
	case trial.Failed != nil:
		trial.Why = trial.Failed.Error()
	case !trial.Takes:
		trial.Skip, trial.Why = NoRoute, "its sites or its condition leave this event out"
	}
	if trial.Skip == "" && !(s.may(trial.Site, e, saidGPC(event)) && vendorMay(e, t.Route.Vendor)) {
		trial.Takes, trial.Failed, trial.Skip, trial.Why = false, nil, NoConsent, "its consent does not allow it"
	}
	trial.Request, trial.Refused = t.Sink.Show(&m)
	return trial, &m, nil
}

// Description is what a partner is, and its last failures.
type Description struct {
	partner.Partner        // as it is in force, without secrets
	Credentials     string // how they stand: none, set, not set
	Health          PartnerHealth
	Failures        []Failure // its last failed requests in this instance, the newest first
}

// Failure is a request that failed.
type Failure struct {
	At     time.Time
	Took   time.Duration
	Status int // 0: no answer
	Kind   tidemill.Kind
	Cause  string
}

// failuresKept is how many failed requests of a partner are remembered.
const failuresKept = 20

// failed notes a failed request; h.mu is held.
func (h *health) failed(at time.Time, a partner.Attempt) {
	err := a.Err
	if partly, ok := errors.AsType[*tidemill.Partial](err); ok && len(partly.Failed) > 0 {
		err = partly.Failed[0].Err
	}
	kind := tidemill.KindOf(err)
	h.failures = append(h.failures, Failure{At: at, Took: a.Took, Status: a.Status, Kind: kind, Cause: err.Error()})
	if len(h.failures) > failuresKept {
		h.failures = h.failures[1:]
	}
}

// Describe shows one partner.
func (s *System) Describe(ctx context.Context, name string) (*Description, error) {
	t, err := s.find(name)
	if err != nil {
		return nil, err
	}
	d := &Description{Credentials: t.from.Credentials(t.env)}
	d.Partner, _ = t.from.Shown().(partner.Partner)
	if d.Health, err = s.healthOf(ctx, t); err != nil {
		return nil, fmt.Errorf("partner %s: %w", name, err)
	}
	t.health.mu.Lock()
	defer t.health.mu.Unlock()
	for i := len(t.health.failures) - 1; i >= 0; i-- {
		d.Failures = append(d.Failures, t.health.failures[i])
	}
	return d, nil
}
