package ingest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// Handler is the door: an http.Handler with all its routes. It may be used by any number
// of goroutines.
type Handler struct {
	o          Options
	keys       *request.Keyring
	bodies     *request.Bodies
	stats      *stats
	scripts    *scripts // nil: none
	routes     map[string]route
	batches    sync.Pool // of *batch
	metaHeader []byte    // never written to
}

// route is what one path does. Its do answers, or returns why it does not; then the
// protocol that x speaks by then says so.
type route struct {
	speaks protocol
	allow  string // methods, as the Allow header has them
	do     func(x *exchange) *problem
}

// New makes a door.
func New(o Options) (*Handler, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	h := &Handler{o: o, metaHeader: []byte(event.MetaHeader)}
	h.bodies = request.NewBodies(request.Limits{Memory: o.Limits.Memory, Ratio: o.Limits.Ratio, Time: o.Limits.Body, Trusted: o.TrustProxy})
	h.batches.New = func() any { return new(batch) }
	if h.keys, err = request.NewKeyring(o.Projects, o.Now, o.Log.With("system", "analytics")); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if h.stats, err = newStats(o.Registerer); err != nil {
		return nil, fmt.Errorf("ingest: register metrics: %w", err)
	}
	if h.scripts, err = openScripts(o.Scripts); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	h.routes = h.table()
	return h, nil
}

// Handled says what the door has done so far.
func (h *Handler) Handled() Handled { return h.stats.handled() }

// queueOf names the queue of a project's events.
func (h *Handler) queueOf(project uuid.UUID) string {
	if h.o.Route != nil {
		if q := h.o.Route(project); q != "" {
			return q
		}
	}
	return h.o.Queue
}

func (h *Handler) table() map[string]route {
	const get, post, both = "GET, HEAD", "POST, OPTIONS", "GET, POST, OPTIONS"
	t := map[string]route{
		"/health": {none, get, (*exchange).health},
		"/ready":  {none, get, (*exchange).ready},

		"/v1/batch":       {native, post, (*exchange).sharedBatch},
		"/v1/import":      {native, post, (*exchange).sharedImport},
		"/v1/cloudevents": {cloudEvents, post, (*exchange).cloudEvents},

		"/batch":                 {postHog, both, (*exchange).postHogBatch},
		"/i/v1/analytics/events": {postHogV1, post, (*exchange).postHogV1},
		"/i/v1/ai/events":        {postHogV1, post, (*exchange).postHogV1},
		"/flags":                 {none, both, (*exchange).flags},
		"/decide":                {none, both, (*exchange).decide},
		"/api/surveys":           {none, both, (*exchange).surveys},
		"/s":                     {none, both, (*exchange).recordings},
		"/array/{key}/config":    {none, "GET, HEAD, OPTIONS", (*exchange).remoteConfig},
		"/array/{key}/config.js": {none, "GET, HEAD, OPTIONS", (*exchange).remoteConfigScript},
		"/v1/b":                  {segment, post, (*exchange).segmentBatch},

		"/static/{script}":                        {none, "GET, HEAD, OPTIONS", (*exchange).posthogScript},
		"/static/{version}/{script}":              {none, "GET, HEAD, OPTIONS", (*exchange).posthogScript},
		"/analytics.js/v1/{key}/analytics.min.js": {none, "GET, HEAD, OPTIONS", (*exchange).segmentLoader},
		"/analytics-next/bundles/{script}":        {none, "GET, HEAD, OPTIONS", (*exchange).segmentBundle},
		"/v1/projects/{key}/settings":             {none, "GET, HEAD, OPTIONS", (*exchange).segmentSettings},
	}
	for _, path := range [...]string{"/e", "/capture", "/track", "/engage", "/i/v0/e"} {
		t[path] = route{postHog, both, (*exchange).postHogSingle}
	}
	for _, call := range [...]string{"track", "identify", "page", "screen", "group", "alias"} {
		r := route{segment, post, func(x *exchange) *problem { return x.segmentCall(call) }}
		t["/v1/"+call], t["/v1/"+call[:1]] = r, r
	}
	return t
}

// find returns the route of a path, with or without a slash at its end, and with double
// slashes, which come from SDKs whose address ends in one. It never redirects: SDKs take
// that for an error, or for success.
func (h *Handler) find(path string) (route, bool) {
	if r, ok := h.routes[path]; ok {
		return r, true
	}
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	switch {
	case len(parts) == 3 && parts[0] == "array":
		parts[1] = "{key}"
	case len(parts) == 2 && parts[0] == "static":
		parts[1] = "{script}"
	case len(parts) == 3 && parts[0] == "static":
		parts[1], parts[2] = "{version}", "{script}"
	case len(parts) == 3 && parts[0] == "analytics-next":
		parts[2] = "{script}"
	case len(parts) == 4 && (parts[0] == "analytics.js" || parts[1] == "projects"):
		parts[2] = "{key}"
	}
	r, ok := h.routes["/"+strings.Join(parts, "/")]
	return r, ok
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: h, w: w, r: r, at: h.o.Now().UTC().Truncate(time.Millisecond)}
	x.body.Open(h.bodies, r)
	start := time.Now()
	defer x.end(start)
	x.allowOrigin()
	rt, ok := h.find(r.URL.Path)
	if !ok {
		x.json(http.StatusNotFound, `{"ok":false,"error":"there is nothing at this path; events go to /v1/batch (native and Segment), /batch or /e (PostHog), /i/v1/analytics/events (PostHog v1) or /v1/cloudevents"}`)
		return
	}
	x.speaks = rt.speaks
	switch {
	case !allows(rt.allow, r.Method):
		w.Header().Set("Allow", rt.allow)
		x.json(http.StatusMethodNotAllowed, `{"ok":false,"error":"this path takes `+rt.allow+`"}`)
	case r.Method == http.MethodOptions:
		x.options(rt.allow)
	default:
		if p := rt.do(x); p != nil {
			x.fail(p)
		}
	}
}

func allows(allow, method string) bool {
	for m := range strings.SplitSeq(allow, ", ") {
		if m == method {
			return true
		}
	}
	return false
}

// exchange is one request and its answer.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	at     time.Time // when it was received, in milliseconds
	speaks protocol
	status int
	owner  request.Owner
	batch  *batch // nil until the body is there
	body   request.Body
}

// end gives back all memory and counts the request.
func (x *exchange) end(start time.Time) {
	x.h.stats.request(x.speaks, x.status, x.body.Sent, len(x.body.Bytes), time.Since(start))
	x.body.Close()
	if x.batch != nil {
		x.batch.reset()
		x.h.batches.Put(x.batch)
	}
}

// events parses the body.
func (x *exchange) events(limit int, lists ...string) *problem {
	x.batch = x.h.batches.Get().(*batch)
	if p := x.batch.envelope.parse(x.body.Bytes, limit, lists...); p != nil {
		return p
	}
	// What is made of the body takes memory too: a job of each event, and the queue's copy.
	// As with buffers, what is small always has room.
	v := &x.batch.envelope
	cost := int64(len(v.events))*int64(eventMemory+len(v.context)) + int64(len(x.body.Bytes))
	if cost <= 2*request.Small {
		return nil
	}
	if !x.body.Reserve(cost) {
		return busy("memory", "too many large requests at once, please retry")
	}
	return nil
}

// eventMemory is about what an event takes beside its bytes, from here until it is durable.
const eventMemory = 1 << 10

// beacon says whether the client wants an answer without a body.
func (x *exchange) beacon() bool {
	return x.r.URL.RawQuery != "" && x.r.URL.Query().Get("beacon") == "1"
}

// allowOrigin lets every web page send events: a key is in its source anyway.
func (x *exchange) allowOrigin() {
	origin := x.r.Header.Get("Origin")
	if origin == "" {
		return
	}
	h := x.w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true") // which forbids a "*" above
	h.Set("Access-Control-Expose-Headers", "Retry-After")
	h.Add("Vary", "Origin")
}

// options answers a browser's preflight, and the handshake of a CloudEvents sender.
func (x *exchange) options(allow string) {
	h := x.w.Header()
	h.Set("Allow", allow)
	if x.r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", allow)
		h.Set("Access-Control-Max-Age", "86400")
		if asked := x.r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
			h.Add("Vary", "Access-Control-Request-Headers")
		}
	}
	if origin := x.r.Header.Get("WebHook-Request-Origin"); origin != "" && x.speaks == cloudEvents {
		h.Set("WebHook-Allowed-Origin", origin)
		if x.r.Header.Get("WebHook-Request-Rate") != "" {
			rate := "*"
			if n := x.h.o.Limits.Rate; n > 0 {
				rate = strconv.Itoa(n)
			}
			h.Set("WebHook-Allowed-Rate", rate)
		}
	}
	x.answer(http.StatusOK, "", "")
}

// answer ends the exchange.
func (x *exchange) answer(status int, contentType, body string) {
	x.status = status
	if contentType != "" {
		x.w.Header().Set("Content-Type", contentType)
		x.w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	if status != http.StatusNoContent {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.w.WriteHeader(status)
	if body != "" && x.r.Method != http.MethodHead {
		_, _ = x.w.Write([]byte(body)) // a client that is gone needs no answer
	}
}

func (x *exchange) json(status int, body string) { x.answer(status, "application/json", body) }

// fail says a problem in the words of the protocol.
func (x *exchange) fail(p *problem) {
	if p.after > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(p.after))
	}
	switch x.speaks {
	case postHog:
		x.answer(p.status, "text/plain; charset=utf-8", p.text)
	case postHogV1:
		x.failPostHogV1(p)
	case segment:
		x.failSegment(p)
	default:
		x.failNative(p)
	}
}
