package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/flow"
	times "github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

type systemStatus struct {
	Name      string           `json:"name"`
	Pipelines []pipelineStatus `json:"pipelines"`
	Notes     []string         `json:"notes,omitempty"`
}

// pipelineStatus is an engine's Stats in the words of the API.
type pipelineStatus struct {
	Name     string            `json:"name"`
	State    string            `json:"state"`
	Received uint64            `json:"received"`
	Settled  settled           `json:"settled"`
	Retried  uint64            `json:"retried"`
	Returned uint64            `json:"returned"`
	Left     uint64            `json:"left"`
	Stale    uint64            `json:"stale"`
	Failures map[string]uint64 `json:"failures"`
	InFlight int               `json:"in_flight"`               // held by the engine
	Pending  *uint64           `json:"pending,omitempty"`       // accepted and not ended, wherever they are; what the books call in flight
	Unread   string            `json:"pending_error,omitempty"` // why that cannot be read now
	Buffered int               `json:"buffered"`
	Lanes    int               `json:"lanes"`
	Breaker  string            `json:"breaker"`
	Why      string            `json:"breaker_why,omitempty"`
	Errors   int               `json:"errors_in_a_row"`
	Failure  string            `json:"last_failure,omitempty"` // of a message
	FailedAt *time.Time        `json:"last_failure_at,omitempty"`
	Last     string            `json:"last_error,omitempty"` // of the source, dead letters or what is emitted
	LastAt   *time.Time        `json:"last_error_at,omitempty"`
	LastDone *time.Time        `json:"last_settled_at,omitempty"`
}

type settled struct {
	Delivered uint64 `json:"delivered"`
	Skipped   uint64 `json:"skipped"`
	Dead      uint64 `json:"dead"`
}

func statusOf(e *flow.Engine) pipelineStatus {
	s := e.Stats()
	out := pipelineStatus{Name: e.Name(), State: s.State.String(), Received: s.Received, Settled: settled(s.Settled),
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

func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	systems := []systemStatus{}
	ctx, cancel := context.WithTimeout(r.Context(), booksWithin) // who is away holds up nobody who wants to know what is the matter
	defer cancel()
	for _, s := range a.Systems {
		out := systemStatus{Name: s.Name, Pipelines: []pipelineStatus{}}
		for _, e := range s.Pipelines {
			p := statusOf(e)
			if b, ok := s.Books[e.Name()]; ok {
				if books, err := b.Books(ctx); err != nil {
					p.Unread = err.Error()
				} else {
					p.Pending = &books.Pending
				}
			}
			out.Pipelines = append(out.Pipelines, p)
		}
		if s.Notes != nil {
			out.Notes = s.Notes()
		}
		systems = append(systems, out)
	}
	data, err := filepath.Abs(a.Config.Data)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, map[string]any{"version": a.Version, "started": a.Started.UTC(), "data": data, "uses": a.Uses, "systems": systems})
	return nil
}

func (a *API) audit(w http.ResponseWriter, r *http.Request) error {
	var reports []any
	all := true
	want := r.URL.Query().Get("system")
	for _, s := range a.Systems {
		if want != "" && s.Name != want {
			continue
		}
		report, balanced, err := s.Audit(r.Context())
		if err != nil {
			return err
		}
		reports, all = append(reports, report), all && balanced
	}
	if len(reports) == 0 {
		var names []string
		for _, s := range a.Systems {
			names = append(names, s.Name)
		}
		return refused(http.StatusNotFound, "no system %q runs here; there is %s", want, strings.Join(names, ", "))
	}
	write(w, http.StatusOK, map[string]any{"balanced": all, "systems": reports})
	return nil
}

func (a *API) config(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	return a.Config.Write(w)
}

func (a *API) doctor(w http.ResponseWriter, r *http.Request) error {
	write(w, http.StatusOK, map[string]any{"findings": a.Doctor(r.Context())})
	return nil
}

func (a *API) projects(w http.ResponseWriter, r *http.Request) error {
	ps, err := a.Projects.List(r.Context())
	if err != nil {
		return err
	}
	out := stream(w, r)
	for _, p := range ps {
		if err := out.add(map[string]string{"id": p.ID.String(), "name": p.Name}); err != nil {
			return out.end(err)
		}
	}
	return nil
}

func (a *API) events(w http.ResponseWriter, r *http.Request) error {
	id, err := a.projectOf(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	f := warehouse.Filter{Project: id, Distinct: q.Get("distinct_id"), Name: q.Get("name")}
	if f.Max, err = number(q.Get("max"), "max"); err != nil {
		return err
	}
	if f.From, f.To, err = a.span(q.Get("since"), q.Get("until")); err != nil {
		return err
	}
	if s := q.Get("person"); s != "" {
		if f.Person, err = uuid.Parse(s); err != nil {
			return refused(http.StatusBadRequest, "person=%q is no UUID", s)
		}
	}
	if s := q.Get("newest"); s != "" {
		if f.Max > 0 {
			return refused(http.StatusBadRequest, "newest and max are both how many: leave one out")
		}
		if f.Max, err = number(s, "newest"); err != nil {
			return err
		}
		f.Newest = f.Max > 0
	}
	switch q.Get("follow") {
	case "", "false":
	case "true":
		f.Follow = true
	default:
		return refused(http.StatusBadRequest, "follow=%q: want true or false", q.Get("follow"))
	}
	ctx := r.Context()
	out := stream(w, r)
	if f.Follow {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		if a.Stopping != nil {
			defer context.AfterFunc(a.Stopping, end)()
		}
		out.live()
	}
	var line []byte
	for e, err := range a.Events.Events(ctx, f) {
		if f.Follow && err != nil && ctx.Err() != nil { // who follows is gone, or this instance stops
			return nil
		}
		if err != nil {
			return out.end(err)
		}
		e.Profile, e.Origin = true, 0 // of the way in, not of the event
		if len(e.Properties) == 0 {
			e.Properties = []byte("{}")
		}
		line = e.AppendJSON(line[:0])
		if err := out.raw(line); err != nil {
			return out.end(err)
		}
	}
	return nil
}

// shown is a person as the API shows it.
type shown struct {
	ID         uuid.UUID                  `json:"id"`
	Distinct   []string                   `json:"distinct_ids"`
	Properties map[string]json.RawMessage `json:"properties"`
	Identified bool                       `json:"is_identified"`
	Created    time.Time                  `json:"created_at"`
	Updated    time.Time                  `json:"updated_at"`
}

func (a *API) person(w http.ResponseWriter, r *http.Request) error {
	id, err := a.projectOf(r)
	if err != nil {
		return err
	}
	distinct := r.URL.Query().Get("distinct_id")
	p, err := a.Persons.Show(r.Context(), person.Ref{Project: id, Distinct: distinct})
	if errors.Is(err, person.ErrUnknown) {
		return refused(http.StatusNotFound, "nobody in this project has the distinct id %q", distinct)
	} else if err != nil {
		return err
	}
	out := shown{ID: p.ID, Distinct: p.Distinct, Properties: map[string]json.RawMessage{}, Identified: p.Identified, Created: p.Created.UTC(), Updated: p.Updated.UTC()}
	for k, v := range p.Properties {
		out.Properties[k] = v
	}
	write(w, http.StatusOK, out)
	return nil
}

func (a *API) definitions(w http.ResponseWriter, r *http.Request) error {
	id, err := a.projectOf(r)
	if err != nil {
		return err
	}
	d, err := a.Definitions.List(r.Context(), id)
	if err != nil {
		return err
	}
	out := stream(w, r)
	for _, e := range d.Events {
		if err := out.add(map[string]any{"event": e.Name, "last_seen_at": e.LastSeen.UTC()}); err != nil {
			return out.end(err)
		}
	}
	for _, p := range d.Properties {
		if err := out.add(map[string]any{"property": p.Name, "of": p.Of, "value_type": p.Type, "last_seen_at": p.LastSeen.UTC()}); err != nil {
			return out.end(err)
		}
	}
	return nil
}

func (a *API) warnings(w http.ResponseWriter, r *http.Request) error {
	id, err := a.projectOf(r)
	if err != nil {
		return err
	}
	limit, err := number(r.URL.Query().Get("max"), "max")
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = 100
	}
	ws, err := a.Events.Warnings(r.Context(), id, limit)
	if err != nil {
		return err
	}
	out := stream(w, r)
	for _, n := range ws {
		if err := out.add(map[string]any{"type": n.Type, "event_name": n.Event, "distinct_id": n.Distinct, "reason": n.Reason, "timestamp": n.At.UTC()}); err != nil {
			return out.end(err)
		}
	}
	return nil
}

func (a *API) pause(w http.ResponseWriter, r *http.Request) error {
	return a.steer(w, r, steerable.Pause)
}

func (a *API) resume(w http.ResponseWriter, r *http.Request) error {
	return a.steer(w, r, steerable.Resume)
}

// steerable is a pipeline, or a system as a whole.
type steerable interface {
	Pause() error
	Resume() error
	State() flow.State
}

// steer pauses or resumes one pipeline, or a system.
func (a *API) steer(w http.ResponseWriter, r *http.Request, do func(steerable) error) error {
	name := r.PathValue("name")
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
		return refused(http.StatusNotFound, "no pipeline %q runs here; there are %s", name, strings.Join(names, ", "))
	}
	if err := do(found); err != nil {
		return refused(http.StatusConflict, "%v", err)
	}
	a.Log.InfoContext(r.Context(), "pipeline steered by hand", "pipeline", name, "state", found.State().String())
	write(w, http.StatusOK, map[string]string{"name": name, "state": found.State().String()})
	return nil
}

// number reads a count; empty is 0.
func number(s, name string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, refused(http.StatusBadRequest, "%s=%q is not a count", name, s)
	}
	return n, nil
}

// span reads ?since= and ?until=: the beginning of a time, and the end of it, which is not in it
// itself. Empty: none.
func (a *API) span(since, until string) (begin, end time.Time, err error) {
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
	begin, end = read(since, "since", times.Start), read(until, "until", times.End)
	if err == nil && !begin.IsZero() && !end.IsZero() && !end.After(begin) {
		err = refused(http.StatusBadRequest, "until=%s is not after since=%s: nothing is between them", until, since)
	}
	return begin, end, err
}
