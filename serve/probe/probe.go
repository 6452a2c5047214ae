// Package probe answers the health probes of orchestrators, in the form that those of a
// bridge know:
//
//	/health /healthz /heathz   200 {"status":"healthy","timestamp":…} or
//	                           503 {"status":"unhealthy","message":…,"timestamp":…}
//	/ready                     200 ready or 503 not_ready: by its state, and where it could not
//	                           work as it is set up (an error of kind validation)
//	/live                      200 alive
package probe

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
)

// Probes know what was found when it was last looked. Its methods may be called from
// anywhere.
type Probes struct {
	running func() bool // whether the system is in the state that it should be in
	now     func() time.Time

	mu     sync.Mutex // guards what follows
	looked bool
	found  error
}

// New makes probes of a system. Until the first Set it is unhealthy.
func New(running func() bool, now func() time.Time) *Probes {
	return &Probes{running: running, now: now}
}

// Set notes what was found: nil, or what is wrong with the servers it needs.
func (p *Probes) Set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked, p.found = true, err
}

// Healthy says what is wrong, if anything.
func (p *Probes) Healthy() error {
	if !p.running() {
		return errors.New("it is not running")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.looked {
		return errors.New("it was not looked yet")
	}
	return p.found
}

// Register puts the probes where they are asked for.
func (p *Probes) Register(mux *http.ServeMux) {
	for _, path := range []string{"/health", "/healthz", "/heathz"} {
		mux.HandleFunc("GET "+path, p.health)
	}
	mux.HandleFunc("GET /ready", p.ready)
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "alive") })
}

// Paths are those that Register takes.
var Paths = []string{"/health", "/healthz", "/heathz", "/ready", "/live"}

// useless says that what was found is no fault that passes.
func (p *Probes) useless() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found != nil && tidemill.KindOf(p.found) == tidemill.Validation
}

func (p *Probes) ready(w http.ResponseWriter, _ *http.Request) {
	if p.running() && !p.useless() {
		text(w, http.StatusOK, "ready")
		return
	}
	text(w, http.StatusServiceUnavailable, "not_ready")
}

func (p *Probes) health(w http.ResponseWriter, _ *http.Request) {
	answer := struct {
		Status    string `json:"status"`
		Message   string `json:"message,omitempty"`
		Timestamp string `json:"timestamp"`
	}{Status: "healthy", Timestamp: p.now().UTC().Format(time.RFC3339)}
	status := http.StatusOK
	if err := p.Healthy(); err != nil {
		status, answer.Status, answer.Message = http.StatusServiceUnavailable, "unhealthy", err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the one who asked is gone, or reads it
}

func text(w http.ResponseWriter, status int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(s))
}
