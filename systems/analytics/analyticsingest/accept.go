package analyticsingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// ErrFull says that the queue takes no events: it holds as many as it may, or is drained.
var ErrFull = errors.New("the queue is full or being drained: wait until events are processed, and send them again")

// Taken is what became of events that an operator sent.
type Taken struct {
	Accepted int      // durable now, and new
	Known    int      // accepted before, under the same event_id
	Refused  []string // why, of each that is not taken
}

// Accept takes native events, one JSON object each, from somebody who needs no key: an
// operator. A timestamp is taken as it is given. After an error all may be sent again: those
// with an event_id are not doubled.
func (h *Handler) Accept(ctx context.Context, project uuid.UUID, events [][]byte) (t Taken, err error) {
	now := h.o.Now().UTC()
	var jobs []*tidemill.Message
	var metas []event.Meta
	var times []event.Timing
	var e event.Event
	for _, raw := range events {
		m := event.Meta{Format: event.Native, Import: true, Project: project, Received: now}
		r := h.decode(&m, raw, &e)
		if r != nil { // a timestamp may be left out here
			m.Import = false
			r = h.decode(&m, raw, &e)
		}
		if r != nil {
			h.Count(native, r.Reason, 1)
			h.o.Warn(ctx, project, r.Reason, cut(e.Name), cut(e.DistinctID), r.Detail)
			t.Refused = append(t.Refused, r.Error())
			continue
		}
		m.Checked, m.Sum = true, event.SumOf(raw) // by decoding it
		if m.Event = e.ID; e.Derived {
			m.Event = h.o.NewID()
		}
		metas, times = append(metas, m), append(times, e.Timing())
		jobs = append(jobs, &tidemill.Message{ID: m.Event.String(), Tenant: project.String(), Type: e.Name, To: h.queueOf(project),
			Key: []byte(e.DistinctID), Payload: raw, Time: now})
	}
	h.o.Clock.Together(times, now)
	for i := range jobs {
		m := &metas[i]
		m.At, m.Order, m.Beyond = times[i].At, times[i].Order, times[i].Beyond != ""
		jobs[i].Header = []tidemill.Field{{Name: h.metaHeader, Value: m.Append(nil)}}
	}
	if len(jobs) == 0 {
		return t, nil
	}
	added := make([]queue.Added, len(jobs))
	if err := h.o.Intake.Add(ctx, jobs, added); err != nil {
		h.Count(native, "failed", len(jobs))
		return t, err
	}
	full := 0
	for _, a := range added {
		switch a {
		case queue.Full, queue.Closed:
			full++
		case queue.Known:
			t.Known++
		}
	}
	h.warnBeyond(ctx, project, times, jobs)
	t.Accepted = len(jobs) - full - t.Known
	h.Count(native, "accepted", t.Accepted)
	h.Count(native, "known", t.Known)
	h.Count(native, "full", full)
	if full > 0 {
		err = ErrFull
	}
	return t, err
}

// warnBeyond warns of events whose time lay beyond the bounds: once for each of both, with
// the first of them and how many they are.
func (h *Handler) warnBeyond(ctx context.Context, project uuid.UUID, times []event.Timing, jobs []*tidemill.Message) {
	for _, typ := range [...]string{event.TooOld, event.TooNew} {
		first, n := 0, 0
		for i := range times {
			if times[i].Beyond == typ {
				if n == 0 {
					first = i
				}
				n++
			}
		}
		if n == 0 {
			continue
		}
		detail := times[first].Warning()
		if n > 1 {
			detail += fmt.Sprintf(" (and %d more of this request)", n-1)
		}
		h.o.Warn(ctx, project, typ, cut(jobs[first].Type), cut(string(jobs[first].Key)), detail)
	}
}
