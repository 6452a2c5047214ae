package crm

import (
	"context"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// Rehearsed is what would become of an event.
type Rehearsed struct {
	Refused  error // why it is not taken in; nil: it is
	Priority uint8 // in the queue
	Fate     tidemill.Fate
	Why      string // of another fate than Delivered; of None, why it would be tried again
}

// Rehearse does the work on one event as a worker does, beside the queue. The system must not run. Its
// handlers are called, and sync log and profiles remember the event.
func (s *System) Rehearse(ctx context.Context, raw []byte) (Rehearsed, error) {
	m, err := s.acceptor.Job(raw)
	if err != nil {
		return Rehearsed{Refused: err}, nil
	}
	out, task := Rehearsed{Priority: m.Priority, Fate: tidemill.Delivered}, flow.NewTask(*m)
	if err := s.work(flow.Env{Pipeline: Queue, Batch: 1, Log: s.o.Log, Now: s.o.Now, Rules: handler.Rules()}).Do(ctx, []*flow.Task{task}); err != nil {
		return out, err
	}
	switch fate, failure := task.Outcome(); {
	case failure != nil:
		out.Fate, out.Why = handler.Rules().Fate(tidemill.KindOf(failure)), failure.Error()
	case fate != tidemill.None:
		out.Fate, out.Why = fate, task.Settlement().Cause
	}
	return out, nil
}
