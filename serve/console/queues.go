package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/queue"
)

// listQueues are the queues, what hurts most first.
func listQueues(v *visit) part[[]api.Queue] {
	return look(v, func(ctx context.Context) (all []api.Queue, err error) {
		for q, err := range api.ListQueues.Each(ctx, v.API, &operation.None{}) {
			if err != nil {
				return all, err
			}
			all = append(all, *q)
		}
		slices.SortStableFunc(all, func(a, b api.Queue) int {
			return cmp.Or(-cmp.Compare(weight(a), weight(b)), -cmp.Compare(a.Waiting+a.Delayed, b.Waiting+b.Delayed), cmp.Compare(a.Name, b.Name))
		})
		return all, nil
	})
}

// oldAfter is when a job that waits is old.
const oldAfter = 15 * time.Minute

// weight is how much a queue hurts.
func weight(q api.Queue) int {
	switch {
	case q.Paused:
		return 3
	case q.Closed:
		return 2
	case q.Waiting > 0 && q.Age > oldAfter.Seconds():
		return 1
	}
	return 0
}

// stateOf is the state of a queue in a word.
func stateOf(q *api.Queue) string {
	switch {
	case q.Paused:
		return "paused"
	case q.Closed:
		return "draining"
	}
	return "running"
}

// State is the state of a queue in a word.
func (v *view) State(q api.Queue) string { return stateOf(&q) }

func showQueues(v *visit) (*view, error) {
	return &view{file: "queues", Title: "Queues", Section: "queues", Live: true, Body: listQueues(v)}, nil
}

// queueCrumbs are those of the pages below a queue.
func queueCrumbs(name string, more ...link) []link {
	return append([]link{{"Queues", address("queues")}, {name, address("queues", name)}}, more...)
}

// queuePage is one queue.
type queuePage struct {
	Queue    api.Queue
	Why      []string // what its jobs wait for
	Settings []setting
	Rates    part[*trend]
	Changes  *part[[]api.Change]
}

type setting struct{ Name, Value, Help string }

func showQueue(v *visit) (*view, error) {
	name := v.r.PathValue("queue")
	q, err := call(v, api.GetQueue, &api.OneQueue{Queue: name})
	if err != nil {
		return nil, err
	}
	pipeline, _, err := pipelineOf(v, name)
	p := &queuePage{Queue: q, Why: append(whyPipeline(pipeline, err), whyQueue(v, &q)...), Settings: settingsOf(q.Settings)}
	p.Rates, p.Changes = trendOf(v, "queue:"+name), lastChanges(v, name)
	return &view{file: "queue", Title: "Queue " + name, Section: "queues", Live: true, Topics: []string{"queue:" + name}, Crumbs: queueCrumbs(name)[:1], Body: p}, nil
}

// pipelineOf is the pipeline of this instance that has a queue's name, and its system; nil: there is none.
func pipelineOf(v *visit, name string) (*api.PipelineStatus, string, error) {
	if !v.may(api.GetStatus.ID) {
		return nil, "", nil
	}
	s, err := call(v, api.GetStatus, &operation.None{})
	for _, sys := range s.Systems {
		for i := range sys.Pipelines {
			if sys.Pipelines[i].Name == name {
				return &sys.Pipelines[i], sys.Name, nil
			}
		}
	}
	return nil, "", err
}

// whyPipeline says what keeps a pipeline from working, in this instance.
func whyPipeline(p *api.PipelineStatus, err error) (why []string) {
	switch {
	case err != nil:
		return []string{"How its pipeline stands could not be read: " + problem(err).Detail}
	case p == nil:
		return nil
	}
	if p.State != "running" {
		why = append(why, "Its pipeline is "+p.State+" in this instance.")
	}
	if p.Breaker != "closed" {
		why = append(why, "The circuit of its pipeline is "+p.Breaker+" in this instance: "+p.Why+".")
	}
	return why
}

// whyQueue says what the jobs of a queue wait for.
func whyQueue(v *visit, q *api.Queue) (why []string) {
	s := q.Settings
	if s == nil {
		s = &queue.Settings{}
	}
	add := func(is bool, format string, args ...any) {
		if is {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	add(q.Paused && s.PausedUntil.IsZero(), "It is paused: jobs come in, and none is handed out until somebody resumes it.")
	add(q.Paused && !s.PausedUntil.IsZero(), "It is paused until %s.", s.PausedUntil.In(v.zone).Format(time.RFC1123))
	add(q.Closed, "It is being drained: it takes no new jobs, and what is there is worked on.")
	add(!s.Off.IsZero(), "Its destination is switched off since %s: it failed since %s.", s.Off.In(v.zone).Format(time.RFC1123), s.FailingSince.In(v.zone).Format(time.RFC1123))
	add(q.Waiting > 0 && q.Leased == 0 && !q.Paused, "Jobs wait and nobody works on any: no instance takes jobs of it now, or a limit holds them back.")
	add(s.Limit != (queue.Limit{}), "All its jobs together have a limit: %s.", limitWords(s.Limit))
	add(s.Tenant != (queue.Limit{}), "Each tenant has a limit: %s.", limitWords(s.Tenant))
	add(s.Key != (queue.Limit{}), "Each key of a tenant has a limit: %s.", limitWords(s.Key))
	add(s.Ordered, "Jobs of a tenant with the same key go one after the other.")
	add(q.Delayed > 0, "%s put off: each has a time before which it is not handed out.", jobs(q.Delayed))
	add(q.Waiting+q.Delayed+q.Leased == 0, "It is empty.")
	return why
}

// jobs counts them in words.
func jobs(n int64) string {
	if n == 1 {
		return "1 job is"
	}
	return number(n) + " jobs are"
}

func limitWords(l queue.Limit) string {
	var words []string
	if l.PerSecond > 0 {
		words = append(words, number(l.PerSecond)+" a second")
	}
	if l.AtOnce > 0 {
		words = append(words, number(l.AtOnce)+" at once")
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func settingsOf(s *queue.Settings) []setting {
	if s == nil {
		return nil
	}
	keep := func(k queue.Keep) string {
		var words []string
		if k.Count > 0 {
			words = append(words, number(k.Count))
		}
		if k.Age > 0 {
			words = append(words, "for "+age(k.Age))
		}
		if len(words) == 0 {
			return "none"
		}
		return strings.Join(words, ", ")
	}
	most := "as many as the store allows"
	if s.Max > 0 {
		most = number(s.Max)
	}
	fair := map[queue.Fairness]string{queue.ByTenant: "tenants take turns", queue.ByKey: "tenants, and within a tenant its keys, take turns", queue.Unfair: "first in, first out"}
	all := []setting{
		{"Limit of the queue", limitWords(s.Limit), "How much is handed out of all its jobs."},
		{"Limit of each tenant", limitWords(s.Tenant), "How much is handed out of one tenant, unless it has a limit of its own."},
		{"Limit of each key", limitWords(s.Key), "How much is handed out of one key of a tenant."},
		{"Who takes turns", fair[s.Fair], "Within a priority."},
		{"Holds at most", most, "Jobs beyond are refused."},
		{"Completed jobs kept", keep(s.Completed), "After they were delivered or skipped."},
		{"Failed jobs kept", keep(s.Failed), "After they died; a dead letter is kept in any case."},
	}
	for _, p := range slices.Sorted(keys(s.Weights)) {
		all = append(all, setting{fmt.Sprintf("Weight of priority %d", p), number(s.Weights[p]), "Its share of what is handed out while several priorities wait."})
	}
	for _, t := range slices.Sorted(keys(s.Tenants)) {
		all = append(all, setting{"Limit of tenant " + t, limitWords(s.Tenants[t]), "Instead of that of each tenant."})
	}
	return all
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// steering is an action on one queue.
func steering(o operation.Operation[api.OneQueue, api.Queue], path, title, button, verb, said string, texts ...string) *action {
	return &action{path: "queues/{queue}/" + path, op: o.ID,
		ask: func(v *visit) (*question, error) {
			name := v.r.PathValue("queue")
			return &question{Title: fmt.Sprintf(title, name), Texts: texts, Button: button, Section: "queues", Crumbs: queueCrumbs(name), Back: v.back(address("queues", name)),
				CLI: command("queue", verb, name), Request: request(o, &api.OneQueue{Queue: name})}, nil
		},
		do: func(v *visit) (string, error) {
			name := v.r.PathValue("queue")
			_, err := change(v, o, &api.OneQueue{Queue: name})
			return done(v.back(address("queues", name)), said), err
		}}
}

var (
	pauseQueue = steering(api.PauseQueue, "pause", "Pause the queue %s?", "Pause the queue", "pause", "paused",
		"It is paused for all instances. Nothing more is handed out; what is being worked on is finished.", "Jobs still come in, and wait until it is resumed.")
	resumeQueue = steering(api.ResumeQueue, "resume", "Resume the queue %s?", "Resume the queue", "resume", "resumed",
		"All instances work on it again. It ends a pause as well as a draining.")
	drainQueue = steering(api.DrainQueue, "drain", "Drain the queue %s?", "Drain the queue", "drain", "draining",
		"It takes no new jobs in any instance: senders are refused until it is resumed. What is there is worked on.")
)

// fields are what the form of a queue's settings asks for.
type fields struct {
	ETag                                   string
	Rate, AtOnce, TenantRate, TenantAtOnce string
}

// setQueue changes the limits of a queue, of what was seen.
var setQueue = &action{path: "queues/{queue}/settings", op: api.SetQueue.ID, ask: askSettings, do: doSettings}

func askSettings(v *visit) (*question, error) {
	name := v.r.PathValue("queue")
	q, err := call(v, api.GetQueue, &api.OneQueue{Queue: name})
	if err != nil {
		return nil, err
	}
	f := &fields{ETag: q.ETag}
	text := func(n float64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	if s := q.Settings; s != nil {
		f.Rate, f.AtOnce = text(s.Limit.PerSecond), text(float64(s.Limit.AtOnce))
		f.TenantRate, f.TenantAtOnce = text(s.Tenant.PerSecond), text(float64(s.Tenant.AtOnce))
	}
	if form := v.r.PostForm; form != nil { // what was given, with what is wrong with it
		f.ETag, f.Rate, f.AtOnce, f.TenantRate, f.TenantAtOnce = form.Get("etag"), form.Get("rate"), form.Get("at_once"), form.Get("tenant_rate"), form.Get("tenant_at_once")
	}
	return &question{Title: "Limits of the queue " + name, Button: "Set the limits", Section: "queues", Crumbs: queueCrumbs(name), Back: address("queues", name), Fields: f,
		Texts: []string{"Limits hold for all instances, at once. What a limit holds back waits, and costs nothing. An empty field is no limit."},
		CLI:   command("queue", "limits", name), Request: "POST " + operation.Prefix + "queues/" + name + "/settings"}, nil
}

func doSettings(v *visit) (string, error) {
	name := v.r.PathValue("queue")
	type limit struct {
		PerSecond *float64 `json:"per_second"` // null takes it away
		AtOnce    *int     `json:"at_once"`
	}
	read := func(rate, atOnce string) (l limit, err error) {
		if s := strings.TrimSpace(v.r.PostFormValue(rate)); s != "" {
			n, err := strconv.ParseFloat(s, 64)
			if err != nil || !(n > 0 && n <= queue.MaxRate) {
				return l, &wrong{fmt.Sprintf("%q is no rate: write a number over 0 and up to a million, or nothing.", s)}
			}
			l.PerSecond = &n
		}
		if s := strings.TrimSpace(v.r.PostFormValue(atOnce)); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n <= 0 {
				return l, &wrong{fmt.Sprintf("%q is no count: write a whole number over 0, or nothing.", s)}
			}
			l.AtOnce = &n
		}
		return l, nil
	}
	whole, err := read("rate", "at_once")
	if err != nil {
		return "", err
	}
	tenant, err := read("tenant_rate", "tenant_at_once")
	if err != nil {
		return "", err
	}
	patch, err := json.Marshal(map[string]limit{"limit": whole, "tenant": tenant})
	if err != nil {
		return "", err
	}
	_, err = change(v, api.SetQueue, &api.QueueChange{OneQueue: api.OneQueue{Queue: name}, Seen: api.Seen{IfMatch: v.r.PostFormValue("etag")}, Body: patch})
	return done(address("queues", name), "settings"), err
}
