// Package admin is the API that operators use: the CLI, scripts and dashboards. What an
// event can be in, it can show; what waits or failed, it can move.
//
// It admits callers, keeps the answers to idempotency keys, and does what is of all systems. Requests
// and answers of that are in serve/api. What is of one system alone comes with Parts.Rooms.
package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/aside"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/live"
	"github.com/tidemill/tidemill/serve/rates"
	"github.com/tidemill/tidemill/serve/shrink"
	"github.com/tidemill/tidemill/serve/stream"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/view"
)

// Prefix of every path of the API.
const Prefix = operation.Prefix

// System is what the API needs of a running system.
type System struct {
	Name      string
	Pipelines []*flow.Engine
	Now       func() ([]*flow.Engine, map[string]tidemill.Bookkeeper) // Pipelines and Books, where they come and go; nil: they stay
	Whole     *flow.System                                            // paused and resumed as a whole, side jobs too, by the system's name; nil: pipeline by pipeline
	Books     map[string]tidemill.Bookkeeper                          // of the pipelines' sources, by name
	Audit     func(ctx context.Context) (any, bool, error)            // its report, and whether it balances
	Notes     func() []string                                         // what an operator should know beside the numbers, a sentence each; nil: nothing

	// Unanswered says, in a sentence, what was delivered often and is not acknowledged; empty: nothing. Nil: it is
	// never asked for acknowledgements.
	Unanswered func() string

	// Decodes says why a replay of a pipeline's dead letters, or who works on the queue of that name,
	// could not read a message. Nil: it reads whatever there is.
	Decodes func(pipeline string, m *tidemill.Message) error
}

// systems are those that run, as they are now.
func (a *API) systems() []System {
	all := slices.Clone(a.Systems)
	for i := range all {
		if s := &all[i]; s.Now != nil {
			s.Pipelines, s.Books = s.Now()
		}
	}
	return all
}

// Parts are what the API shows and moves.
type Parts struct {
	*answer.Common

	Version    string
	Started    time.Time
	Uses       []string                                                    // what it runs on, a line each
	Key        tidemill.Secret                                             // its token; empty: nobody is let in, unless NoAuth; profiles want it with NoAuth too
	NoAuth     bool                                                        // callers on this machine need no token
	Trusted    []netip.Prefix                                              // proxies whose word counts for where a wrong token came from
	Metrics    prometheus.Registerer                                       // nil: refusals are not shown
	Config     func() *config.Loaded                                       // in force
	Reload     func(ctx context.Context, preview bool) (api.Reload, error) // reads Config again; nil: it cannot be
	Describe   func(context.Context, *DescriptionChange) (*DescriptionDone, error)
	Described  func() ([]api.Description, error) // in force here, also those of the file; nil: nothing keeps any
	Systems    []System
	Letters    deadletter.Store // nil: none are kept; see AddLetters
	OwnLetters []OwnLetters
	Rooms      []Room         // of systems
	Owners     []Owner        // of all systems that this program has
	Finds      []answer.Finds // the same systems, each with what finds its things
	Documents  [][]byte       // in OpenAPI, of systems that api.Document does not have
	Doctor     func(ctx context.Context) []preflight.Finding
	People     access.Options                                 // who comes in beside the owner of Key; what stands in other parts is not set here
	Trail      trail.Trail                                    // nil: no audit trail is kept
	Once       ledger.Ledger                                  // of Idempotency-Keys, which its owner forgets after KeptOnce; nil: none are taken
	Now        func() time.Time                               // nil: time.Now
	Backup     func(ctx context.Context, out io.Writer) error // of the data folder; nil: NoBackup says why there is none
	NoBackup   string
	Bulk       bulk.Store // of operations on many things; nil: there are none
	Views      view.Store // saved views of the console; nil: none are kept
	This       This
	Fates      *live.Feed // of events, as they end; nil: nothing is sampled
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
	mux   *http.ServeMux
	guard *access.Guard
	rates *rates.Limiter
	does  []operation.Handler
	yaml  func() ([]byte, error) // the document of the API; made once, when somebody asks for it

	limited  *prometheus.CounterVec // limit
	standing *standing
	hub      *stream.Hub
	beaten   atomic.Bool // this instance has said that it is there
}

// Room is a part of the API, which an instance may not have.
type Room struct {
	System  string // whose it is: all in it concerns that system; empty: each operation says what it concerns
	Missing string // why it is not here; empty: it is
	Does    []operation.Handler
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
	a := &API{Parts: p, mux: http.NewServeMux()}
	if a.Common == nil {
		a.Common = &answer.Common{}
	}
	if a.Log == nil {
		a.Log = slog.New(slog.DiscardHandler)
	}
	a.Log = operation.Logging(a.Log)
	if a.Now == nil {
		a.Now = time.Now
	}
	gate := a.People
	gate.Key, gate.NoAuth, gate.Trusted, gate.Metrics, gate.Log = a.Key, a.NoAuth, a.Trusted, a.Metrics, a.Log
	gate.Told = a.loggedIn
	a.guard, a.rates, a.limited = access.New(gate), rates.New(a.Now, a.limits), newLimited(a.Metrics)
	timed := newTook(a.Metrics)
	a.yaml = sync.OnceValues(a.documentYAML)
	a.standing, a.hub = a.newStanding(), newHub(a.Now)
	for _, r := range slices.Concat(a.instance(), a.people(), []Room{a.viewing(), a.reloading(), a.describing(), a.auditing(), a.figuring(), a.streaming(), {Missing: in(a.Fates != nil, noLive), Does: []operation.Handler{api.GetLive.By(a.live)}}, a.deadLetters(), a.queueing(), a.finding(), a.operations()}, a.Rooms) {
		for _, h := range r.Does {
			if r.System != "" {
				own := *h.Description
				own.System, h.Description = r.System, &own
			}
			a.does = append(a.does, h)
			do := func(w http.ResponseWriter, req *http.Request) {
				var err error = operation.Refuse(http.StatusNotFound, "%s", r.Missing)
				if r.Missing == "" {
					err = a.trailed(w, req, h.Description, h.Serve)
				}
				if err != nil {
					a.fail(w, req, a.withNow(req, h.Description, err))
				}
			}
			a.mux.HandleFunc(operation.Pattern(h.Description), a.telling(h.Description, timed.of(h.Description, shrunk(h.Description, func(w http.ResponseWriter, req *http.Request) {
				who := caller.From(req.Context())
				needed, what := operation.Needs(h.Description, req)
				req = req.WithContext(operation.WithSystem(withSight(req.Context(), sight{who.Name, who.Rights, needed.Role}), r.System))
				if err := a.admit(w, req, h.Description); err != nil {
					a.fail(w, req, err)
					return
				}
				if err := a.may(who, needed, what); err != nil {
					a.refusedBy(req, h.Description, err)
					a.fail(w, req, err)
					return
				}
				end, err := a.turn(w, req, h.Description)
				if err != nil {
					a.fail(w, req, err)
					return
				}
				defer end()
				req = req.WithContext(giveway.Waited(req.Context()))
				if keys := req.Header.Values(operation.IdempotencyKey); h.Secret && len(keys) > 0 {
					a.fail(w, req, operation.Refuse(http.StatusBadRequest, "%s takes no Idempotency-Key, as nothing is kept of its secret: leave it out", h.ID))
				} else if h.Method == http.MethodGet || h.OwnKey || len(keys) == 0 {
					do(w, req) // entries have ids that are made of the key
				} else if err := a.once(w, req, h.MaxBody(), do); err != nil {
					a.fail(w, req, err)
				}
			}))))
		}
	}
	return a
}

// shrunk has answers sent gzipped, but streams, of which each part goes out at once, and secrets.
func shrunk(d *operation.Description, do http.HandlerFunc) http.HandlerFunc {
	if d.Secret || d.Events {
		return do
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w, end := shrink.Answer(w, r)
		do(w, r)
		end()
	}
}

// telling has each answer of an operation that goes away say so.
func (a *API) telling(d *operation.Description, do http.HandlerFunc) http.HandlerFunc {
	if d.Going == nil {
		return do
	}
	return func(w http.ResponseWriter, r *http.Request) {
		d.Going.Tell(w.Header(), a.base()+"/console/reference/"+d.ID)
		do(w, r)
	}
}

// may says why a caller may not do something, which people call what; nil: they may.
func (a *API) may(who caller.Caller, d *operation.Description, what string) error {
	switch {
	case d.May(who.Rights) && d.Fresh && !who.Fresh(a.now(), operation.FreshFor):
		return operation.NeedLogin(d.ID)
	case d.May(who.Rights):
		return nil
	case who.Rights == (caller.Rights{}):
		return operation.Refuse(http.StatusUnauthorized, "nobody is logged in: %s needs the role %v", what, d.Role)
	}
	return d.Forbid(what, who)
}

// Operations are all that the API does.
func (a *API) Operations() []operation.Handler { return slices.Clone(a.does) }

// ServeHTTP admits the caller and answers.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = operation.Identified(w, r)
	who, err := a.guard.Caller(r)
	if err != nil {
		protect(w)
		if p, ok := errors.AsType[*operation.Problem](err); ok && p.Status == http.StatusTooManyRequests { // of somebody who tries many tokens
			w.Header().Set("Connection", "close")
		}
		a.fail(w, r, err)
		return
	}
	ctx := context.WithValue(caller.With(r.Context(), who), outsideKey{}, true)
	a.inside(w, r.WithContext(a.withRights(ctx, r, who)))
}

// Inside answers requests of this process, whose context says who their caller is.
func (a *API) Inside() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.inside(w, operation.Identified(w, r)) })
}

// protect keeps an answer from being kept, or taken for something else than it is.
func protect(w http.ResponseWriter) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
}

func (a *API) inside(w http.ResponseWriter, r *http.Request) {
	protect(w)
	if r.Method == http.MethodGet || r.Method == http.MethodHead { // it changes nothing
		r = r.WithContext(aside.Reading(r.Context()))
	}
	if a.Config != nil && len(a.Config().Console.Cover) > 0 {
		r = r.WithContext(operation.WithCover(r.Context(), a.Config().Console.Cover))
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
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		try := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(try); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return operation.Refuse(http.StatusNotFound, "the API has no %s", r.URL.Path)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return operation.Refuse(http.StatusMethodNotAllowed, "%s cannot be %s; use %s", r.URL.Path, r.Method, strings.Join(allowed, " or "))
}

// fail answers with a problem.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*operation.Problem](err)
	if !ok {
		p = operation.Refuse(http.StatusInternalServerError, "%v", err)
	}
	if t := operation.TraceOf(r.Context()); t != nil {
		said := *p
		said.Instance, said.Trace, p = t.ID, t.Whole, &said
	}
	if !ok && r.Context().Err() == nil {
		// Logged when an operation of the API ends with an error that is not the caller's; the answer
		// is 500.
		// To do: see whether the database that the error names is well; report it if none is named.
		a.Log.ErrorContext(r.Context(), "an operation of the API failed", "path", r.URL.Path, "error", err)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.After > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.After))
	}
	problem(w, r, p)
}
