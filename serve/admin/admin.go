// Package admin is the API that operators use: the CLI, scripts and dashboards. What an
// event can be in, it can show; what waits or failed, it can move.
//
// Answers are JSON; listings are one JSON object a line (application/x-ndjson). Errors
// are {"error": "…"} with a sentence that says what to do.
package admin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Prefix of every path of the API.
const Prefix = "/api/v1/"

// System is what the API needs of a running system.
type System struct {
	Name      string
	Pipelines []*flow.Engine
	Audit     func(ctx context.Context) (any, bool, error) // its report, and whether it balances
}

// Sent is what became of events given to Parts.Send.
type Sent struct {
	Accepted int      `json:"accepted"` // durable now, or known before
	Refused  []string `json:"refused"`  // why, one for each event that was not taken
}

// Parts are what the API shows and moves.
type Parts struct {
	Version     string
	Started     time.Time
	Uses        []string        // what it runs on, a line each
	Key         tidemill.Secret // empty: callers on this machine only
	Config      *config.Loaded
	Systems     []System
	Projects    project.Projects
	Persons     person.Directory
	Events      warehouse.Reader
	Letters     deadletter.Store
	Definitions definition.Definitions
	Send        func(ctx context.Context, p uuid.UUID, events [][]byte) (Sent, error) // native format, one JSON object each
	Doctor      func(ctx context.Context) []Finding
	Log         *slog.Logger
}

// Finding is one line of a check-up.
type Finding struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"` // ok, warn, fail
	Detail  string `json:"detail"`
	Advice  string `json:"advice,omitempty"`
}

// API is the handler of everything under Prefix.
type API struct {
	Parts
	mux  *http.ServeMux
	safe *http.CrossOriginProtection
}

// New makes the API.
func New(p Parts) *API {
	a := &API{Parts: p, mux: http.NewServeMux(), safe: http.NewCrossOriginProtection()}
	for pattern, do := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET status":                   a.status,
		"GET audit":                    a.audit,
		"GET config":                   a.config,
		"GET doctor":                   a.doctor,
		"GET projects":                 a.projects,
		"GET events":                   a.events,
		"GET persons":                  a.person,
		"GET definitions":              a.definitions,
		"GET warnings":                 a.warnings,
		"POST events":                  a.send,
		"GET dead":                     a.dead,
		"GET dead/{seq}":               a.letter,
		"POST dead/replay":             a.replay,
		"POST dead/delete":             a.discard,
		"POST pipelines/{name}/pause":  a.pause,
		"POST pipelines/{name}/resume": a.resume,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		a.mux.HandleFunc(method+" "+Prefix+path, func(w http.ResponseWriter, r *http.Request) {
			if err := do(w, r); err != nil {
				a.fail(w, r, err)
			}
		})
	}
	a.mux.HandleFunc(Prefix, func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, refused(http.StatusNotFound, "the API has no %s %s", r.Method, r.URL.Path))
	})
	return a
}

// ServeHTTP admits the caller and answers.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := a.admit(r); err != nil {
		a.fail(w, r, err)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// admit lets in who has the key; without one, only programs on this machine: a page in a
// browser is kept out by its origin, and a name that was made to point here by the Host
// it was asked for.
func (a *API) admit(r *http.Request) error {
	if err := a.safe.Check(r); err != nil {
		return refused(http.StatusForbidden, "this request comes from another site's page")
	}
	if !a.Key.IsZero() {
		got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(got), []byte(a.Key.Reveal())) != 1 {
			return refused(http.StatusUnauthorized, "the API needs its key: set TIDEMILL_TOKEN, or send Authorization: Bearer …")
		}
		return nil
	}
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if err != nil || !config.Loopback(remote) || !config.Loopback(strings.Trim(host, "[]")) {
		return refused(http.StatusForbidden, "without a key (admin.key) the API answers callers on this machine only")
	}
	return nil
}

// refusal is an error with its HTTP status.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refused(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if f, ok := errors.AsType[*refusal](err); ok {
		status = f.status
	} else if r.Context().Err() == nil {
		a.Log.ErrorContext(r.Context(), "api", "path", r.URL.Path, "error", err)
	}
	write(w, status, map[string]string{"error": err.Error()})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone, or will see that it is cut
}

// lines streams a listing; once it has begun an error can only cut it off, so it is its
// last line.
type lines struct {
	w   http.ResponseWriter
	n   int
	enc *json.Encoder
}

func stream(w http.ResponseWriter) *lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return &lines{w: w, enc: json.NewEncoder(w)}
}

func (l *lines) raw(b []byte) error {
	l.n++
	_, err := l.w.Write(append(b, '\n'))
	return err
}

func (l *lines) add(v any) error {
	l.n++
	return l.enc.Encode(v)
}

// end reports an error of the listing.
func (l *lines) end(err error) error {
	if err == nil || l.n == 0 {
		return err
	}
	_ = l.enc.Encode(map[string]string{"error": err.Error()})
	panic(http.ErrAbortHandler) // the client must not take it for the whole
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
	id := project.ID(name)
	if _, err := a.Projects.Find(r.Context(), id); errors.Is(err, project.ErrUnknown) {
		ps, _ := a.Projects.List(r.Context())
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
