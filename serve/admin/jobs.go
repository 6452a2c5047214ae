package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/queue"
)

// job is a job of a queue as the API shows it. A payload that is no text is in base64.
type job struct {
	Queue         string      `json:"queue"`
	ID            string      `json:"id"`
	Tenant        string      `json:"tenant,omitempty"`
	Type          string      `json:"type,omitempty"`
	State         queue.State `json:"state"`
	Priority      uint8       `json:"priority"`
	Tries         int         `json:"tries"`  // failed
	Handed        int         `json:"handed"` // handed out
	Key           string      `json:"key,omitempty"`
	KeyBase64     string      `json:"key_base64,omitempty"`
	Time          *time.Time  `json:"time,omitempty"`
	Added         time.Time   `json:"added_at"`
	Due           *time.Time  `json:"due_at,omitempty"` // not to be handed out before
	Ended         *time.Time  `json:"ended_at,omitempty"`
	Fate          string      `json:"fate,omitempty"`
	Cause         string      `json:"cause,omitempty"`
	Payload       string      `json:"payload,omitempty"`
	PayloadBase64 string      `json:"payload_base64,omitempty"`
	Fields        []field     `json:"fields,omitempty"`   // its headers
	Attempts      []attempt   `json:"attempts,omitempty"` // failed tries
}

func showJob(j *queue.Job, whole bool) job {
	out := job{Queue: j.To, ID: j.ID, Tenant: j.Tenant, Type: j.Type, State: j.State, Priority: j.Priority, Tries: j.Tries, Handed: j.Handed,
		Time: when(j.Time), Added: j.Added.UTC(), Ended: when(j.Ended), Cause: j.Cause}
	if j.State == queue.Delayed {
		out.Due = when(j.At)
	}
	if !j.State.Held() {
		out.Fate = j.Fate.String()
	}
	out.Key, out.KeyBase64 = text(j.Key)
	out.Payload, out.PayloadBase64 = text(j.Payload)
	if whole {
		out.Fields, out.Attempts = fields(&j.Message), attempts(j.Failures)
	}
	return out
}

// states of jobs, in the order of a job's life.
var states = []queue.State{queue.Waiting, queue.Delayed, queue.Leased, queue.Completed, queue.Failed}

// jobsOf reads which jobs of a queue are meant: from the query of a listing, or the form of
// a change, without their state.
func (a *API) jobsOf(r *http.Request) (f queue.Filter, err error) {
	if f.Queue, err = a.queueOf(r); err != nil {
		return f, err
	}
	if err := r.ParseForm(); err != nil {
		return f, refused(http.StatusBadRequest, "%v", err)
	}
	f.Tenant, f.Type, f.IDs = r.Form.Get("tenant"), r.Form.Get("type"), r.Form["id"]
	if _, f.Before, err = a.span("", r.Form.Get("until")); err != nil {
		return f, err
	}
	f.Max, err = number(r.Form.Get("max"), "max")
	return f, err
}

// stateOf reads ?state=, of those that are allowed.
func stateOf(r *http.Request, what string, allowed []queue.State) ([]queue.State, error) {
	s := queue.State(r.Form.Get("state"))
	if s == "" {
		return allowed, nil
	}
	if !slices.Contains(allowed, s) {
		return nil, refused(http.StatusBadRequest, "state=%q: %s those of the states %q", s, what, allowed)
	}
	return []queue.State{s}, nil
}

// jobs lists a queue's jobs: those of a state, or all that have not ended.
func (a *API) jobs(w http.ResponseWriter, r *http.Request) error {
	f, err := a.jobsOf(r)
	if err != nil {
		return err
	}
	chosen, err := stateOf(r, "there are", states)
	if err != nil {
		return err
	}
	if len(chosen) == 1 {
		f.State = chosen[0]
	}
	out := stream(w, r)
	for j, err := range a.Queues.List(r.Context(), f) {
		if err != nil {
			return out.end(err)
		}
		if err := out.add(showJob(j, false)); err != nil {
			return out.end(err)
		}
	}
	return nil
}

// job shows one job.
func (a *API) job(w http.ResponseWriter, r *http.Request) error {
	j, err := a.jobOf(r)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, showJob(j, true))
	return nil
}

// jobOf finds the job that ?tenant= and ?id= name. Without a tenant it is looked for among
// all, which takes longer, and has to be one.
func (a *API) jobOf(r *http.Request) (*queue.Job, error) {
	name, err := a.queueOf(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query() // the body may be a payload
	id := q.Get("id")
	if id == "" {
		return nil, refused(http.StatusBadRequest, "say which job: id=…, and tenant=… where it has one")
	}
	if q.Has("tenant") {
		j, err := a.Queues.Look(r.Context(), queue.Name{Queue: name, Tenant: q.Get("tenant"), ID: id})
		return j, answerable(err)
	}
	var found *queue.Job
	for _, s := range []queue.State{"", queue.Completed, queue.Failed} {
		for j, err := range a.Queues.List(r.Context(), queue.Filter{Queue: name, IDs: []string{id}, State: s, Max: 2}) {
			if err != nil {
				return nil, err
			}
			if found != nil && found.Tenant != j.Tenant {
				return nil, refused(http.StatusConflict, "jobs of several tenants have the id %s, of %q and %q: say which tenant", id, found.Tenant, j.Tenant)
			}
			if found == nil || j.Added.After(found.Added) {
				found = j
			}
		}
	}
	if found == nil {
		return nil, refused(http.StatusNotFound, "there is no job %s in queue %s; `tidemill queue jobs %s` shows them", id, name, name)
	}
	return found, nil
}

// editJob replaces the payload of a job by the body of the request.
func (a *API) editJob(w http.ResponseWriter, r *http.Request) error {
	payload, err := payloadOf(w, r)
	if err != nil {
		return err
	}
	j, err := a.jobOf(r)
	if err != nil {
		return err
	}
	n := queue.Name{Queue: j.To, Tenant: j.Tenant, ID: j.ID}
	if err := a.Queues.Edit(r.Context(), n, payload); err != nil {
		return answerable(err)
	}
	a.Log.InfoContext(r.Context(), "job edited by hand", "queue", n.Queue, "id", n.ID, "bytes", len(payload))
	if j, err = a.Queues.Look(r.Context(), n); err != nil {
		return answerable(err)
	}
	write(w, http.StatusOK, showJob(j, true))
	return nil
}

func (a *API) retryJobs(w http.ResponseWriter, r *http.Request) error {
	return a.moveJobs(w, r, "retry", []queue.State{queue.Failed}, a.Queues.Retry)
}

func (a *API) promoteJobs(w http.ResponseWriter, r *http.Request) error {
	return a.moveJobs(w, r, "promote", []queue.State{queue.Delayed}, a.Queues.Promote)
}

func (a *API) removeJobs(w http.ResponseWriter, r *http.Request) error {
	return a.moveJobs(w, r, "remove", []queue.State{queue.Waiting, queue.Delayed}, a.Queues.Remove)
}

// cleanJobs forgets jobs that have ended. Those that have not are taken out too where
// ?state= names theirs (waiting, which may be called wait, or delayed) or is all.
func (a *API) cleanJobs(w http.ResponseWriter, r *http.Request) error {
	of := []queue.State{queue.Completed, queue.Failed}
	if state := r.FormValue("state"); state != "" {
		of = append(of, queue.Delayed, queue.Waiting)
		switch state {
		case "wait":
			r.Form.Set("state", string(queue.Waiting))
		case "all":
			r.Form.Del("state")
			r.Form.Set("all", "true")
		}
	}
	return a.moveJobs(w, r, "clean", of, a.Queues.Remove)
}

// moveJobs changes the chosen jobs of these states; with ?dry_run it only counts them. To
// mean all of them is to say so.
func (a *API) moveJobs(w http.ResponseWriter, r *http.Request, what string, of []queue.State, do func(context.Context, queue.Filter) (int, error)) error {
	f, err := a.jobsOf(r)
	if err != nil {
		return err
	}
	chosen, err := stateOf(r, what+" is for", of)
	if err != nil {
		return err
	}
	all := len(f.IDs) == 0 && f.Tenant == "" && f.Type == "" && f.Before.IsZero() && f.Max == 0 && len(chosen) == len(of)
	if all && r.Form.Get("all") != "true" {
		return refused(http.StatusBadRequest, "say which jobs to %s: ids, a filter, or all, which are those of the states %q", what, of)
	}
	dry := r.Form.Get("dry_run") == "true"
	if dry {
		do = a.countJobs
	}
	total, left := 0, f.Max
	for _, f.State = range chosen {
		f.Max = left
		var n int
		n, err = do(r.Context(), f)
		if total += n; err != nil {
			break
		}
		if f.Max > 0 {
			if left -= n; left <= 0 {
				break
			}
		}
	}
	a.Log.InfoContext(r.Context(), "jobs moved by hand", "queue", f.Queue, "what", what, "count", total, "dry_run", dry)
	if err = answerable(err); err != nil && total > 0 {
		return refused(http.StatusConflict, "after %d jobs: %v", total, err)
	}
	if err != nil {
		return err
	}
	write(w, http.StatusOK, map[string]int{"count": total})
	return nil
}

// countJobs says how many jobs of one state there are; where nothing else is asked for,
// without looking at each.
func (a *API) countJobs(ctx context.Context, f queue.Filter) (n int, err error) {
	if len(f.IDs) == 0 && f.Tenant == "" && f.Type == "" && f.Before.IsZero() {
		st, err := a.Queues.Stats(ctx, f.Queue)
		if err != nil {
			return 0, err
		}
		n = int(map[queue.State]int64{queue.Waiting: st.Waiting, queue.Delayed: st.Delayed, queue.Completed: st.Completed, queue.Failed: st.Failed}[f.State])
		if f.Max > 0 {
			n = min(n, f.Max)
		}
		return n, nil
	}
	for _, err := range a.Queues.List(ctx, f) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
