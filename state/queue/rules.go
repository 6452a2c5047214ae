package queue

import (
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// Lease is how long a hand-out lasts where Options do not say.
const Lease = 30 * time.Second

// Check refuses what is no job: without a queue to go to, or without a name to be known
// by. Every backend asks it before it takes any job of a batch.
func Check(m *tidemill.Message) error {
	switch {
	case m.To == "":
		return tidemill.Fail(tidemill.Validation, "add job %q: name its queue in To", m.ID)
	case m.ID == "":
		return tidemill.Fail(tidemill.Validation, "add a job to queue %q: give it an ID", m.To)
	}
	return nil
}

// CheckEnd refuses what is no settlement of a job: an end without a fate would leave the
// books, and forwarded messages have to be jobs.
func CheckEnd(e *tidemill.Settlement) error {
	if e.End == tidemill.Done && e.Row() == (tidemill.Count{}) {
		return tidemill.Fail(tidemill.Internal, "settle job %q: an end needs a fate", e.ID)
	}
	for _, m := range e.Next {
		if err := Check(m); err != nil {
			return err
		}
	}
	return nil
}

// FullError is the error of a queue that takes no more: kind rate_limit.
func FullError(queue string) error {
	return tidemill.Fail(tidemill.RateLimit, "queue %q is full: let it drain, or raise its capacity", queue)
}

// Matches says whether a job is one that the filter chooses; Max is the caller's.
func (f *Filter) Matches(j *Job) bool {
	return (f.Queue == "" || f.Queue == j.To) &&
		(f.Tenant == "" || f.Tenant == j.Tenant) &&
		(f.Type == "" || f.Type == j.Type) &&
		(f.State == "" || f.State == j.State) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, j.ID))
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
