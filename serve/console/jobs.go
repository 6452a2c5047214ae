package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// jobStates are the states of jobs, with what each means.
var jobStates = []setting{
	{"waiting", "Waiting", "It can be handed out as soon as a worker is free and no limit holds it back."},
	{"delayed", "Put off", "It has a time before which it is not handed out: it was asked for then, or tried and failed."},
	{"leased", "Worked on", "An instance has it. If that instance is gone, it comes back when its lease ends."},
	{"completed", "Completed", "It was delivered or skipped, and is kept because the settings of the queue say so."},
	{"failed", "Failed", "It was given up, and is kept because the settings of the queue say so. Its dead letter has all of it."},
}

// JobStates are the states of jobs.
func (v *view) JobStates() []setting { return jobStates }

// pageOf reads the limit and the cursor of a page.
func (v *visit) pageOf(p *operation.Page) {
	if p.Limit == 0 {
		p.Limit = 50
	}
	p.Limit = min(max(p.Limit, 25), 200)
	if p.Order == "" {
		p.Order = "newest"
	}
}

// jobsPage is a list of jobs.
type jobsPage struct {
	Queue  string
	Filter api.JobFilter
	Jobs   part[operation.Paged[api.Job]]
	Active []link // filters, each with the address without it
}

func showJobs(v *visit) (*view, error) {
	name := v.r.PathValue("queue")
	p := &jobsPage{Queue: name}
	if err := api.ListJobs.Parse(v.query(), &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.Queue, p.Filter.Max = name, 0
	v.pageOf(&p.Filter.Page)
	p.Jobs = look(v, func(ctx context.Context) (operation.Paged[api.Job], error) {
		return api.ListJobs.Page(ctx, v.API, &p.Filter)
	})
	if p.Jobs.Problem != nil && p.Jobs.Problem.Status == http.StatusNotFound {
		return nil, p.Jobs.Problem
	}
	p.Active = v.active("state", "tenant", "type", "id", "until")
	return &view{file: "jobs", Title: "Jobs of " + name, Section: "queues", Crumbs: queueCrumbs(name), Body: p}, nil
}

// active are the filters of a list that are set.
func (v *visit) active(names ...string) (all []link) {
	for _, name := range names {
		for _, value := range v.query()[name] {
			if value != "" {
				all = append(all, link{name + " = " + cut(value), v.with(name, "")})
			}
		}
	}
	return all
}

// jobPage is one job.
type jobPage struct {
	Job     api.Job
	Queue   part[api.Queue]
	Payload *payload
	Why     []string // what it waits for
	Dead    bool     // it was given up: there is a dead letter
	Explain string   // the page that explains its event; empty: no system here works on its queue
}

func oneJob(v *visit) *api.OneJob {
	q := &api.OneJob{OneQueue: api.OneQueue{Queue: v.r.PathValue("queue")}, Job: v.query().Get("id")}
	if t, given := v.query()["tenant"]; given {
		q.Tenant = &t[0]
	}
	return q
}

// jobAddress is the page of a job.
func jobAddress(j *api.Job, more ...string) string {
	at := "job"
	if len(more) > 0 {
		at = more[0]
	}
	q := url.Values{"id": {j.ID}}
	if j.Tenant != "" {
		q.Set("tenant", j.Tenant)
	}
	return query(address("queues", j.Queue, at), q)
}

// JobAt is the page of a job, or one that belongs to it.
func (v *view) JobAt(j api.Job, more ...string) string { return jobAddress(&j, more...) }

func showJob(v *visit) (*view, error) {
	j, err := call(v, api.GetJob, oneJob(v))
	if err != nil {
		return nil, err
	}
	p := &jobPage{Job: j, Dead: j.Fate == "dead"}
	p.Queue = look(v, func(ctx context.Context) (api.Queue, error) {
		return api.GetQueue.Call(ctx, v.API, &api.OneQueue{Queue: j.Queue})
	})
	p.Payload = newPayload(j.Payload, j.PayloadBase64, jobAddress(&j, "payload"))
	pipeline, system, err := pipelineOf(v, j.Queue)
	p.Explain, p.Why = explainAddress(system, j.Tenant, j.ID), whyJob(v, &j, p.Queue, whyPipeline(pipeline, err))
	return &view{file: "job", Title: "Job " + cut(j.ID), Section: "queues", Crumbs: append(queueCrumbs(j.Queue), link{"Jobs", address("queues", j.Queue, "jobs")}), Body: p}, nil
}

// whyJob says what a job waits for.
func whyJob(v *visit, j *api.Job, q part[api.Queue], pipeline []string) (why []string) {
	for _, s := range jobStates {
		if s.Name == j.State {
			why = append(why, s.Help)
		}
	}
	w := &view{visit: v}
	if j.Due != nil {
		why = append(why, "It is due "+w.When(j.Due).Ago+".")
	}
	if j.State == "waiting" && q.Problem == nil {
		why = append(append(why, pipeline...), whyQueue(v, &q.Has)...)
	}
	return why
}

func jobPayload(v *visit) (*view, error) {
	j, err := call(v, api.GetJob, oneJob(v))
	if err != nil {
		return nil, err
	}
	return nil, v.download(j.ID, j.Payload, j.PayloadBase64)
}

// many counts things in words.
func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}

// editJob replaces the payload of a job.
var editJob = &action{path: "queues/{queue}/edit", op: api.EditJob.ID,
	ask: func(v *visit) (*question, error) {
		j, err := call(v, api.GetJob, oneJob(v))
		if err != nil {
			return nil, err
		}
		q := &question{Title: "Edit the payload of job " + cut(j.ID), Button: "Replace the payload", Section: "queues", Crumbs: queueCrumbs(j.Queue), Back: jobAddress(&j),
			Texts: []string{"The job is sent with the new payload. What was received is not kept beside it."}, Careful: true,
			CLI: command("queue", "edit", j.Queue, j.ID), Request: request(api.EditJob, &api.JobEdit{OneJob: *oneJob(v)})}
		q.Edit = newEditing(v, j.ETag, j.Payload, j.PayloadBase64)
		return q, nil
	},
	do: func(v *visit) (string, error) {
		body, err := v.edited()
		if err != nil {
			return "", err
		}
		j, err := change(v, api.EditJob, &api.JobEdit{OneJob: *oneJob(v), Seen: api.Seen{IfMatch: v.r.PostFormValue("etag")}, Body: body})
		return done(jobAddress(&j), "saved"), err
	}}
