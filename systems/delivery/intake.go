package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Intake brings events in from a source other than the endpoints, such as the queue of another
// system. The payload of each message is an event, and the message is settled when the event is
// durable in a queue. A refused event becomes a dead letter of the intake's pipeline.
type Intake struct {
	Name        string // of its pipeline
	Source      tidemill.Source
	DeadLetters deadletter.Store
	// Accept makes events durable, all or none, and says for each why it is refused; nil: it is
	// accepted, or was before. traces are those that the events go on under; nil: it is not followed.
	Accept func(ctx context.Context, raws [][]byte, traces []*tidemill.Trace) ([]error, error)
	// Reopened says that a message died before, and that its source hands it out anew because
	// somebody retried it there: its dead letter is deleted. Nil: there are no such messages.
	Reopened func(*tidemill.Message) bool

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// NewIntake makes the system that runs an intake: its pipeline, and the one that replays its dead
// letters.
func NewIntake(in Intake) (*flow.System, error) {
	if in.Name == "" || in.Source == nil || in.DeadLetters == nil || in.Accept == nil {
		return nil, errors.New("delivery: an intake needs a name, a source, dead letters and something that accepts events")
	}
	live := flow.Pipeline{Name: in.Name, Source: in.Source, Dead: in.DeadLetters, Work: in.work(true), Batch: 100, Lanes: 2, Log: in.Log, Now: in.Now}
	again := flow.Pipeline{Name: ReplayOf(in.Name), Source: in.DeadLetters.Open(in.Name), Work: in.work(false), Batch: 100, Log: in.Log, Now: in.Now}
	parts := flow.SystemParts{Name: in.Name, Log: in.Log, Now: in.Now}
	for _, p := range []flow.Pipeline{live, again} {
		e, err := flow.New(p)
		if err != nil {
			return nil, fmt.Errorf("delivery: intake %s: %w", in.Name, err)
		}
		parts.Pipelines = append(parts.Pipelines, e)
	}
	return flow.NewSystem(parts), nil
}

// work is what lanes do. The first hand-out of a message that was retried closes its dead
// letter.
func (in *Intake) work(live bool) func(flow.Env) flow.Work {
	stages := []flow.Stage[struct{}]{{Name: "accept", Repeat: true, Do: in.accept}}
	if live && in.Reopened != nil {
		stages = append([]flow.Stage[struct{}]{{Name: "close dead letters", Repeat: true, Do: in.reopen}}, stages...)
	}
	return flow.Steps[struct{}]{Decode: func(*tidemill.Message, *struct{}) error { return nil }, Stages: stages}.Lane
}

func (in *Intake) reopen(ctx context.Context, batch []*flow.Item[struct{}]) error {
	var ids []string
	for _, it := range batch {
		if in.Reopened(&it.Message) {
			ids = append(ids, it.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := in.DeadLetters.Delete(ctx, deadletter.Filter{Pipeline: in.Name, IDs: ids})
	return err
}

func (in *Intake) accept(ctx context.Context, batch []*flow.Item[struct{}]) error {
	raws, traces := make([][]byte, len(batch)), make([]*tidemill.Trace, len(batch))
	for i, it := range batch {
		raws[i], traces[i] = it.Payload, it.Trace
	}
	refused, err := in.Accept(ctx, raws, traces)
	if err != nil {
		return err
	}
	for i, it := range batch {
		if refused[i] != nil {
			it.Fail(&tidemill.Error{Kind: tidemill.Validation, Err: refused[i]})
			continue
		}
		it.Deliver()
	}
	return nil
}
