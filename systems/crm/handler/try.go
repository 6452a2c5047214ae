package handler

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// Who is the profile of an event, as a test wants it.
type Who struct {
	Profile uuid.UUID
	New     bool
	Attempt int // 0: 1
}

// Outcome is what a system would do with an event after a try.
type Outcome struct {
	Err   error         // the failure; nil: the event is completed
	Kind  tidemill.Kind // of the failure
	Takes bool          // the handler is for events of this type; else it was not called
}

// Then says in a word what follows: completed, ignored (no handler is for it), skipped, dead,
// or retried.
func (o Outcome) Then() string {
	switch {
	case !o.Takes && o.Err == nil:
		return "ignored"
	case o.Err == nil:
		return "completed"
	}
	switch Rules().For(o.Kind).Do {
	case policy.Skip:
		return "skipped"
	case policy.Dead:
		return "dead"
	}
	return "retried"
}

// Try runs one event through a handler as a system does, with its timeout and its treatment of
// panics, but without queue, sync log and profiles: the test of a handler is one call. The
// error says that the Spec is invalid.
func Try(ctx context.Context, s Spec, raw []byte, who Who) (Outcome, error) {
	set, err := NewSet(nil, s)
	if err != nil {
		return Outcome{}, fmt.Errorf("try a handler: %w", err)
	}
	c := &Call{Profile: who.Profile, New: who.New, Attempt: cmp.Or(who.Attempt, 1)}
	if err := event.Decode(raw, &c.Event); err != nil {
		return Outcome{Err: err, Kind: tidemill.KindOf(err)}, nil
	}
	spec, _, ok := set.Find(c.Event.Type)
	if !ok {
		return Outcome{}, nil
	}
	var r Runner
	out := Outcome{Takes: true}
	if errs := r.Run(ctx, spec, []*Call{c}); errs != nil {
		out.Err, out.Kind = errs[0], tidemill.KindOf(errs[0])
	}
	return out, nil
}
