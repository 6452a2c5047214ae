// Package rules is what the backends of the queue role share: what a store refuses, what it keeps of
// a job's failures, and what the limits of a queue let go. What applications need is in package
// queue.
package rules

import (
	"bytes"
	"cmp"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// CheckEnd refuses a settlement that cannot end a job: an end without a fate would break
// the books, and forwarded messages have to be jobs.
func CheckEnd(e *tidemill.Settlement) error {
	if e.End == tidemill.Done && e.Row() == (tidemill.Count{}) {
		return tidemill.Fail(tidemill.Internal, "settle job %q: an end needs a fate", e.ID)
	}
	for _, m := range e.Next {
		if err := queue.Check(m); err != nil {
			return err
		}
	}
	return nil
}

// NotEmpty is the error for changing the order of a queue that holds jobs.
func NotEmpty(name string) error {
	return tidemill.Fail(tidemill.Validation, "queue %q holds jobs: its order (Settings.Ordered) can be changed only while it is empty, let it drain first", name)
}

// NoQueue is the error for moving jobs without naming a queue.
func NoQueue() error {
	return tidemill.Fail(tidemill.Validation, "move jobs: name their queue in the filter")
}

// Deeper orders tenants by their waiting jobs, the deepest first.
func Deeper(a, b queue.Depth) int {
	return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Tenant, b.Tenant))
}

// Refused is the error for a job that became Full or Closed, nil for any other.
func Refused(a queue.Added, name string) error {
	switch a {
	case queue.Full:
		return queue.FullError(name)
	case queue.Closed:
		return queue.ClosedError(name)
	}
	return nil
}

// NotOrdered is the error of a source that needs strict order on a queue without it.
func NotOrdered(name string) error {
	return tidemill.Fail(tidemill.Validation, "queue %q: its order was switched off (Settings.Ordered), and this source needs it", name)
}

// CheckEdit refuses to edit a job that has another version than the one that was seen: ErrChanged
// with kind transient. Every backend calls it where nothing else changes the job.
func CheckEdit(name string, m *tidemill.Message, payload []byte, seen string) error {
	if seen == "" || bytes.Equal(m.Payload, payload) || queue.Version(m) == seen {
		return nil
	}
	return tidemill.Fail(tidemill.Transient, "job %q of tenant %q in queue %q: %w", m.ID, m.Tenant, name, queue.ErrChanged)
}
