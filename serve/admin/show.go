package admin

import (
	"cmp"
	"context"
	"io"
	"iter"
	"net/http"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/project"
)

// instance is what every instance shows and does.
func (a *API) instance() []Room {
	return []Room{
		{Does: []operation.Handler{
			api.Discover.By(a.discover),
			api.ListProblems.By(listProblems),
			explaining(),
			api.GetStatus.By(a.status),
			api.GetAudit.By(a.audit),
			api.GetConfig.By(a.config),
			api.GetDoctor.By(a.doctor),
			api.GetOpenAPI.By(a.openAPI),
			api.GetOpenAPIYAML.By(a.openAPIYAML),
			api.PausePipeline.By(a.pause),
			api.ResumePipeline.By(a.resume),
		}},
		{Missing: in(a.Backup != nil, cmp.Or(a.NoBackup, "this instance has no embedded database that could be backed up")), Does: []operation.Handler{api.MakeBackup.By(a.backup)}},
		{Missing: in(a.Projects != nil, "this instance has no projects"), Does: []operation.Handler{api.ListProjects.By(a.projects), api.ListKeys.By(a.keys), api.MakeKey.By(a.makeKey), api.RevokeKey.By(a.revokeKey)}},
	}
}

func statusOf(e *flow.Engine) api.PipelineStatus {
	s := e.Stats()
	out := api.PipelineStatus{Name: e.Name(), State: s.State.String(), Received: s.Received, Settled: api.Settled(s.Settled),
		Retried: s.Retried, Returned: s.Returned, Left: s.Left, Stale: s.Stale, Failures: map[string]uint64{},
		InFlight: s.InFlight, Buffered: s.Buffered, Lanes: len(s.Lanes), Breaker: s.Breaker.String(), Why: s.Why, Errors: s.Errors}
	for k, n := range s.Failures {
		out.Failures[k.String()] = n
	}
	if s.Failure != "" {
		out.Failure, out.FailedAt = s.Failure, &s.FailedAt
	}
	if s.Last != nil {
		out.Last, out.LastAt = s.Last.Error(), &s.LastAt
	}
	if !s.LastDone.IsZero() {
		out.LastDone = &s.LastDone
	}
	return out
}

// booksWithin is how long the books of all pipelines may take when they are only looked at.
const booksWithin = 3 * time.Second

func (a *API) status(ctx context.Context, _ *operation.None) (out api.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, booksWithin) // who is away holds up nobody who wants to know what is the matter
	defer cancel()
	out = api.Status{Version: a.Version, Started: a.Started.UTC(), Systems: []api.SystemStatus{}}
	for _, s := range a.seen(ctx) {
		sys := api.SystemStatus{Name: s.Name, Pipelines: []api.PipelineStatus{}}
		for _, e := range s.Pipelines {
			p := statusOf(e)
			if b, ok := s.Books[e.Name()]; ok {
				if books, err := b.Books(ctx); err != nil {
					p.Unread = err.Error()
				} else {
					p.Pending = &books.Pending
				}
			}
			sys.Pipelines = append(sys.Pipelines, p)
		}
		if s.Notes != nil {
			sys.Notes = s.Notes()
		}
		out.Systems = append(out.Systems, sys)
	}
	if !sightOf(ctx).all() {
		return out, nil
	}
	out.Uses = a.Uses
	out.Data, err = filepath.Abs(a.Config().Data)
	return out, err
}

func (a *API) config(context.Context, *operation.None) (operation.Document, error) {
	return operation.Document{Type: "application/yaml", Write: a.Config().Write}, nil
}

func (a *API) doctor(ctx context.Context, _ *operation.None) (api.Findings, error) {
	return api.Findings{Findings: a.Doctor(ctx)}, nil
}

func (a *API) backup(ctx context.Context, _ *operation.None) (operation.Document, error) {
	return operation.Document{Type: "application/zstd", Write: func(out io.Writer) error { return a.Backup(ctx, out) }}, nil
}

func (a *API) projects(ctx context.Context, _ *operation.None) (iter.Seq2[api.Project, error], error) {
	ps, err := a.Projects.List(ctx)
	return answer.Listed(ps, func(p *project.Project) api.Project { return api.Project{ID: p.ID, Name: p.Name} }), err
}

func (a *API) pause(ctx context.Context, q *api.OnePipeline) (api.Steered, error) {
	return a.steer(ctx, q.Name, steerable.Pause)
}

func (a *API) resume(ctx context.Context, q *api.OnePipeline) (api.Steered, error) {
	return a.steer(ctx, q.Name, steerable.Resume)
}

// steerable is a pipeline, or a system as a whole.
type steerable interface {
	Pause() error
	Resume() error
	State() flow.State
}

// steer pauses or resumes one pipeline, or a system.
func (a *API) steer(ctx context.Context, name string, do func(steerable) error) (out api.Steered, err error) {
	var names []string
	var found steerable
	for _, s := range a.systems() {
		for _, e := range s.Pipelines {
			if names = append(names, e.Name()); e.Name() == name {
				found = e
			}
		}
		if s.Whole != nil && s.Name == name {
			found = s.Whole
		}
	}
	if found == nil {
		return out, operation.Refuse(http.StatusNotFound, "no pipeline %q runs here; there are %s", name, answer.Named(name, names))
	}
	if err := do(found); err != nil {
		return out, operation.Refuse(http.StatusConflict, "%v", err)
	}
	// Logged when somebody paused or resumed a pipeline.
	a.Log.InfoContext(ctx, "pipeline steered by hand", "pipeline", name, "state", found.State().String())
	return api.Steered{Name: name, State: found.State().String()}, nil
}
