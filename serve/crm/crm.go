// Package crm is the HTTP door of the CRM system: use it where business applications send
// the events of their tenants.
//
//	POST /v1/crm/events        one event or an array; a key of the tenant
//	GET  /v1/crm/events/{id}   where an event is; a key of its tenant
//
// A 202 means that every event it calls accepted is durable in the queue. The same event
// sent again, whatever else comes with it, is a duplicate and changes nothing: after a
// timeout or a 503 all of the request may be sent once more.
//
// Everything a client may take is bounded: bytes as sent and inflated, events, the time to
// send a body, requests at once and the memory of all of them. Connections and headers are
// the server's to bound.
package crm

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/request"
)

// Path of the door.
const Path = "/v1/crm/events"

// Serves says whether a path, as a request has it, is the door's.
func Serves(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

// Handler is the door: an http.Handler with all its paths. It may be used by any number
// of goroutines.
type Handler struct {
	o       Options
	keys    *request.Keyring
	bodies  *request.Bodies
	stats   *stats
	minutes request.Minutes
	running atomic.Int64 // requests
}

// New makes a door.
func New(o Options) (*Handler, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	h := &Handler{o: o, bodies: request.NewBodies(request.Limits{Memory: o.Limits.Memory, Ratio: o.Limits.Ratio, Time: o.Limits.Time, Trusted: o.TrustProxy})}
	if h.keys, err = request.NewKeyring(o.Projects, o.Now, o.Log.With("system", "crm")); err != nil {
		return nil, fmt.Errorf("the door of CRM: %w", err)
	}
	if h.stats, err = newStats(o.Registerer); err != nil {
		return nil, fmt.Errorf("the door of CRM: register metrics: %w", err)
	}
	return h, nil
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: h, w: w, r: r}
	x.body.Open(h.bodies, r)
	start := time.Now()
	defer x.end(start)
	answer.Secure(w.Header())
	if h.running.Add(1) > int64(h.o.Limits.Requests) {
		x.fail(answer.Busy("too many requests at once, please retry"))
		return
	}
	path := r.URL.EscapedPath() // an id may have a slash
	rest, one := strings.CutPrefix(path, Path+"/")
	var do func() *answer.Problem
	allow := http.MethodPost
	switch {
	case path == Path:
		do = x.post
	case one && rest != "":
		allow = http.MethodGet
		do = func() *answer.Problem { return x.status(rest) }
	default:
		x.fail(answer.NotFound("there is nothing at this path; events go to POST " + Path))
		return
	}
	if r.Method != allow {
		w.Header().Set("Allow", allow)
		x.fail(&answer.Problem{Code: http.StatusMethodNotAllowed, Word: "method_not_allowed", Text: "this path takes " + allow})
		return
	}
	if p := do(); p != nil {
		x.fail(p)
	}
}

// unescaped is the id that a part of a path stands for.
func unescaped(part string) (string, bool) {
	id, err := url.PathUnescape(part)
	return id, err == nil
}
