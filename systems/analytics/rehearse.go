package analytics

import (
	"context"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// Rehearse does the work on one event as a lane does, beside the queue, and says how it would end: of a
// fate other than Delivered why, and of None why it would be tried again. The system must not run. Its
// stores have the event then.
func (s *System) Rehearse(ctx context.Context, m *tidemill.Message) (fate tidemill.Fate, why string, err error) {
	task := flow.NewTask(*m)
	work := s.steps(s.decode).Lane(flow.Env{Pipeline: Name, Batch: 1, Log: s.options.Log, Now: s.options.Now})
	if err := work.Do(ctx, []*flow.Task{task}); err != nil {
		return tidemill.None, "", err
	}
	fate, failure := task.Outcome()
	switch {
	case failure != nil:
		return policy.Default().Fate(tidemill.KindOf(failure)), failure.Error(), nil
	case fate == tidemill.None:
		return tidemill.Delivered, "", nil
	}
	return fate, task.Settlement().Cause, nil
}
