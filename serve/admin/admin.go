// Package admin is the API that operators use: the CLI, scripts and dashboards. What an
// event can be in, it can show; what waits or failed, it can move.
//
// Answers are JSON; listings are one JSON object a line (application/x-ndjson). Errors
// are {"error": "…"} with a sentence that says what to do.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/events"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/windows"
)

// Prefix of every path of the API.
const Prefix = "/api/v1/"

// System is what the API needs of a running system.
type System struct {
	Name      string
	Pipelines []*flow.Engine
	Whole     *flow.System                                 // paused and resumed as a whole, side jobs too, by the system's name; nil: pipeline by pipeline
	Books     map[string]tidemill.Bookkeeper               // of the pipelines' sources, by name
	Audit     func(ctx context.Context) (any, bool, error) // its report, and whether it balances
	Notes     func() []string                              // what an operator should know beside the numbers, a sentence each; nil: nothing

	// Decodes says why a replay of a pipeline's dead letters could not read a message. Nil: it reads
	// whatever there is.
	Decodes func(pipeline string, m *tidemill.Message) error
}

// Parts are what the API shows and moves.
type Parts struct {
	Version    string
	Started    time.Time
	Uses       []string              // what it runs on, a line each
	Key        tidemill.Secret       // its token; empty: nobody is let in, unless NoAuth; profiles want it with NoAuth too
	NoAuth     bool                  // callers on this machine need no token
	Trusted    []netip.Prefix        // proxies whose word counts for where a wrong token came from
	Metrics    prometheus.Registerer // nil: refusals are not shown
	Config     *config.Loaded
	Systems    []System
	Projects   project.Projects
	Persons    person.Directory
	Events     warehouse.Reader
	Letters    deadletter.Store // nil: none are kept; see AddLetters
	OwnLetters []OwnLetters
	Queues     queue.Whole // nil: none are shown
	Delivery   Delivery    // nil: it does not run here
	// SendDelivery takes events of sites, one JSON object each; there as Delivery is.
	SendDelivery func(ctx context.Context, raws [][]byte) ([]events.Result, error)
	CRM          CRM             // nil: it does not run here
	Windows      *windows.System // nil: it does not run here
	// AdoptWindows takes over what another program has collected under keys that begin so, for a project; nil:
	// windows are not on a Redis.
	AdoptWindows func(ctx context.Context, prefix string, project uuid.UUID) (AdoptedWindows, error)
	WindowsFiles []Feed // where windows come from files
	Definitions  definition.Definitions
	Send         func(ctx context.Context, p uuid.UUID, events [][]byte) (Sent, error) // native format, one JSON object each
	Doctor       func(ctx context.Context) []preflight.Finding
	Log          *slog.Logger
	Stopping     context.Context // ends when this instance stops, and listings that follow with it; nil: never
}

// OwnLetters are the dead letters of a system that are not among those of all.
type OwnLetters struct {
	System string
	Store  deadletter.Store
}

// AddLetters adds where a system's dead letters are: the first store is that of all systems
// that have the same.
func (p *Parts) AddLetters(system string, s deadletter.Store) {
	switch p.Letters {
	case nil:
		p.Letters = s
	case s:
	default:
		p.OwnLetters = append(p.OwnLetters, OwnLetters{system, s})
	}
}

// API is the handler of everything under Prefix.
type API struct {
	Parts
	mux    *http.ServeMux
	safe   *http.CrossOriginProtection
	routes []Route

	refusals *request.Refusals
	guesses  *request.Guesses
	refused  *prometheus.CounterVec // reason
}

// Route is one thing that the API does.
type Route struct {
	Method string // GET is HEAD too
	Path   string // below Prefix, with {wildcards}
	do     func(http.ResponseWriter, *http.Request) error
	asks   parameters
}

// New makes the API.
func New(p Parts) *API {
	a := &API{Parts: p, mux: http.NewServeMux(), safe: http.NewCrossOriginProtection()}
	if a.Log == nil {
		a.Log = slog.New(slog.DiscardHandler)
	}
	a.refusals = request.NewRefusals(a.Log.With("system", "api"), time.Now)
	a.guesses = request.NewGuesses(a.Log.With("system", "api"), "tokens")
	a.refused = newRefused(a.Metrics)
	letters := []string{"id", "seq", "pipeline", "partner", "system", "project", "site", "tenant", "kind", "reason", "state", "since", "until", "max"}
	jobs := []string{"id", "tenant", "type", "state", "until", "max"}
	a.routes = []Route{
		{"GET", "status", a.status, query()},
		{"GET", "audit", a.audit, query("system")},
		{"GET", "config", a.config, query()},
		{"GET", "doctor", a.doctor, query()},
		{"GET", "projects", a.projects, query()},
		{"GET", "events", a.events, query("project", "distinct_id", "name", "person", "since", "until", "max", "newest", "follow")},
		{"POST", "events", a.send, query("project")},
		{"GET", "persons", a.person, query("project", "distinct_id")},
		{"GET", "definitions", a.definitions, query("project")},
		{"GET", "warnings", a.warnings, query("project", "max")},
		{"GET", "dead", a.dead, query(slices.Concat(letters, []string{"format"})...)},
		{"GET", "dead/{letter}", a.letter, query("system", "pipeline")},
		{"POST", "dead/replay", a.replay, form(slices.Concat(letters, moving)...)},
		{"POST", "dead/delete", a.discard, form(slices.Concat(letters, moving)...)},
		{"POST", "dead/{letter}/edit", a.edit, query("system", "pipeline")},
		{"GET", "queues", a.queues, query()},
		{"GET", "queues/{name}", a.queue, query()},
		{"GET", "queues/{name}/jobs", a.jobs, query(jobs...)},
		{"GET", "queues/{name}/job", a.job, query("tenant", "id")},
		{"POST", "queues/{name}/pause", a.pauseQueue, form()},
		{"POST", "queues/{name}/resume", a.resumeQueue, form()},
		{"POST", "queues/{name}/drain", a.drainQueue, form()},
		{"POST", "queues/{name}/settings", a.setQueue, query()},
		{"POST", "queues/{name}/retry", a.retryJobs, form(slices.Concat(jobs, moving)...)},
		{"POST", "queues/{name}/promote", a.promoteJobs, form(slices.Concat(jobs, moving)...)},
		{"POST", "queues/{name}/remove", a.removeJobs, form(slices.Concat(jobs, moving)...)},
		{"POST", "queues/{name}/clean", a.cleanJobs, form(slices.Concat(jobs, moving)...)},
		{"POST", "queues/{name}/edit", a.editJob, query("tenant", "id")},
		{"GET", "partners", a.partners, query()},
		{"POST", "partners/{name}/open", a.openCircuit, form("for")},
		{"POST", "partners/{name}/close", a.closeCircuit, form()},
		{"POST", "delivery/events", a.sendDelivery, query()},
		{"GET", "delivery/events/{id}", a.event, query()},
		{"GET", "delivery/events/{site}/{id}", a.event, query()},
		{"POST", "pipelines/{name}/pause", a.pause, form()},
		{"POST", "pipelines/{name}/resume", a.resume, form()},
	}
	a.routes = append(append(a.routes, a.crmRoutes()...), a.windowRoutes()...)
	for _, r := range a.routes {
		a.mux.HandleFunc(r.Method+" "+Prefix+r.Path, func(w http.ResponseWriter, req *http.Request) {
			err := a.has(r)
			if err == nil {
				err = r.asks.check(req)
			}
			if err == nil {
				err = r.do(w, req)
			}
			if err != nil {
				a.fail(w, req, err)
			}
		})
	}
	return a
}

// has refuses a route for which this instance has no part.
func (a *API) has(r Route) error {
	room, _, _ := strings.Cut(r.Path, "/")
	switch {
	case room == "dead" && a.Letters == nil && len(a.OwnLetters) == 0:
		return refused(http.StatusNotFound, "this instance keeps no dead letters")
	case room == "queues" && a.Queues == nil:
		return refused(http.StatusNotFound, "this instance has no queues to show")
	case (room == "partners" || room == "delivery") && a.Delivery == nil:
		return refused(http.StatusNotFound, "delivery does not run in this instance")
	case room == "crm" && a.CRM == nil:
		return refused(http.StatusNotFound, "CRM does not run in this instance")
	case (room == "windows" || room == "search") && a.Windows == nil:
		return refused(http.StatusNotFound, "windows do not run in this instance")
	case room == "projects" && a.Projects == nil:
		return refused(http.StatusNotFound, "this instance has no projects")
	case room == "events" && r.Method == http.MethodGet && a.Events == nil, room == "events" && r.Method == http.MethodPost && a.Send == nil,
		room == "warnings" && a.Events == nil, room == "persons" && a.Persons == nil, room == "definitions" && a.Definitions == nil:
		return refused(http.StatusNotFound, "analytics does not run in this instance")
	}
	return nil
}

// Routes lists all that the API does.
func (a *API) Routes() []Route { return slices.Clone(a.routes) }

// ServeHTTP admits the caller and answers.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := a.admit(r); err != nil {
		a.fail(w, r, err)
		return
	}
	if _, pattern := a.mux.Handler(r); pattern == "" {
		a.fail(w, r, a.unknown(w, r))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// unknown says whether the path is wrong or only its method.
func (a *API) unknown(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		try := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(try); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return refused(http.StatusNotFound, "the API has no %s", r.URL.Path)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return refused(http.StatusMethodNotAllowed, "%s cannot be %s; use %s", r.URL.Path, r.Method, strings.Join(allowed, " or "))
}

// refusal is an error with its HTTP status.
type refusal struct {
	status int
	text   string
	sent   *Sent // of a request that was in part done
}

func (r *refusal) Error() string { return r.text }

func refused(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, body := http.StatusInternalServerError, failed{Error: err.Error()}
	if f, ok := errors.AsType[*refusal](err); ok {
		switch status, body.Sent = f.status, f.sent; status {
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "10")
			w.Header().Set("Connection", "close")
		}
	} else if r.Context().Err() == nil {
		a.Log.ErrorContext(r.Context(), "api", "path", r.URL.Path, "error", err)
	}
	write(w, status, body)
}

// failed is the answer to what could not be done, or not all.
type failed struct {
	Error string `json:"error"`
	*Sent
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone, or will see that it is cut
}

// projectOf reads ?project=, a name or an id, which must exist.
func (a *API) projectOf(r *http.Request) (uuid.UUID, error) {
	name := r.URL.Query().Get("project")
	if name == "" {
		ps, err := a.Projects.List(r.Context())
		if err != nil {
			return uuid.Nil, err
		}
		if len(ps) == 1 {
			return ps[0].ID, nil
		}
		return uuid.Nil, refused(http.StatusBadRequest, "say which project, of %s", names(ps))
	}
	return a.find(r.Context(), name)
}

// find finds a project by its name or id.
func (a *API) find(ctx context.Context, name string) (uuid.UUID, error) {
	id := project.ID(name)
	if _, err := a.Projects.Find(ctx, id); errors.Is(err, project.ErrUnknown) {
		ps, _ := a.Projects.List(ctx)
		return uuid.Nil, refused(http.StatusNotFound, "there is no project %q; there are %s", name, names(ps))
	} else if err != nil {
		return uuid.Nil, err
	}
	return id, nil
}

func names(ps []project.Project) string {
	if len(ps) == 0 {
		return "none"
	}
	var ns []string
	for _, p := range ps {
		ns = append(ns, p.Name)
	}
	return strings.Join(ns, ", ")
}
