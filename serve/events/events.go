// Package events is the HTTP door of delivery: use it where sites and their servers send
// conversions and tracking events.
//
//	POST /v1/events           one event or an array; a site's key
//	GET  /v1/events/{id}      where an event is; a site's key
//	GET  /v1/schemas/{type}   JSON Schema of a type of events
//	POST /collect             one event from a browser, without a key where the site allows it
//	GET  /collect             the same as a pixel: d=<base64 of the event>&sid=<site>&eid=<its id>
//	POST /s2s/convert         conversions from a server; a site's key
//
// A 202 means that every event it calls accepted is durable in its queue. The rules of
// idempotency are those of package accept, which knows the first answer to each key and
// gives it again.
//
// Everything a client may take is bounded: bytes as sent and inflated, events, the time to
// send a body, requests at once and the memory of all of them. Connections and headers are
// the server's to bound.
package events

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidemill/tidemill/serve/request"
)

// Handler is the door: an http.Handler with all its paths. It may be used by any number
// of goroutines.
type Handler struct {
	o         Options
	keys      *request.Keyring
	bodies    *request.Bodies
	stats     *stats
	running   atomic.Int64 // requests
	exchanges sync.Pool    // of *exchange
}

// New makes a door.
func New(o Options) (*Handler, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	h := &Handler{o: o, bodies: request.NewBodies(request.Limits{Memory: o.Limits.Memory, Ratio: o.Limits.Ratio, Time: o.Limits.Time, Trusted: o.TrustProxy})}
	h.exchanges.New = func() any { return new(exchange) }
	if h.keys, err = request.NewKeyring(o.Projects, o.Now, o.Log.With("system", "delivery")); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	if h.stats, err = newStats(o.Registerer); err != nil {
		return nil, fmt.Errorf("events: register metrics: %w", err)
	}
	return h, nil
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.exchanges.Get().(*exchange)
	x.open(h, w, r)
	defer x.end()
	if h.running.Add(1) > int64(h.o.Limits.Requests) {
		x.fail(busy("too many requests at once, please retry"))
		return
	}
	rt, rest, ok := h.find(r.URL.Path)
	if !ok {
		x.fail(notFound("there is nothing at this path; events go to POST /v1/events"))
		return
	}
	x.door, x.rest = rt.door, rest
	do := rt.post
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		do = rt.get
	case http.MethodOptions:
		if do = nil; rt.browsers {
			do = (*exchange).preflight
		}
	default:
		do = nil
	}
	if rt.browsers {
		x.allowOrigin()
	}
	if do == nil {
		x.header["Allow"] = []string{rt.allow()}
		x.fail(&problem{http.StatusMethodNotAllowed, "method_not_allowed", "this path takes " + rt.allow(), 0, nil})
		return
	}
	if p := do(x); p != nil {
		x.fail(p)
	}
}

// route is what one path does.
type route struct {
	door      door
	get, post func(*exchange) *problem // each answers, or returns why it does not
	browsers  bool                     // may ask, whatever page they show
}

// allow are its methods, as the header Allow has them.
func (r *route) allow() string {
	var all []string
	if r.get != nil {
		all = append(all, "GET")
	}
	if r.post != nil {
		all = append(all, "POST")
	}
	if r.browsers {
		all = append(all, "OPTIONS")
	}
	return strings.Join(all, ", ")
}

// routes are by path; of one that ends in a slash the rest of the path is a name.
var routes = map[string]*route{
	"/v1/events":   {door: api, post: (*exchange).post, browsers: true},
	"/collect":     {door: collect, post: (*exchange).collect, get: (*exchange).pixel, browsers: true},
	"/s2s/convert": {door: convert, post: (*exchange).convert},
	"/v1/events/":  {door: elsewhere, get: (*exchange).status},
	"/v1/schemas/": {door: elsewhere, get: (*exchange).schema},
}

// find returns the route of a path, and the rest of it where that is a name.
func (h *Handler) find(path string) (r *route, rest string, ok bool) {
	if r, ok = routes[path]; ok && path[len(path)-1] != '/' {
		return r, "", true
	}
	i := strings.LastIndexByte(path, '/') + 1
	if r, ok = routes[path[:i]]; !ok || i == len(path) {
		return nil, "", false
	}
	return r, path[i:], true
}
