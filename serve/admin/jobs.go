package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/queue"
)

// jobsOf reads which jobs of a queue are meant, without their state.
func (a *API) jobsOf(ctx context.Context, name string, ids []string, q *api.Jobs) (f queue.Filter, err error) {
	if err := a.hasQueue(ctx, name); err != nil {
		return f, err
	}
	f = queue.Filter{Queue: name, Tenant: q.Tenant, Type: q.Type, IDs: ids, Max: q.Max}
	_, f.Before, err = answer.Span(api.Span{Until: q.Until})
	return f, err
}

// showJob shows a job, and whose it is.
func (a *API) showJob(j *queue.Job, whole bool) api.Job {
	out := answer.ShowJob(j, whole)
	out.System = a.systemOf(j.To)
	return out
}

// showWholeJob shows a job with its payload, and whether that is covered.
func (a *API) showWholeJob(ctx context.Context, j *queue.Job) api.Job {
	out := a.showJob(j, true)
	out.Covered = operation.Covers(ctx, out, j.Payload)
	return out
}

// jobs lists a queue's jobs: those of a state, or all that have not ended.
func (a *API) jobs(ctx context.Context, q *api.JobFilter) (iter.Seq2[api.Job, error], error) {
	f, err := a.jobsOf(ctx, q.Queue, q.IDs, &q.Jobs)
	if err != nil {
		return nil, err
	}
	if f.Max, err = q.Most(q.Max); err != nil {
		return nil, err
	}
	f.State, f.After, f.Back = queue.State(q.State), markAt(q.After()), q.Back()
	if q.Limit > 0 { // lines are all that match, however many are looked at
		f.Look = jobsLooked.most / 10
	}
	return a.listed(ctx, f), nil
}

// jobsLooked bounds a page of jobs, which may take 100 ms.
var jobsLooked = lookBound{10_000, 40 * time.Millisecond}

// listed lists the jobs of a filter. If that has a Look, the listing goes on behind each rest, until so
// many were looked at, or for so long, as a page may.
func (a *API) listed(ctx context.Context, f queue.Filter) iter.Seq2[api.Job, error] {
	return func(yield func(api.Job, error) bool) {
		f, look, left := f, jobsLooked.begin(a.Now), f.Max
		for {
			var rest *queue.Rest
			for j, err := range a.Queues.List(ctx, f) {
				var early bool
				if rest, early = errors.AsType[*queue.Rest](err); early {
					break
				}
				var out api.Job
				if err == nil {
					out = a.showJob(j, false)
					out.Position = positionOf(j.Mark)
					left--
				}
				if !yield(out, answer.Answerable(err)) || err != nil {
					return
				}
			}
			if rest == nil || f.Max > 0 && left == 0 {
				return
			}
			if look.enough(rest.Looked) {
				yield(api.Job{}, look.rest(positionOf(rest.After)))
				return
			}
			f.After, f.Max = rest.After, left
		}
	}
}

// positionOf is where a job is in a listing.
func positionOf(m tidemill.Mark) string { return fmt.Sprintf("%d/%d", m.Hi, m.Lo) }

// jobsListed counts what jobs lists.
func (a *API) jobsListed(ctx context.Context, q *api.JobFilter, most int) (n int, err error) {
	f, err := a.jobsOf(ctx, q.Queue, q.IDs, &q.Jobs)
	if err != nil {
		return 0, err
	}
	f.State, f.Max = queue.State(q.State), most
	return a.countJobs(ctx, f)
}

// markAt is the mark of the job with a position; zero: without one.
func markAt(position string) (m tidemill.Mark) {
	_, _ = fmt.Sscanf(position, "%d/%d", &m.Hi, &m.Lo) // it was written so
	return m
}

// job shows one job.
func (a *API) job(ctx context.Context, q *api.OneJob) (api.Job, error) {
	j, err := a.jobOf(ctx, q)
	if err != nil {
		return api.Job{}, err
	}
	return a.showWholeJob(ctx, j), nil
}

// jobOf finds a job. Without a tenant it is looked for among all, which takes longer, and has to be
// one.
func (a *API) jobOf(ctx context.Context, q *api.OneJob) (*queue.Job, error) {
	name, id := q.Queue, q.Job
	if err := a.hasQueue(ctx, name); err != nil {
		return nil, err
	}
	if id == "" {
		return nil, operation.Refuse(http.StatusBadRequest, "say which job: id=…, and tenant=… where it has one")
	}
	if q.Tenant != nil {
		j, err := a.Queues.Look(ctx, queue.Name{Queue: name, Tenant: *q.Tenant, ID: id})
		return j, answer.Answerable(err)
	}
	var found *queue.Job
	for _, s := range []queue.State{"", queue.Completed, queue.Failed} {
		for j, err := range a.Queues.List(ctx, queue.Filter{Queue: name, IDs: []string{id}, State: s, Max: 2}) {
			if err != nil {
				return nil, err
			}
			if found != nil && found.Tenant != j.Tenant {
				return nil, operation.Refuse(http.StatusConflict, "jobs of several tenants have the id %s, of %q and %q: say which tenant", id, found.Tenant, j.Tenant)
			}
			if found == nil || j.Added.After(found.Added) {
				found = j
			}
		}
	}
	if found == nil {
		return nil, operation.Refuse(http.StatusNotFound, "there is no job %s in queue %s: it has ended or was removed, or never came; `tidemill find` looks everywhere", id, name)
	}
	return found, nil
}

// jobPayload is the payload of a job.
func (a *API) jobPayload(ctx context.Context, q *api.OneJob) (out operation.Payload, err error) {
	j, err := a.jobOf(ctx, q)
	if err != nil {
		return out, err
	}
	return operation.PayloadOf(ctx, a.showJob(j, false), j.ID, queue.Version(&j.Message), j.Payload)
}

// editJob replaces the payload of a job.
func (a *API) editJob(ctx context.Context, q *api.JobEdit) (out api.Job, err error) {
	payload, err := q.Payload()
	if err != nil {
		return out, err
	}
	j, err := a.jobOf(ctx, &q.OneJob)
	if err != nil {
		return out, err
	}
	if err := operation.CoveredStays(ctx, a.showJob(j, false), payload); err != nil {
		return out, err
	}
	if err := a.decodes("a worker", j.To, j.Message, payload); err != nil {
		return out, err
	}
	n := queue.Name{Queue: j.To, Tenant: j.Tenant, ID: j.ID}
	if q.IfMatch, err = operation.Seen(ctx, a.showJob(j, false), q.IfMatch); err != nil {
		return out, err
	}
	if err := a.Queues.Edit(ctx, n, payload, q.IfMatch); err != nil {
		return out, answer.Answerable(err)
	}
	// Logged when somebody replaced the payload of a waiting job.
	a.Log.InfoContext(ctx, "job edited by hand", "queue", n.Queue, "job", n.ID, "bytes", len(payload))
	if j, err = a.Queues.Look(ctx, n); err != nil {
		return out, answer.Answerable(err)
	}
	return a.showWholeJob(ctx, j), nil
}

// moveJobs makes a change of the jobs that a request chooses.
func (a *API) moveJobs(what string) func(context.Context, *api.JobMove) (api.Counted, error) {
	return func(ctx context.Context, q *api.JobMove) (out api.Counted, err error) {
		return a.move(ctx, what, q.Things(), q.DryRun)
	}
}

// someJobs are the jobs to change, of the states that the change is for.
func (a *API) someJobs(ctx context.Context, what string, q *api.OperationThings) (many, error) {
	f, err := a.jobsOf(ctx, q.Queue, q.IDs, &api.Jobs{Tenant: q.Tenant, Type: q.Type, Until: q.Until, Max: q.Max})
	if err != nil {
		return nil, err
	}
	of := &someJobs{a: a, f: f, do: a.Queues.Remove}
	state, all := q.State, q.All
	switch what {
	case api.JobsRetry:
		of.states, of.do, of.waits = []queue.State{queue.Failed}, a.Queues.Retry, true
	case api.JobsPromote:
		of.states, of.do, of.waits = []queue.State{queue.Delayed}, a.Queues.Promote, true
	case api.JobsRemove:
		of.states = []queue.State{queue.Waiting, queue.Delayed}
	case api.JobsClean:
		of.states, state, all = cleaned(state, all)
	}
	_, verb, _ := strings.Cut(what, ".")
	chosen := of.states
	if s := queue.State(state); s != "" {
		if chosen = []queue.State{s}; !slices.Contains(of.states, s) {
			return nil, operation.Refuse(http.StatusBadRequest, "state=%q: %s is for those of the states %q", s, verb, of.states)
		}
	}
	if len(f.IDs) == 0 && f.Tenant == "" && f.Type == "" && f.Before.IsZero() && f.Max == 0 && len(chosen) == len(of.states) && !all {
		return nil, operation.Refuse(http.StatusBadRequest, "say which jobs to %s: ids, a filter, or all, which are those of the states %q", verb, of.states)
	}
	of.states = chosen
	return of, nil
}

// cleaned are the states of jobs that are forgotten: those that have ended. The others are taken out
// too where state names theirs (waiting, which may be called wait, or delayed) or is all.
func cleaned(state string, all bool) ([]queue.State, string, bool) {
	of := []queue.State{queue.Completed, queue.Failed}
	if state != "" {
		of = append(of, queue.Delayed, queue.Waiting)
	}
	switch state {
	case "wait":
		state = string(queue.Waiting)
	case "all":
		state, all = "", true
	}
	return of, state, all
}

// countJobs says how many jobs of one state there are, or of all that have not ended; where nothing else is asked for,
// without looking at each.
func (a *API) countJobs(ctx context.Context, f queue.Filter) (n int, err error) {
	if len(f.IDs) == 0 && f.Tenant == "" && f.Type == "" && f.Before.IsZero() {
		st, err := a.Queues.Stats(ctx, f.Queue)
		if err != nil {
			return 0, err
		}
		n = int(map[queue.State]int64{"": st.Waiting + st.Delayed + st.Leased, queue.Waiting: st.Waiting, queue.Delayed: st.Delayed, queue.Leased: st.Leased,
			queue.Completed: st.Completed, queue.Failed: st.Failed}[f.State])
		if f.Max > 0 {
			n = min(n, f.Max)
		}
		return n, nil
	}
	for _, err := range a.Queues.List(ctx, f) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
