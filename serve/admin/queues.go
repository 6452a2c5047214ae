package admin

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/queue"
)

// queueing is what the API does of queues.
func (a *API) queueing() Room {
	return Room{Missing: in(a.Queues != nil, "this instance has no queues to show"), Does: []operation.Handler{
		api.ListQueues.By(a.queues),
		api.GetQueue.By(a.queue),
		api.PauseQueue.By(a.pauseQueue),
		api.ResumeQueue.By(a.resumeQueue),
		api.DrainQueue.By(a.drainQueue),
		api.SetQueue.By(a.setQueue),
		api.ListJobs.CountedBy(a.jobs, a.jobsListed),
		api.GetJob.By(a.job),
		api.GetJobPayload.By(a.jobPayload),
		api.EditJob.By(a.editJob),
		api.RetryJobs.By(a.moveJobs(api.JobsRetry)),
		api.PromoteJobs.By(a.moveJobs(api.JobsPromote)),
		api.RemoveJobs.By(a.moveJobs(api.JobsRemove)),
		api.CleanJobs.By(a.moveJobs(api.JobsClean)),
		api.ListOwners.By(a.owners),
		api.GetOwner.By(a.owner),
	}}
}

// statusOfQueue reads what there is to know without looking at jobs, the settings, and what waits of
// each priority.
func (a *API) statusOfQueue(ctx context.Context, name string) (out api.Queue, err error) {
	out, settings, err := a.countsOfQueue(ctx, name)
	if err != nil {
		return out, err
	}
	depths, err := a.Queues.Depths(ctx, name)
	for _, d := range depths {
		out.Priorities = append(out.Priorities, api.PriorityDepth{Priority: d.Priority, Waiting: d.Waiting, Oldest: d.Oldest.UTC()})
	}
	out.Settings, out.ETag = &settings, settings.Version()
	return out, err
}

// countsOfQueue reads the counters of a queue, and its settings, which it does not show.
func (a *API) countsOfQueue(ctx context.Context, name string) (out api.Queue, settings queue.Settings, err error) {
	st, err := a.Queues.Stats(ctx, name)
	if err == nil {
		settings, err = a.Queues.Settings(ctx, name)
	}
	if err != nil {
		return out, settings, err
	}
	return a.countsOf(&queue.Standing{Queue: name, Stats: st, Settings: settings}), settings, nil
}

// countsOf are the counters of a queue, as it stands.
func (a *API) countsOf(q *queue.Standing) api.Queue {
	st := &q.Stats
	out := api.Queue{Name: q.Queue, Waiting: st.Waiting, Delayed: st.Delayed, Leased: st.Leased, Completed: st.Completed, Failed: st.Failed,
		Oldest: answer.When(st.Oldest), Paused: q.Settings.Paused, Closed: q.Settings.Closed}
	out.Rates, out.Until = a.ratesOf(queueSeries+q.Queue), answer.When(q.Settings.PausedUntil)
	if !st.Oldest.IsZero() {
		out.Age = max(0, time.Since(st.Oldest).Seconds())
	}
	return out
}

func (a *API) queues(ctx context.Context, _ *operation.None) (iter.Seq2[api.Queue, error], error) {
	standing, err := a.Queues.Standing(ctx)
	if err != nil {
		return nil, err
	}
	may := sightOf(ctx)
	among, whole := a.there(ctx)
	all := make([]api.Queue, 0, len(standing))
	for i := range standing {
		if q := &standing[i]; may.all() || may.of(a.systemOf(q.Queue)) {
			all = append(all, a.countsOf(q))
			work(&all[len(all)-1], among, whole)
		}
	}
	return answer.Listed(all, func(q *api.Queue) api.Queue { return *q }), nil
}

func (a *API) queue(ctx context.Context, q *api.OneQueue) (out api.Queue, err error) {
	if err := a.hasQueue(ctx, q.Queue); err != nil {
		return out, err
	}
	if out, err = a.statusOfQueue(ctx, q.Queue); err != nil {
		return out, err
	}
	among, all := a.there(ctx)
	work(&out, among, all)
	tenants, _, err := latest(ctx, a.standing.deepest.Of(q.Queue))
	for _, d := range tenants {
		out.Tenants = append(out.Tenants, api.TenantDepth{Tenant: d.Tenant, Waiting: d.Waiting, Oldest: d.Oldest.UTC(), Holds: holds(out.Settings, d.Tenant)})
	}
	return out, err
}

// hasQueue refuses a queue that there is not: it is somebody's typing error.
func (a *API) hasQueue(ctx context.Context, name string) error {
	may := sightOf(ctx)
	names, err := a.queueNames(ctx, may.looking())
	if err == nil && !slices.Contains(names, name) {
		err = operation.Refuse(http.StatusNotFound, "there is no queue %q; there are %s", name, answer.Named(name, names))
	}
	if err != nil {
		return err
	}
	return may.refuse(a.systemOf(name), "queue", name)
}

func (a *API) resumeQueue(ctx context.Context, q *api.OneQueue) (api.Queue, error) {
	return a.steerQueue(ctx, q.Queue, "resume", func(s *queue.Settings) { s.Paused, s.PausedUntil, s.Closed = false, time.Time{}, false })
}

func (a *API) drainQueue(ctx context.Context, q *api.OneQueue) (api.Queue, error) {
	if err := a.hasQueue(ctx, q.Queue); err != nil {
		return api.Queue{}, err
	}
	if err := a.mayClose(q.Queue); err != nil {
		return api.Queue{}, err
	}
	return a.steerQueue(ctx, q.Queue, "drain", func(s *queue.Settings) { s.Closed = true })
}

// mayClose refuses to drain the queue of a partner that is configured: an event is routed to
// all of its partners in one transaction, which would wait for that queue, and with it the events
// of every other partner.
func (a *API) mayClose(name string) error {
	for _, p := range a.partnerNames() {
		if name == a.queueOf(p) {
			return operation.Refuse(http.StatusConflict, "while %s takes no jobs no event is routed, to other partners neither: pause it, or give partner %s `when: \"false\"` and reload: it gets nothing new then, and what waits is delivered", name, p)
		}
	}
	return nil
}

func (a *API) steerQueue(ctx context.Context, name, what string, change func(*queue.Settings)) (api.Queue, error) {
	if err := a.hasQueue(ctx, name); err != nil {
		return api.Queue{}, err
	}
	var before queue.Settings
	after, err := a.Queues.Set(ctx, name, func(s *queue.Settings) { before = *s; change(s) })
	if err != nil {
		return api.Queue{}, answer.Answerable(err)
	}
	a.standing.queues.Changed()
	operation.Note(ctx, before, after)
	// Logged when somebody paused, resumed or drained a queue.
	a.Log.InfoContext(ctx, "queue steered by hand", "queue", name, "what", what)
	return a.statusOfQueue(ctx, name)
}

func (a *API) setQueue(ctx context.Context, q *api.QueueChange) (is queue.Settings, err error) {
	if err := a.hasQueue(ctx, q.Queue); err != nil {
		return is, err
	}
	was, err := a.Queues.Settings(ctx, q.Queue)
	if err != nil {
		return is, err
	}
	to, err := merge(was, q.Body)
	if _, said := errors.AsType[*operation.Problem](err); err != nil && !said {
		err = operation.Refuse(http.StatusBadRequest, "%v", err)
	}
	if err != nil {
		return is, err
	}
	if to.Closed && !was.Closed {
		if err := a.mayClose(q.Queue); err != nil {
			return is, err
		}
	}
	var wrong error
	is, err = a.Queues.Set(ctx, q.Queue, func(s *queue.Settings) {
		if wrong = nil; q.IfMatch != "" && q.IfMatch != s.Version() {
			wrong = operation.Refuse(http.StatusPreconditionFailed, "the settings of queue %s were changed since they were read: read them again, and change what they are now", q.Queue)
		} else if to, err := merge(*s, q.Body); err != nil { // somebody else's change meanwhile made it so
			wrong = operation.Refuse(http.StatusConflict, "%v", err)
		} else {
			was = *s
			*s = to
		}
	})
	if err != nil {
		return is, answer.Answerable(err)
	}
	if wrong != nil {
		return is, wrong
	}
	a.standing.queues.Changed()
	operation.Note(ctx, was, is)
	// Logged when somebody changed settings of a queue; `change` has the first 500 bytes of what was
	// sent.
	a.Log.InfoContext(ctx, "queue set by hand", "queue", q.Queue, "change", string(q.Body[:min(len(q.Body), 500)]))
	return is, nil
}

// merge applies a merge patch to settings and refuses what is none.
func merge(s queue.Settings, patch []byte) (to queue.Settings, err error) {
	var change any
	if err := json.Unmarshal(patch, &change); err != nil {
		return to, errors.New("the body is no JSON: send the settings to change, like {\"limit\":{\"per_second\":50}}")
	}
	if _, ok := change.(map[string]any); !ok {
		return to, errors.New("the body is no JSON object: send the settings to change, like {\"limit\":{\"per_second\":50}}")
	}
	if err := operation.Known(reflect.TypeFor[queue.Settings](), patch); err != nil {
		return to, err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return to, err
	}
	var whole any
	if err := json.Unmarshal(b, &whole); err != nil {
		return to, err
	}
	if b, err = json.Marshal(config.Merged(whole, change)); err != nil {
		return to, err
	}
	if err := json.Unmarshal(b, &to); err != nil {
		return to, errors.New("these are no settings of a queue: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	return to, to.Check()
}
