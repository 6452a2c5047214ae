package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// jobStates are the states of jobs, with what each means.
var jobStates = []page.Fact{
	{Name: "waiting", Value: "Waiting", Help: "It can be handed out as soon as a worker is free and no limit holds it back."},
	{Name: "delayed", Value: "Put off", Help: "It has a time before which it is not handed out: it was asked for then, or tried and failed."},
	{Name: "leased", Value: "Worked on", Help: "An instance has it. If that instance is gone, it comes back when its lease ends."},
	{Name: "completed", Value: "Completed", Help: "It was delivered or skipped, and is kept because the settings of the queue say so."},
	{Name: "failed", Value: "Failed", Help: "It was given up, and is kept because the settings of the queue say so. Its dead letter has all of it."},
}

// jobsPage is a list of jobs.
type jobsPage struct {
	Queue  string
	Filter api.JobFilter
	Jobs   page.Part[operation.Paged[api.Job]]
	Active []page.Link // filters, each with the address without it
	chosen url.Values  // the filter with its end: what is on the page and no later one
}

// All says whether all that match can be meant: jobs of one state, that are not named.
func (p *jobsPage) All() bool { return p.Filter.State != "" && len(p.Filter.IDs) == 0 }

// Choose is the page of an action on all that match.
func (p *jobsPage) Choose(verb string) string {
	return page.Query(page.Address("queues", p.Queue, verb), p.chosen)
}

func showJobs(v *page.Visit) (*page.View, error) {
	name := v.R.PathValue("queue")
	p := &jobsPage{Queue: name}
	if err := v.Filter(api.ListJobs.Description, &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.Queue, p.Filter.Max = name, 0
	v.Paging(&p.Filter.Page)
	p.Jobs = page.Look(v, func(ctx context.Context) (operation.Paged[api.Job], error) {
		return api.ListJobs.Page(ctx, v.API, &p.Filter)
	})
	if p.Jobs.Problem != nil && p.Jobs.Problem.Status == http.StatusNotFound {
		return nil, p.Jobs.Problem
	}
	until := cmp.Or(api.Span{Until: p.Filter.Until}.Fixed(v.At).Until, v.At.UTC().Format(time.RFC3339Nano))
	p.chosen = url.Values{"state": {p.Filter.State}, "tenant": {p.Filter.Tenant}, "type": {p.Filter.Type}, "until": {until}, "back": {v.R.URL.RequestURI()}}
	p.Active = v.Active("state", "tenant", "type", "id", "until")
	return &page.View{File: "jobs", Live: v.Newest(), Title: "Jobs of " + name, Section: "queues", Crumbs: queueCrumbs(name), Body: p}, nil
}

// jobPage is one job.
type jobPage struct {
	Job     api.Job
	Queue   page.Part[api.Queue]
	Payload *page.Payload
	Why     []string // what it waits for
	Dead    bool     // it was given up: there is a dead letter
	Explain string   // the page that explains its event; empty: no system here works on its queue
}

func oneJob(v *page.Visit) *api.OneJob {
	q := &api.OneJob{OneQueue: api.OneQueue{Queue: v.R.PathValue("queue")}, Job: v.Query().Get("id")}
	for _, name := range []string{"owner", "tenant"} { // the second is that of the API
		if t, given := v.Query()[name]; given {
			q.Tenant = &t[0]
		}
	}
	return q
}

func showJob(v *page.Visit) (*page.View, error) {
	j, err := page.Call(v, api.GetJob, oneJob(v))
	if err != nil {
		return nil, err
	}
	p := &jobPage{Job: j, Dead: j.Fate == "dead"}
	p.Queue = page.Look(v, func(ctx context.Context) (api.Queue, error) {
		return api.GetQueue.Call(ctx, v.API, &api.OneQueue{Queue: j.Queue})
	})
	p.Payload = page.NewPayload(j.Payload, j.PayloadBase64, page.JobAddress(&j, "payload")).Covering(j.Covered)
	pipeline, system, err := pipelineOf(v, j.Queue)
	p.Explain, p.Why = page.ExplainAddress(system, j.Tenant, j.ID), whyJob(v, &j, p.Queue, whyPipeline(pipeline, err))
	return &page.View{File: "job", Title: "Job " + page.Cut(j.ID), Section: "queues", Crumbs: append(queueCrumbs(j.Queue), page.Link{Text: "Jobs", Href: page.Address("queues", j.Queue, "jobs")}), Body: p}, nil
}

// whyJob says what a job waits for.
func whyJob(v *page.Visit, j *api.Job, q page.Part[api.Queue], pipeline []string) (why []string) {
	for _, s := range jobStates {
		if s.Name == j.State {
			why = append(why, s.Help)
		}
	}
	if j.Due != nil {
		why = append(why, "It is due "+v.When(j.Due).Ago+".")
	}
	if j.State == "waiting" && q.Problem == nil {
		why = append(append(why, pipeline...), whyQueue(v, &q.Has)...)
	}
	return why
}

func jobPayload(v *page.Visit) (*page.View, error) {
	one := oneJob(v)
	return nil, page.Download(v, one.Job, api.GetJobPayload, one)
}

// editJob replaces the payload of a job.
var editJob = &page.Action{Path: "queues/{queue}/edit", Op: api.EditJob.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		j, err := page.Call(v, api.GetJob, oneJob(v))
		if err != nil {
			return nil, err
		}
		q := &page.Question{Title: "Edit the payload of job " + page.Cut(j.ID), Button: "Replace the payload", Section: "queues", Crumbs: queueCrumbs(j.Queue), Back: page.JobAddress(&j),
			Texts: []string{"The job is sent with the new payload. What was received is not kept beside it."}, Careful: true,
			CLI: page.Command("queue", "edit", j.Queue, j.ID), Request: page.Request(api.EditJob, &api.JobEdit{OneJob: *oneJob(v)})}
		q.Edit = page.NewEditing(v, j.ETag, j.Payload, j.PayloadBase64, j.Covered)
		return q, nil
	},
	Do: func(v *page.Visit) (string, error) {
		body, err := v.Replaced()
		if err != nil {
			return "", err
		}
		j, err := page.Change(v, api.EditJob, &api.JobEdit{OneJob: *oneJob(v), Seen: api.Seen{IfMatch: v.R.PostFormValue("etag")}, NewPayload: body})
		return page.Done(page.JobAddress(&j), "saved"), page.Overtaken(v, err)
	}}
