// Package admin is the API that operators use: the CLI, scripts and dashboards. What an
// event can be in, it can show; what waits or failed, it can move.
//
// What its operations are, with their requests and answers, serve/api says; here they are done.
package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest"
	"github.com/tidemill/tidemill/systems/windows"
)

// Prefix of every path of the API.
const Prefix = operation.Prefix

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
	Queues     queue.Store // nil: none are shown
	Delivery   Delivery    // nil: it does not run here
	// SendDelivery takes events of sites, one JSON object each; there as Delivery is.
	SendDelivery func(ctx context.Context, raws [][]byte) ([]deliveryingest.Result, error)
	CRM          CRM             // nil: it does not run here
	Windows      *windows.System // nil: it does not run here
	// AdoptWindows takes over what another program has collected under keys that begin so, for a project; nil:
	// windows are not on a Redis.
	AdoptWindows func(ctx context.Context, prefix string, project uuid.UUID) (api.AdoptedWindows, error)
	WindowsFiles []Feed // where windows come from files
	Definitions  definition.Definitions
	Entries      http.Handler                                                              // takes entries of the embedded bridge; nil: it does not run here
	Send         func(ctx context.Context, p uuid.UUID, events [][]byte) (api.Sent, error) // native format, one JSON object each
	Doctor       func(ctx context.Context) []preflight.Finding
	Once         ledger.Ledger // of Idempotency-Keys, which its owner forgets after KeptOnce; nil: none are taken
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
	mux  *http.ServeMux
	safe *http.CrossOriginProtection
	does []operation.Handler

	refusals *request.Refusals
	guesses  *request.Guesses
	refused  *prometheus.CounterVec // reason
}

// room is a part of the API, which an instance may not have.
type room struct {
	missing string // why it is not here; empty: it is
	does    []operation.Handler
}

// in says why a room is not here, where it is not.
func in(here bool, missing string) string {
	if here {
		return ""
	}
	return missing
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
	for _, r := range slices.Concat(a.instance(), a.analytics(), []room{a.deadLetters(), a.queueing(), a.delivering(), a.crm(), a.windowing()}) {
		for _, h := range r.does {
			a.does = append(a.does, h)
			do := func(w http.ResponseWriter, req *http.Request) {
				err := refused(http.StatusNotFound, "%s", r.missing)
				if r.missing == "" {
					err = h.Serve(w, req)
				}
				if err != nil {
					a.fail(w, req, err)
				}
			}
			a.mux.HandleFunc(h.Method+" "+Prefix+h.Path, func(w http.ResponseWriter, req *http.Request) {
				if h.Method != http.MethodPost || h.ID == api.SendEntries.ID || len(req.Header.Values(operation.IdempotencyKey)) == 0 {
					do(w, req) // entries have ids that are made of the key
				} else if err := a.once(w, req, h.MaxBody(), do); err != nil {
					a.fail(w, req, err)
				}
			})
		}
	}
	return a
}

// Operations are all that the API does.
func (a *API) Operations() []operation.Handler { return slices.Clone(a.does) }

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

func refused(status int, format string, args ...any) error {
	return operation.Refuse(status, format, args...)
}

// busy is a problem that the same request may not have a moment later.
func busy(err error) error {
	p := operation.Refuse(http.StatusServiceUnavailable, "%v", err)
	p.After = 5
	return p
}

// fail answers with a problem.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*operation.Problem](err)
	if !ok {
		p = operation.Refuse(http.StatusInternalServerError, "%v", err)
		if r.Context().Err() == nil {
			a.Log.ErrorContext(r.Context(), "api", "path", r.URL.Path, "error", err)
		}
	}
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		w.Header().Set("Connection", "close")
	}
	if p.After > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.After))
	}
	operation.Write(w, p.Status, operation.ProblemType, p)
}

// projectOf is the project of a name or an id, which must exist; empty: the only one.
func (a *API) projectOf(ctx context.Context, in api.InProject) (uuid.UUID, error) {
	if in.Project != "" {
		return a.find(ctx, in.Project)
	}
	ps, err := a.Projects.List(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	if len(ps) == 1 {
		return ps[0].ID, nil
	}
	return uuid.Nil, refused(http.StatusBadRequest, "say which project, of %s", names(ps))
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
	var ns []string
	for _, p := range ps {
		ns = append(ns, p.Name)
	}
	return orNone(ns)
}
