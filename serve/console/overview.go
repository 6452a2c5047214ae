package console

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// overview says whether all is well.
type overview struct {
	Stands  page.Part[*api.Overview]
	Status  page.Part[api.Status]
	Queues  page.Part[[]api.Queue] // that have something
	Idle    int                    // queues that have nothing
	Dead    page.Part[operation.Paged[api.ListedDead]]
	Fresh   bool // nothing was ever accepted
	Busy    []api.PipelineStatus
	Quiet   int                      // pipelines that run and have had nothing
	Changes *page.Part[[]api.Change] // the last ones by people
	Views   []api.View               // the first of those that are saved
	More    int                      // saved views that are not shown
}

// deadOnOverview is how many dead letters the overview shows, the newest.
const deadOnOverview = 5

func showOverview(v *page.Visit) (*page.View, error) {
	var o overview
	var all sync.WaitGroup
	ask := func(id string, do func()) {
		if v.May(id) {
			all.Go(do)
		}
	}
	ask(api.GetStatus.ID, func() {
		o.Status = page.Look(v, func(ctx context.Context) (api.Status, error) {
			return api.GetStatus.Call(ctx, v.API, &operation.None{})
		})
	})
	ask(api.GetOverview.ID, func() {
		o.Stands = page.Look(v, func(context.Context) (*api.Overview, error) { return v.Stands() })
	})
	ask(api.ListQueues.ID, func() {
		if o.Queues = listQueues(v); len(o.Queues.Has) > 0 {
			o.Idle = len(o.Queues.Has)
			o.Queues.Has = slices.DeleteFunc(o.Queues.Has, func(q api.Queue) bool { return weight(q) == 0 && q.Waiting+q.Delayed+q.Leased == 0 })
			o.Idle -= len(o.Queues.Has)
		}
	})
	ask(api.ListChanges.ID, func() { o.Changes = page.LastChanges(v, "") })
	ask(api.ListViews.ID, func() {
		all := savedViews(v).Has // the page of views says why there are none
		o.Views = all[:min(len(all), viewsOnOverview)]
		o.More = len(all) - len(o.Views)
	})
	ask(api.ListDead.ID, func() {
		o.Dead = page.Look(v, func(ctx context.Context) (operation.Paged[api.ListedDead], error) {
			return api.ListDead.Page(ctx, v.API, &api.DeadFilter{Page: operation.Page{Order: "newest", Limit: deadOnOverview}})
		})
	})
	all.Wait()
	o.Fresh = o.Stands.Has != nil && len(o.Stands.Has.Systems) > 0
	if o.Fresh {
		for _, s := range o.Stands.Has.Systems {
			o.Fresh = o.Fresh && s.Books != nil && s.Books.Accepted == 0
		}
	}
	for _, sys := range o.Status.Has.Systems {
		for _, p := range sys.Pipelines {
			if p.Received > 0 || p.InFlight > 0 || p.State != "running" || p.Breaker != "closed" {
				o.Busy = append(o.Busy, p)
			} else {
				o.Quiet++
			}
		}
	}
	return &page.View{File: "overview", Title: "Overview", Section: "overview", Live: true, Topics: []string{"overview"}, Body: &o}, nil
}

// books are those of all systems.
type books struct {
	Balanced bool
	AsOf     time.Time // of the oldest
	Systems  []api.Audit
	Lines    []line
}

// line is one equation: accepted = delivered + skipped + dead + in flight + lost.
type line struct {
	System string
	Name   string // of the queue or the pipeline; empty: the system has one
	api.Books
	Balanced bool // of the system
}

// Off is how many are missing on the right; below zero: counted twice.
func (l line) Off() int64 {
	return int64(l.Accepted) - int64(l.Delivered+l.Skipped+l.Audit.Dead+l.InFlight+l.Lost)
}

// DeadOff is how many dead letters are missing.
func (l line) DeadOff() int64 {
	a := l.Letters
	return int64(a.Put) - int64(a.Held+a.Replayed+a.Discarded+a.Trimmed)
}

// readBooks are those of the last audit, or those of one that is made now.
func readBooks(v *page.Visit, system string, now bool) page.Part[books] {
	return page.Look(v, func(ctx context.Context) (b books, err error) {
		all, err := api.GetAudit.Call(ctx, v.API, &api.AuditOf{OneSystem: api.OneSystem{System: system}, Kept: !now})
		if err != nil {
			return b, err
		}
		b.Balanced, b.AsOf = all.Balanced, all.AsOf
		for _, text := range all.Systems {
			var a api.Audit
			if err := json.Unmarshal(text, &a); err != nil {
				return b, err
			}
			b.Systems = append(b.Systems, a)
			if a.Books != nil {
				b.Lines = append(b.Lines, line{a.System, "", *a.Books, a.Balanced})
			}
			for _, q := range a.Queues {
				b.Lines = append(b.Lines, line{a.System, q.Queue, q, a.Balanced})
			}
			for _, p := range a.Pipelines {
				b.Lines = append(b.Lines, line{a.System, p.Pipeline, p, a.Balanced})
			}
		}
		return b, nil
	})
}

func showBooks(v *page.Visit) (*page.View, error) {
	b := readBooks(v, v.Query().Get("system"), v.Query().Get("now") != "")
	return &page.View{File: "books", Title: "Books", Section: "books", Body: b}, nil
}

// pausePipeline and resumePipeline steer a pipeline of this instance.
var pausePipeline = &page.Action{Path: "pipelines/{name}/pause", Op: api.PausePipeline.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		name := v.R.PathValue("name")
		return &page.Question{Title: "Pause the pipeline " + name + "?", Button: "Pause the pipeline", Section: "instances",
			Texts: []string{"It is paused in this instance alone. What has begun is finished; events are still taken in, and wait.", "It goes on when it is resumed, or when the instance is started again."},
			Back:  v.Back(page.Address("instances")), CLI: page.Command("pause", name), Request: page.Request(api.PausePipeline, &api.OnePipeline{Name: name})}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		_, err := page.Change(v, api.PausePipeline, &api.OnePipeline{Name: v.R.PathValue("name")})
		return page.Done(v.Back(page.Address("instances")), "paused"), err
	}}

var resumePipeline = &page.Action{Path: "pipelines/{name}/resume", Op: api.ResumePipeline.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		name := v.R.PathValue("name")
		return &page.Question{Title: "Resume the pipeline " + name + "?", Button: "Resume the pipeline", Section: "instances",
			Texts: []string{"It works again in this instance, and begins with what waits."},
			Back:  v.Back(page.Address("instances")), CLI: page.Command("resume", name), Request: page.Request(api.ResumePipeline, &api.OnePipeline{Name: name})}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		_, err := page.Change(v, api.ResumePipeline, &api.OnePipeline{Name: v.R.PathValue("name")})
		return page.Done(v.Back(page.Address("instances")), "resumed"), err
	}}

// attentionAt is the page of what wants attention.
func attentionAt(a api.Attention) string {
	switch {
	case a.Kind == "unbalanced" || a.Kind == "unread":
		return page.Address("books")
	case a.Kind == "credentials":
		return page.Address("health")
	case a.Kind == "unanswered":
		return page.Address(a.System)
	case a.Kind == "old_dead_letters":
		return page.Query(page.Address("dead"), map[string][]string{"system": {a.System}, "order": {"oldest"}})
	case a.Queue != "":
		return page.Address("queues", a.Queue)
	case a.Pipeline != "":
		return page.Address("instances") + "#" + a.Pipeline
	}
	return page.Address("instances")
}

// grave says how a kind of what wants attention is shown.
func grave(kind string) string {
	switch kind {
	case "unbalanced", "unread", "stopped", "credentials", "circuit", "full", "off":
		return "bad"
	}
	return "warn"
}
