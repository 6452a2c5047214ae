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

// tell logs what became of an attempt, in the fields of the program that this replaces.
func (s *System) tell(ctx context.Context, a *Attempt) {
	level := slog.LevelInfo
	if a.Status == Failed {
		level = slog.LevelError
	}
	log := s.o.Log
	if !log.Enabled(ctx, level) {
		return
	}
	profile, took := "", float64(a.Took.Microseconds())/1000
	if a.Profile != uuid.Nil {
		profile = a.Profile.String()
	}
	switch a.Status {
	case Skipped:
		// Logged when an event of the CRM was skipped: no handler is for it, it was completed before, or its
		// replay was stopped.
		log.LogAttrs(ctx, slog.LevelInfo, "Event skipped", slog.String("eventId", a.ID), slog.String("eventType", a.Type), slog.String("tenantId", a.Tenant),
			some("profileId", profile), flag("isNewProfile", a.New, profile), slog.Float64("duration", took), slog.String("reason", a.Reason), some("replay", a.Replay))
	case Failed:
		stack := ""
		if p, ok := errors.AsType[*handler.Panic](a.Err); ok {
			stack = string(p.Stack)
		}
		// Logged at each failed try of an event of the CRM; `dead` says whether it was the last, and the event
		// is a dead letter.
		// To do: if `dead`, mend what the error names, and replay it (`tidemill dead replay`); else nothing:
		// it is tried again.
		log.LogAttrs(ctx, slog.LevelError, "Event processing failed", slog.String("eventId", a.ID), slog.String("eventType", a.Type), slog.String("tenantId", a.Tenant),
			some("profileId", profile), flag("isNewProfile", a.New, profile), slog.Float64("duration", took), slog.String("error", a.Err.Error()),
			slog.String("kind", a.Kind.String()), slog.Int("attempt", a.Number), slog.Bool("dead", a.Dead), some("stack", stack), some("replay", a.Replay))
	default:
		// Logged when an event of the CRM was accepted by its handler.
		log.LogAttrs(ctx, slog.LevelInfo, "Event processed", slog.String("eventId", a.ID), slog.String("eventType", a.Type), slog.String("tenantId", a.Tenant),
			some("profileId", profile), flag("isNewProfile", a.New, profile), slog.Float64("duration", took), some("replay", a.Replay))
	}
}

// some is a field that is left out where it has nothing: handlers drop an empty one.
func some(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{}
	}
	return slog.String(key, value)
}

// flag is a field that is left out where its subject is not known.
func flag(key string, is bool, of string) slog.Attr {
	if of == "" {
		return slog.Attr{}
	}
	return slog.Bool(key, is)
}
