package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	door "github.com/tidemill/tidemill/serve/crm"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
)

// crmExplained is where an event is: all that sync log, queue and dead letters have of it.
type crmExplained struct {
	Tenant   string     `json:"tenant"`
	ID       string     `json:"id"`
	Type     string     `json:"type,omitempty"`
	State    string     `json:"state"` // queued, processing, retrying, completed, skipped, failed, dead
	Received *time.Time `json:"received_at,omitempty"`
	Attempts []attempt  `json:"failed_attempts"`  // the oldest first, of all jobs it had as far as they are known
	Record   *crmRecord `json:"record,omitempty"` // of the sync log
	Job      *job       `json:"job,omitempty"`    // its first
	Others   []job      `json:"other_jobs"`       // of retries and replays, those that have not ended
	Letter   *letter    `json:"letter,omitempty"`
}

// crmEvent explains where the event is that ?tenant= and ?id= name.
func (a *API) crmEvent(w http.ResponseWriter, r *http.Request) error {
	tenant, id, err := crmName(r)
	if err != nil {
		return err
	}
	e, err := a.CRM.Event(r.Context(), tenant, id)
	if err != nil {
		return answerable(err)
	}
	out := crmExplained{Tenant: tenant, ID: id, State: door.StateOf(e), Others: []job{}}
	others, err := a.otherJobs(r.Context(), tenant, id, e)
	if err != nil {
		return err
	}
	for _, j := range others {
		out.Others = append(out.Others, showJob(j, true))
	}
	if len(others) > 0 && (out.State == door.Failed || out.State == door.Dead) {
		out.State = door.Retrying
	}
	if l := e.Dead; l != nil {
		shown := show(l, true)
		out.Letter, out.Type = &shown, l.Type
	}
	if j := e.Job; j != nil {
		shown := showJob(j, true)
		out.Job, out.Type, out.Received = &shown, j.Type, when(j.Added)
	}
	if rec := e.Record; rec != nil {
		shown := showRecord(rec, true)
		out.Record, out.Type = &shown, rec.Type
		if out.Received == nil {
			out.Received = when(rec.Created)
		}
	}
	out.Attempts = attemptsOf(e, others)
	write(w, http.StatusOK, out)
	return nil
}

// othersTried is how many jobs of a tenant and type are looked at for those of one event.
const othersTried = 10_000

// otherJobs are those of an event beside its first: of retries and replays. Only what was
// taken up has any.
func (a *API) otherJobs(ctx context.Context, tenant, id string, e *crm.EventStatus) (found []*queue.Job, err error) {
	if a.Queues == nil || e.Record == nil && e.Dead == nil {
		return nil, nil
	}
	f := queue.Filter{Queue: crm.Queue, Tenant: tenant, Max: othersTried}
	if e.Record != nil {
		f.Type = e.Record.Type
	} else {
		f.Type = e.Dead.Type
	}
	for j, err := range a.Queues.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		if j.ID != id && crm.EventOf(&j.Message) == id {
			found = append(found, j)
		}
	}
	return found, nil
}

// attemptsOf are all failed tries of an event that somebody still knows, once each.
func attemptsOf(e *crm.EventStatus, others []*queue.Job) []attempt {
	all := []attempt{}
	add := func(more ...attempt) {
		for _, m := range more {
			if !slices.ContainsFunc(all, func(k attempt) bool { return k.At.Equal(m.At) && k.Cause == m.Cause }) {
				all = append(all, m)
			}
		}
	}
	if e.Job != nil {
		add(attempts(e.Job.Failures)...)
	}
	for _, j := range others {
		add(attempts(j.Failures)...)
	}
	if e.Dead != nil {
		add(attempts(queue.FailuresOf(&e.Dead.Message))...)
		for _, f := range e.Dead.History {
			add(last(f))
		}
	}
	slices.SortStableFunc(all, func(a, b attempt) int { return a.At.Compare(b.At) })
	if r := e.Record; r != nil && r.State == crm.IsFailed && (len(all) == 0 || all[len(all)-1].At.Before(r.Started)) {
		all = append(all, attempt{r.Failed.UTC(), r.Kind, r.Error}) // a failure that was no try of a job, or of one that is forgotten
	}
	return all
}

// last is the try of which a letter's message died.
func last(f deadletter.Failure) attempt { return attempt{f.At.UTC(), f.Kind.String(), f.Cause} }
