package crm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
)

// States of an event in the sync log.
const (
	Processing  = "PROCESSING"
	IsCompleted = "COMPLETED"
	IsFailed    = "FAILED"
)

// Record is what the sync log has of an event.
type Record struct {
	Tenant, ID, Type string
	State            string
	Kind             string // of the failure; "skipped": no handler wanted it
	Error            string
	Attempts         int // how often it was begun, also by replays
	Created          time.Time
	Started          time.Time // the newest attempt
	Completed        time.Time // zero: not, or not since it was begun again
	Failed           time.Time // zero: not, or not since it was begun again
	Payload          []byte    // the event as it was received
}

// recordOf reads an entry of the sync log.
func recordOf(e *ledger.Entry) *Record {
	r := &Record{Tenant: e.Tenant, Type: e.Type, Attempts: e.Tries, Created: e.Created, Started: e.Started, Payload: e.Payload, State: Processing}
	if _, id, ok := strings.Cut(e.Key, "/"); ok {
		r.ID = id
	}
	switch e.State {
	case ledger.Done:
		r.State, r.Completed = IsCompleted, e.Ended
	case ledger.Failed, ledger.Held:
		r.State, r.Failed = IsFailed, e.Ended
	}
	if kind, why, ok := strings.Cut(e.Err, ": "); ok && r.State == IsFailed {
		r.Kind, r.Error = kind, why
	}
	return r
}

// RecordFilter chooses records by the time when their events were first taken up, both ends
// included; zero fields match all.
type RecordFilter struct {
	From, To     time.Time
	Tenant, Type string
	State        string
	Back         bool    // from the newest to the oldest
	After        *Record // only what is behind it: the last record of a page, of which Tenant, ID and Created count
	Max          int
}

// Records yields the sync log's entries, by time of first receipt, or back.
func (s *System) Records(ctx context.Context, f RecordFilter) iter.Seq2[*Record, error] {
	states := map[string]ledger.State{"": 0, Processing: ledger.Running, IsCompleted: ledger.Done, IsFailed: ledger.Failed}
	return func(yield func(*Record, error) bool) {
		state, ok := states[f.State]
		if !ok {
			yield(nil, tidemill.Fail(tidemill.Validation, "list the sync log: want a state of %s, %s and %s", Processing, IsCompleted, IsFailed))
			return
		}
		lf := ledger.Filter{From: f.From, To: f.To, Tenant: f.Tenant, Type: f.Type, State: state, Back: f.Back, Max: f.Max}
		if r := f.After; r != nil {
			at := &lf.From
			if f.Back {
				at = &lf.To
			}
			*at, lf.After = r.Created, keyOf(r.Tenant, r.ID)
		}
		for e, err := range s.p.Log.Range(ctx, lf) {
			if err != nil {
				yield(nil, fmt.Errorf("list the sync log: %w", err))
				return
			}
			if !yield(recordOf(e), nil) {
				return
			}
		}
	}
}

// EventStatus is where an event is.
type EventStatus struct {
	Record *Record            // nil: it was not taken up yet, or is forgotten
	Job    *queue.Job         // its own; nil: the queue does not know it (any more)
	Dead   *deadletter.Letter // nil: it is not dead
}

// ErrNoEvent says that nothing is known of an event.
var ErrNoEvent = errors.New("nothing is known of this event")

// Event says where an event is: ErrNoEvent, of kind not_found, if nothing is known.
func (s *System) Event(ctx context.Context, tenant, id string) (out *EventStatus, err error) {
	out = &EventStatus{}
	if out.Record, err = s.Recorded(ctx, tenant, id); err == nil {
		out.Job, err = s.Queued(ctx, tenant, id)
	}
	if err == nil {
		out.Dead, err = s.Died(ctx, tenant, id)
	}
	if err != nil {
		return nil, fmt.Errorf("look for event %q of tenant %q: %w", id, tenant, err)
	}
	if out.Record == nil && out.Job == nil && out.Dead == nil {
		return nil, tidemill.Fail(tidemill.NotFound, "event %q of tenant %q: %w", id, tenant, ErrNoEvent)
	}
	return out, nil
}
