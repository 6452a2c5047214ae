package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/queue"
)

// listQueues are the queues, what hurts most first.
func listQueues(v *page.Visit) page.Part[[]api.Queue] {
	p := v.Queues()
	slices.SortStableFunc(p.Has, func(a, b api.Queue) int {
		return cmp.Or(-cmp.Compare(weight(a), weight(b)), -cmp.Compare(a.Waiting+a.Delayed, b.Waiting+b.Delayed), cmp.Compare(a.Name, b.Name))
	})
	return p
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

func showQueues(v *page.Visit) (*page.View, error) {
	return &page.View{File: "queues", Title: "Queues", Section: "queues", Live: true, Body: listQueues(v)}, nil
}

// queueCrumbs are those of the pages below a queue.
func queueCrumbs(name string, more ...page.Link) []page.Link {
	return append([]page.Link{{Text: "Queues", Href: page.Address("queues")}, {Text: name, Href: page.Address("queues", name)}}, more...)
}

// Deepest says that the tenants of a queue are not all whose jobs wait: as many are shown as there may be.
func (p *queuePage) Deepest() bool { return len(p.Queue.Tenants) >= api.TenantsOfAQueue }

// queuePage is one queue.
type queuePage struct {
	Queue    api.Queue
	Why      []string // what its jobs wait for
	Settings []page.Fact
	Rates    page.Part[*page.Trend]
	Changes  *page.Part[[]api.Change]
	Back     *setting // nil: nobody has changed the settings that are in force
}

func showQueue(v *page.Visit) (*page.View, error) {
	name := v.R.PathValue("queue")
	q, err := page.Call(v, api.GetQueue, &api.OneQueue{Queue: name})
	if err != nil {
		return nil, err
	}
	pipeline, _, err := pipelineOf(v, name)
	p := &queuePage{Queue: q, Why: append(whyPipeline(pipeline, err), whyQueue(v, &q)...), Settings: settingsOf(q.Settings)}
	p.Rates, p.Changes = page.TrendOf(v, "queue:"+name), page.LastChanges(v, name)
	p.Back = lastSetting(v, p.Changes, &q)
	return &page.View{File: "queue", Title: "Queue " + name, Section: "queues", Live: true, Topics: []string{"queue:" + name}, Crumbs: queueCrumbs(name)[:1], Body: p}, nil
}

// pipelineOf is the pipeline of this instance that has a queue's name, and its system; nil: there is none.
func pipelineOf(v *page.Visit, name string) (*api.PipelineStatus, string, error) {
	if !v.May(api.GetStatus.ID) {
		return nil, "", nil
	}
	s, err := page.Call(v, api.GetStatus, &operation.None{})
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
		return []string{"How its pipeline stands could not be read: " + page.Problem(err).Detail}
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
func whyQueue(v *page.Visit, q *api.Queue) (why []string) {
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
	add(q.Paused && !s.PausedUntil.IsZero(), "It is paused until %s.", s.PausedUntil.In(v.Zone).Format(time.RFC1123))
	add(q.Closed, "It is being drained: it takes no new jobs, and what is there is worked on.")
	add(!s.Off.IsZero(), "Its destination is switched off since %s: it failed since %s.", s.Off.In(v.Zone).Format(time.RFC1123), s.FailingSince.In(v.Zone).Format(time.RFC1123))
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
	return page.Number(n) + " jobs are"
}

func limitWords(l queue.Limit) string {
	var words []string
	if l.PerSecond > 0 {
		words = append(words, page.Number(l.PerSecond)+" a second")
	}
	if l.AtOnce > 0 {
		words = append(words, page.Number(l.AtOnce)+" at once")
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func settingsOf(s *queue.Settings) []page.Fact {
	if s == nil {
		return nil
	}
	keep := func(k queue.Keep) string {
		var words []string
		if k.Count > 0 {
			words = append(words, page.Number(k.Count))
		}
		if k.Age > 0 {
			words = append(words, "for "+page.Age(k.Age))
		}
		if len(words) == 0 {
			return "none"
		}
		return strings.Join(words, ", ")
	}
	most := "as many as the store allows"
	if s.Max > 0 {
		most = page.Number(s.Max)
	}
	all := []page.Fact{
		{Name: "Limit of the queue", Value: limitWords(s.Limit), Help: "How much is handed out of all its jobs."},
		{Name: "Limit of each tenant", Value: limitWords(s.Tenant), Help: "How much is handed out of one tenant, unless it has a limit of its own."},
		{Name: "Limit of each key", Value: limitWords(s.Key), Help: "How much is handed out of one key of a tenant."},
		{Name: "Who takes turns", Value: turns[s.Fair], Help: "Within a priority."},
		{Name: "Holds at most", Value: most, Help: "Jobs beyond are refused."},
		{Name: "Completed jobs kept", Value: keep(s.Completed), Help: "After they were delivered or skipped."},
		{Name: "Failed jobs kept", Value: keep(s.Failed), Help: "After they died; a dead letter is kept in any case."},
	}
	for _, p := range slices.Sorted(maps.Keys(s.Weights)) {
		all = append(all, page.Fact{Name: fmt.Sprintf("Weight of priority %d", p), Value: page.Number(s.Weights[p]), Help: "Its share of what is handed out while several priorities wait."})
	}
	for _, t := range slices.Sorted(maps.Keys(s.Tenants)) {
		all = append(all, page.Fact{Name: "Limit of tenant " + t, Value: limitWords(s.Tenants[t]), Help: "Instead of that of each tenant."})
	}
	return all
}

// steering is an action on one queue.
func steering(o operation.Operation[api.OneQueue, api.Queue], path, title, button, verb, said string, texts ...string) *page.Action {
	return &page.Action{Path: "queues/{queue}/" + path, Op: o.ID,
		Ask: func(v *page.Visit) (*page.Question, error) {
			name := v.R.PathValue("queue")
			return &page.Question{Title: fmt.Sprintf(title, name), Texts: texts, Button: button, Section: "queues", Crumbs: queueCrumbs(name), Back: v.Back(page.Address("queues", name)),
				CLI: page.Command("queue", verb, name), Request: page.Request(o, &api.OneQueue{Queue: name})}, nil
		},
		Do: func(v *page.Visit) (string, error) {
			name := v.R.PathValue("queue")
			_, err := page.Change(v, o, &api.OneQueue{Queue: name})
			return page.Done(v.Back(page.Address("queues", name)), said), err
		}}
}

var (
	resumeQueue = steering(api.ResumeQueue, "resume", "Resume the queue %s?", "Resume the queue", "resume", "resumed",
		"All instances work on it again. It ends a pause as well as a draining.")
	drainQueue = steering(api.DrainQueue, "drain", "Drain the queue %s?", "Drain the queue", "drain", "draining",
		"It takes no new jobs in any instance: senders are refused until it is resumed. What is there is worked on.")
)

var pauseQueue = &page.Action{Path: "queues/{queue}/pause", Op: api.PauseQueue.ID, Ask: askPause,
	Do: func(v *page.Visit) (string, error) {
		name := v.R.PathValue("queue")
		_, err := page.Change(v, api.PauseQueue, &api.Pausing{OneQueue: api.OneQueue{Queue: name}, For: strings.TrimSpace(v.R.PostFormValue("for"))})
		return page.Done(v.Back(page.Address("queues", name)), "paused"), page.Refilled(err)
	}}

func askPause(v *page.Visit) (*page.Question, error) {
	name := v.R.PathValue("queue")
	return &page.Question{Title: "Pause the queue " + name + "?", Button: "Pause the queue", Section: "queues", Crumbs: queueCrumbs(name), Back: v.Back(page.Address("queues", name)),
		Texts:  []string{"It is paused for all instances. Nothing more is handed out; what is being worked on is finished.", "Jobs still come in, and wait until it is resumed, or the time is over."},
		Inputs: []page.Input{{Name: "for", Label: "For how long: 10m, 2h (empty: until somebody resumes it)", Value: v.R.PostForm.Get("for"), Optional: true, Auto: "off"}},
		CLI:    page.Command("queue", "pause", name), Request: page.Request(api.PauseQueue, &api.Pausing{OneQueue: api.OneQueue{Queue: name}})}, nil
}
