package crm

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// Status of an attempt that has ended.
type Status string

// How attempts end. Completed: the handler accepted it, or had accepted it before a crash.
// Skipped: it was completed before, no handler is for it, or its replay was stopped. Failed:
// everything else, including a failure that skips the event.
const (
	Completed Status = "completed"
	Skipped   Status = "skipped"
	Failed    Status = "failed"
)

// Attempt is one ended try of an event. A try that a stop cut off, or that could not begin
// because a database is down, is not an attempt: the event comes again.
type Attempt struct {
	Tenant, ID, Type string
	Label            string // of the type, for metrics: from a bounded set
	Status           Status
	Reason           string        // of Skipped
	Kind             tidemill.Kind // of Failed
	Err              error         // of Failed
	Dead             bool          // of Failed: it was the last try
	Took             time.Duration // by identity and handler, all events of one call together
	Profile          uuid.UUID     // zero: it did not get so far
	New              bool          // the profile was made for this event
	Number           int           // of the attempt, from 1
	Replay           string        // the replay that it belongs to; empty: none
}

// finish reports an attempt, if there was one.
func (s *System) finish(ctx context.Context, j *job) {
	t := j.task
	fate, failure := t.Outcome()
	a := Attempt{Tenant: t.Tenant, ID: EventOf(&t.Message), Type: t.Type, Label: s.force.Load().labels.of(t.Type), Took: j.took, Number: t.Tries + 1, Replay: RequestOf(&t.Message)}
	if j.call != nil {
		a.Profile, a.New = j.call.Profile, j.call.New
	}
	switch {
	case failure != nil:
		if a.Kind = tidemill.KindOf(failure); ctx.Err() != nil || a.Kind == tidemill.Partner {
			return
		}
		a.Status, a.Err = Failed, failure
		rule := handler.Rules().For(a.Kind)
		a.Dead = rule.Do == policy.Dead || rule.Do == policy.Retrying && a.Number >= s.o.Attempts
	case fate == tidemill.Skipped:
		a.Status, a.Reason = Skipped, t.Settlement().Cause
	case fate == tidemill.Delivered:
		a.Status = Completed
	default: // it comes again
		return
	}
	s.tell(ctx, &a)
	if s.o.Finished != nil {
		s.o.Finished(a)
	}
}

// tell logs what became of an attempt.
func (s *System) tell(ctx context.Context, a *Attempt) {
	level, message := slog.LevelInfo, "Event processed"
	switch a.Status {
	case Skipped:
		message = "Event skipped"
	case Failed:
		level, message = slog.LevelError, "Event processing failed"
	}
	if !s.o.Log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("eventId", a.ID), slog.String("eventType", a.Type), slog.String("tenantId", a.Tenant))
	if a.Profile != uuid.Nil {
		attrs = append(attrs, slog.String("profileId", a.Profile.String()), slog.Bool("isNewProfile", a.New))
	}
	attrs = append(attrs, slog.Float64("duration", float64(a.Took.Microseconds())/1000))
	switch a.Status {
	case Skipped:
		attrs = append(attrs, slog.String("reason", a.Reason))
	case Failed:
		attrs = append(attrs, slog.String("error", a.Err.Error()), slog.String("kind", a.Kind.String()), slog.Int("attempt", a.Number), slog.Bool("dead", a.Dead))
		if p, ok := errors.AsType[*handler.Panic](a.Err); ok {
			attrs = append(attrs, slog.String("stack", string(p.Stack)))
		}
	}
	if a.Replay != "" {
		attrs = append(attrs, slog.String("replay", a.Replay))
	}
	s.o.Log.LogAttrs(ctx, level, message, attrs...)
}
