package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/flow"
	times "github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// instance is what every instance shows and does.
func (a *API) instance() []room {
	return []room{
		{does: []operation.Handler{
			api.GetStatus.By(a.status),
			api.GetAudit.By(a.audit),
			api.GetConfig.By(a.config),
			api.GetDoctor.By(a.doctor),
			api.GetOpenAPI.By(a.openAPI),
			api.PausePipeline.By(a.pause),
			api.ResumePipeline.By(a.resume),
		}},
		{in(a.Projects != nil, "this instance has no projects"), []operation.Handler{api.ListProjects.By(a.projects)}},
		{in(a.Entries != nil, "the embedded bridge does not run in this instance"), []operation.Handler{{Description: &api.SendEntries.Description,
			Serve: func(w http.ResponseWriter, r *http.Request) error { a.Entries.ServeHTTP(w, r); return nil }}}},
	}
}

// analytics is what the API does of analytics, of which an instance may have a part.
func (a *API) analytics() []room {
	one := func(here bool, h operation.Handler) room {
		return room{in(here, "analytics does not run in this instance"), []operation.Handler{h}}
	}
	return []room{
		one(a.Events != nil, api.ListEvents.By(a.events)),
		one(a.Send != nil, api.SendEvents.By(a.send)),
		one(a.Persons != nil, api.GetPerson.By(a.person)),
		one(a.Definitions != nil, api.ListDefinitions.By(a.definitions)),
		one(a.Events != nil, api.ListWarnings.By(a.warnings)),
	}
}

// listed are the items of a listing, each as the API shows it.
func listed[T, A any](all []T, show func(*T) A) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		for i := range all {
			if !yield(show(&all[i]), nil) {
				return
			}
		}
	}
}

// shownAs are what a store lists, each as the API shows it.
func shownAs[T, A any](all iter.Seq2[T, error], show func(T) A) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		for t, err := range all {
			var a A
			if err == nil {
				a = show(t)
			}
			if !yield(a, answerable(err)) || err != nil {
				return
			}
		}
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
	out = api.Status{Version: a.Version, Started: a.Started.UTC(), Uses: a.Uses, Systems: []api.SystemStatus{}}
	for _, s := range a.Systems {
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
	out.Data, err = filepath.Abs(a.Config.Data)
	return out, err
}

func (a *API) audit(ctx context.Context, q *api.OneSystem) (api.Audits, error) {
	out := api.Audits{Balanced: true}
	var names []string
	for _, s := range a.Systems {
		names = append(names, s.Name)
		if q.System != "" && s.Name != q.System {
			continue
		}
		report, balanced, err := s.Audit(ctx)
		if err != nil {
			return out, err
		}
		text, err := json.Marshal(report)
		if err != nil {
			return out, err
		}
		out.Systems, out.Balanced = append(out.Systems, text), out.Balanced && balanced
	}
	if len(out.Systems) == 0 {
		return out, refused(http.StatusNotFound, "no system %q runs here; there is %s", q.System, strings.Join(names, ", "))
	}
	return out, nil
}

func (a *API) config(context.Context, *operation.None) (operation.Document, error) {
	return operation.Document{Type: "application/yaml", Write: a.Config.Write}, nil
}

func (a *API) openAPI(context.Context, *operation.None) (operation.Document, error) {
	return operation.Document{Type: "application/json", Write: func(w io.Writer) error {
		_, err := w.Write(api.Document)
		return err
	}}, nil
}

func (a *API) doctor(ctx context.Context, _ *operation.None) (api.Findings, error) {
	return api.Findings{Findings: a.Doctor(ctx)}, nil
}

func (a *API) projects(ctx context.Context, _ *operation.None) (iter.Seq2[api.Project, error], error) {
	ps, err := a.Projects.List(ctx)
	return listed(ps, func(p *project.Project) api.Project { return api.Project{ID: p.ID, Name: p.Name} }), err
}

func (a *API) events(ctx context.Context, q *api.EventFilter) (iter.Seq2[api.Event, error], error) {
	id, err := a.projectOf(ctx, q.InProject)
	if err != nil {
		return nil, err
	}
	f := warehouse.Filter{Project: id, Distinct: q.Distinct, Name: q.Name, Max: q.Max, Follow: q.Follow}
	f.Person, _ = uuid.Parse(q.Person) // it is one, or nothing
	if f.From, f.To, err = a.span(q.Span); err != nil {
		return nil, err
	}
	if q.Newest > 0 {
		if q.Max > 0 {
			return nil, refused(http.StatusBadRequest, "newest and max are both how many: leave one out")
		}
		f.Max, f.Newest = q.Newest, true
	}
	return func(yield func(api.Event, error) bool) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		if f.Follow && a.Stopping != nil {
			defer context.AfterFunc(a.Stopping, end)()
		}
		for e, err := range a.Events.Events(ctx, f) {
			if f.Follow && err != nil && ctx.Err() != nil { // who follows is gone, or this instance stops
				return
			}
			if err == nil {
				e.Profile, e.Origin = true, 0 // of the way in, not of the event
				if len(e.Properties) == 0 {
					e.Properties = []byte("{}")
				}
			}
			if !yield(api.Event{Event: e}, err) || err != nil {
				return
			}
		}
	}, nil
}

func (a *API) person(ctx context.Context, q *api.OnePerson) (out api.Person, err error) {
	id, err := a.projectOf(ctx, q.InProject)
	if err != nil {
		return out, err
	}
	p, err := a.Persons.Show(ctx, person.Ref{Project: id, Distinct: q.Distinct})
	if errors.Is(err, person.ErrUnknown) {
		return out, refused(http.StatusNotFound, "nobody in this project has the distinct id %q", q.Distinct)
	} else if err != nil {
		return out, err
	}
	out = api.Person{ID: p.ID, Distinct: p.Distinct, Properties: map[string]json.RawMessage{}, Identified: p.Identified, Created: p.Created.UTC(), Updated: p.Updated.UTC()}
	for k, v := range p.Properties {
		out.Properties[k] = v
	}
	return out, nil
}

func (a *API) definitions(ctx context.Context, q *api.InProject) (iter.Seq2[api.Definition, error], error) {
	id, err := a.projectOf(ctx, *q)
	if err != nil {
		return nil, err
	}
	d, err := a.Definitions.List(ctx, id)
	if err != nil {
		return nil, err
	}
	all := []api.Definition{}
	for _, e := range d.Events {
		all = append(all, api.Definition{Event: e.Name, LastSeen: e.LastSeen.UTC()})
	}
	for _, p := range d.Properties {
		all = append(all, api.Definition{Property: p.Name, Of: string(p.Of), Type: string(p.Type), LastSeen: p.LastSeen.UTC()})
	}
	return listed(all, func(d *api.Definition) api.Definition { return *d }), nil
}

func (a *API) warnings(ctx context.Context, q *api.WarningFilter) (iter.Seq2[api.Warning, error], error) {
	id, err := a.projectOf(ctx, q.InProject)
	if err != nil {
		return nil, err
	}
	if q.Max == 0 {
		q.Max = 100
	}
	ws, err := a.Events.Warnings(ctx, id, q.Max)
	return listed(ws, func(n *warehouse.Warning) api.Warning {
		return api.Warning{Type: n.Type, Name: n.Event, Distinct: n.Distinct, Reason: n.Reason, Timestamp: n.At.UTC()}
	}), err
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
	for _, s := range a.Systems {
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
		return out, refused(http.StatusNotFound, "no pipeline %q runs here; there are %s", name, strings.Join(names, ", "))
	}
	if err := do(found); err != nil {
		return out, refused(http.StatusConflict, "%v", err)
	}
	a.Log.InfoContext(ctx, "pipeline steered by hand", "pipeline", name, "state", found.State().String())
	return api.Steered{Name: name, State: found.State().String()}, nil
}

// span reads since and until: the beginning of a time, and the end of it, which is not in it
// itself. Empty: none.
func (a *API) span(s api.Span) (begin, end time.Time, err error) {
	read := func(text, name string, as func(string, time.Time) (time.Time, error)) (t time.Time) {
		if text == "" || err != nil {
			return t
		}
		var bad error
		if t, bad = as(text, time.Now()); bad != nil {
			err = refused(http.StatusBadRequest, "%s=%v", name, bad)
		}
		return t
	}
	begin, end = read(s.Since, "since", times.Start), read(s.Until, "until", times.End)
	if err == nil && !begin.IsZero() && !end.IsZero() && !end.After(begin) {
		err = refused(http.StatusBadRequest, "until=%s is not after since=%s: nothing is between them", s.Until, s.Since)
	}
	return begin, end, err
}
