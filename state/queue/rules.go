package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
)

// Lease is how long a hand-out lasts where Options do not say.
const Lease = 30 * time.Second

// Check refuses a message that cannot be a job: one without a queue to go to, or without a
// name. Every backend calls it before it stores any job of a batch.
func Check(m *tidemill.Message) error {
	switch {
	case m.To == "":
		return tidemill.Fail(tidemill.Validation, "add job %q: name its queue in To", m.ID)
	case m.ID == "":
		return tidemill.Fail(tidemill.Validation, "add a job to queue %q: give it an ID", m.To)
	}
	return nil
}

// FullError is the error of a full queue: kind rate_limit.
func FullError(queue string) error {
	return tidemill.Fail(tidemill.RateLimit, "queue %q is full: let it drain, or raise its capacity", queue)
}

// Errors of a Mover and of a queue that is drained.
var (
	ErrNotFound = errors.New("there is no such job")
	ErrOut      = errors.New("somebody works on the job: wait for its end, or for its lease to end")
	ErrChanged  = errors.New("the payload was changed since it was read: read the job again, and edit what it is now")
	ErrClosed   = errors.New("the queue is being drained and takes no new jobs")
)

// ClosedError is the error of a queue that is drained: ErrClosed with kind rate_limit.
func ClosedError(queue string) error {
	return tidemill.Fail(tidemill.RateLimit, "queue %q: %w", queue, ErrClosed)
}

// NotFound is the error for a name without a job: ErrNotFound with kind not_found.
func NotFound(n Name) error {
	return tidemill.Fail(tidemill.NotFound, "job %q of tenant %q in queue %q: %w", n.ID, n.Tenant, n.Queue, ErrNotFound)
}

// Out is the error for a leased job: ErrOut with kind transient.
func Out(n Name) error {
	return tidemill.Fail(tidemill.Transient, "job %q of tenant %q in queue %q: %w", n.ID, n.Tenant, n.Queue, ErrOut)
}

// Version of a job: another payload gives it another one. What is not edited, like its state, is
// no part of it.
func Version(m *tidemill.Message) string {
	return wire.Fingerprint([]byte(m.Tenant), []byte(m.ID), m.Payload)
}

// Matches says whether the filter chooses a job; the caller applies Max.
func (f *Filter) Matches(j *Job) bool {
	if !f.Before.IsZero() {
		at := j.Added
		if !j.State.Held() {
			at = j.Ended
		}
		if !at.Before(f.Before) {
			return false
		}
	}
	return (f.Queue == "" || f.Queue == j.To) &&
		(f.Tenant == "" || f.Tenant == j.Tenant) &&
		(f.Type == "" || f.Type == j.Type) &&
		(f.State == j.State || f.State == "" && j.State.Held()) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, j.ID)) &&
		f.follows(j.Mark)
}

// Follows says whether a job is of a state that the filter lists, and comes after After: stores find
// those in their order, and the others among them by looking at each.
func (f *Filter) Follows(j *Job) bool {
	return (f.State == j.State || f.State == "" && j.State.Held()) && f.follows(j.Mark)
}

// follows says whether a job at a position comes after After, the way that the filter lists.
func (f *Filter) follows(at tidemill.Mark) bool {
	if f.After == (tidemill.Mark{}) {
		return true
	}
	c := cmp.Or(cmp.Compare(at.Hi, f.After.Hi), cmp.Compare(at.Lo, f.After.Lo))
	return c > 0 && !f.Back || c < 0 && f.Back
}

// Millis is the precision in which queues keep times: whole milliseconds, UTC.
func Millis(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// MillisUp is the first whole millisecond that is not before t: a job does not come back
// before its time.
func MillisUp(t time.Time) time.Time {
	m := Millis(t)
	if m.Before(t) {
		m = m.Add(time.Millisecond)
	}
	return m
}

// CheckKnows refuses invalid input of Register.Knows.
func CheckKnows(ctx context.Context, names []Name, known []bool) error {
	if len(known) != len(names) {
		return fmt.Errorf("look for %d names: room for %d answers", len(names), len(known))
	}
	return ctx.Err()
}
