package ingest

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// ErrFull says that the queue takes no events: it holds as many as it may, or is drained.
var ErrFull = errors.New("the queue is full or being drained: wait until events are processed, and send them again")

// Accept takes native events, one JSON object each, from somebody who needs no key: an
// operator. A timestamp is taken as it is given. It returns how many are durable and, for
// each that is not taken, why. After an error all may be sent again: those with an
// event_id are not doubled.
func (h *Handler) Accept(ctx context.Context, project uuid.UUID, events [][]byte) (accepted int, refused []string, err error) {
	now := h.o.Now().UTC()
	var jobs []*tidemill.Message
	var e event.Event
	for _, raw := range events {
		m := event.Meta{Format: event.Native, Import: true, Project: project, Received: now}
		r := h.decode(&m, raw, &e)
		if r != nil { // a timestamp may be left out here
			m.Import = false
			r = h.decode(&m, raw, &e)
		}
		if r != nil {
			h.stats.events(native, r.Reason, 1)
			h.o.Warn(ctx, project, r.Reason, cut(e.Name), cut(e.DistinctID), r.Detail)
			refused = append(refused, r.Error())
			continue
		}
		m.Checked = true // by decoding it
		if m.Event = e.ID; e.Derived {
			m.Event = h.o.NewID()
		}
		jobs = append(jobs, &tidemill.Message{ID: m.Event.String(), Tenant: project.String(), Type: e.Name, To: h.queueOf(project),
			Key: []byte(e.DistinctID), Payload: raw, Time: now, Header: []tidemill.Field{{Name: h.metaHeader, Value: m.Append(nil)}}})
	}
	if len(jobs) == 0 {
		return 0, refused, nil
	}
	added := make([]queue.Added, len(jobs))
	if err := h.o.Intake.Add(ctx, jobs, added); err != nil {
		h.stats.events(native, "failed", len(jobs))
		return 0, refused, err
	}
	known, full := 0, 0
	for _, a := range added {
		switch a {
		case queue.Full, queue.Closed:
			full++
		case queue.Known:
			known++
		}
	}
	accepted = len(jobs) - full
	h.stats.events(native, "accepted", accepted-known)
	h.stats.events(native, "known", known)
	h.stats.events(native, "full", full)
	if full > 0 {
		err = ErrFull
	}
	return accepted, refused, err
}
