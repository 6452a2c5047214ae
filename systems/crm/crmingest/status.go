package crmingest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
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
		out.Type, out.Reason, out.Failed = d.Type, d.Kind.String(), endpoint.UTC(d.Last)
	}
	if j := e.Job; j != nil {
		out.Type, out.Received = j.Type, endpoint.UTC(j.Added)
		if n := len(j.Failures); n > 0 {
			out.Reason = j.Failures[n-1].Kind.String()
		}
		if j.State == queue.Delayed {
			out.Next = endpoint.UTC(j.At)
		}
	}
	if r := e.Record; r != nil {
		out.Type, out.Attempts, out.Started, out.Completed, out.Failed = r.Type, r.Attempts, endpoint.UTC(r.Started), endpoint.UTC(r.Completed), endpoint.UTC(r.Failed)
		if out.Received.IsZero() {
			out.Received = endpoint.UTC(r.Created)
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

// status answers where an event of the key's tenant is.
func (x *exchange) status(part string) *request.Problem {
	if x.h.o.Events == nil {
		return request.NotFound("where events are is not known here")
	}
	if p := x.Authenticate(request.Key(x.R)); p != nil {
		return p
	}
	tenant := x.Owner.Project.Name
	id, err := url.PathUnescape(part)
	if err != nil || len(id) > event.MaxID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return request.NotFound("there is no such event")
	}
	e, err := x.h.o.Events.Event(giveway.Waited(x.R.Context()), tenant, id)
	if err != nil && tidemill.KindOf(err) == tidemill.NotFound {
		return request.NotFound("there is no such event, or it is no longer known")
	}
	var b []byte
	if err == nil {
		b, err = json.Marshal(statusOf(tenant, id, e))
	}
	if err != nil {
		x.Unsaid(tenant, err)
		return request.Busy("status", "where the event is cannot be said now, please retry")
	}
	x.JSON(http.StatusOK, b)
	return nil
}
