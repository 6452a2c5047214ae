package crm

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// Where an event may be.
const (
	Queued     = "queued"     // it waits for its turn
	Processing = "processing" // a handler has it
	Retrying   = "retrying"   // it failed, or its worker died, and it is tried again
	Completed  = "completed"
	Skipped    = "skipped" // nothing was to be done with it
	Failed     = "failed"  // for good: trying again would not help
	Dead       = "dead"    // for good: a dead letter is kept
)

// StateOf says in a word where an event is.
func StateOf(e *crm.EventStatus) string {
	r, job := e.Record, e.Job
	held := job != nil && job.State.Held()
	again := e.Dead != nil && e.Dead.State == deadletter.Replaying
	switch {
	case r == nil && again:
		return Retrying
	case r == nil && e.Dead != nil:
		return Dead
	case r == nil:
		return stateOfJob(job)
	case r.State == crm.IsCompleted:
		return Completed
	case r.State == crm.Processing && (held && job.State != queue.Leased):
		return Retrying
	case r.State == crm.Processing:
		return Processing
	case again, e.Dead == nil && held:
		return Retrying
	case e.Dead != nil:
		return Dead
	case r.Kind == Skipped:
		return Skipped
	}
	return Failed
}

// stateOfJob is where an event is of which there is nothing but its job.
func stateOfJob(j *queue.Job) string {
	switch {
	case j == nil:
		return Failed
	case j.State == queue.Leased:
		return Processing
	case j.State.Held() && len(j.Failures) > 0:
		return Retrying
	case j.State.Held():
		return Queued
	case j.Fate == tidemill.Delivered:
		return Completed
	case j.Fate == tidemill.Skipped:
		return Skipped
	}
	return Failed
}

// status is where an event is, as its tenant may see it. What handlers said of it is for
// operators.
type status struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenantId"`
	Type      string    `json:"type,omitempty"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason,omitempty"` // the kind of its last failure
	Attempts  int       `json:"attempts"`
	Received  time.Time `json:"receivedAt,omitzero"`
	Started   time.Time `json:"startedAt,omitzero"` // the newest attempt
	Completed time.Time `json:"completedAt,omitzero"`
	Failed    time.Time `json:"failedAt,omitzero"`
	Next      time.Time `json:"nextAttemptAt,omitzero"`
}

func statusOf(tenant, id string, e *crm.EventStatus) status {
	out := status{ID: id, Tenant: tenant, Status: StateOf(e)}
	if d := e.Dead; d != nil {
		out.Type, out.Reason, out.Failed = d.Type, d.Kind.String(), utc(d.Last)
	}
	if j := e.Job; j != nil {
		out.Type, out.Received = j.Type, utc(j.Added)
		if n := len(j.Failures); n > 0 {
			out.Reason = j.Failures[n-1].Kind.String()
		}
		if j.State == queue.Delayed {
			out.Next = utc(j.At)
		}
	}
	if r := e.Record; r != nil {
		out.Type, out.Attempts, out.Started, out.Completed, out.Failed = r.Type, r.Attempts, utc(r.Started), utc(r.Completed), utc(r.Failed)
		if out.Received.IsZero() {
			out.Received = utc(r.Created)
		}
		if r.Kind != "" {
			out.Reason = r.Kind
		}
	}
	if out.Status == Completed {
		out.Reason = ""
	}
	return out
}

// utc is a time in UTC; the zero time stays.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// status answers where an event of the key's tenant is.
func (x *exchange) status(part string) *answer.Problem {
	if x.h.o.Events == nil {
		return answer.NotFound("where events are is not known here")
	}
	if p := x.authenticate(); p != nil {
		return p
	}
	id, ok := unescaped(part)
	if !ok || len(id) > event.MaxID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return answer.NotFound("there is no such event")
	}
	e, err := x.h.o.Events.Event(x.r.Context(), x.tenant, id)
	if err != nil && tidemill.KindOf(err) == tidemill.NotFound {
		return answer.NotFound("there is no such event, or it is no longer known")
	}
	var b []byte
	if err == nil {
		b, err = json.Marshal(statusOf(x.tenant, id, e))
	}
	if err != nil {
		x.h.o.Log.WarnContext(x.r.Context(), "where an event is cannot be said", "tenantId", x.tenant, "error", err)
		return answer.Busy("where the event is cannot be said now, please retry")
	}
	x.answer(http.StatusOK, b)
	return nil
}
