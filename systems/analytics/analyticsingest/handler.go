package analyticsingest

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// Handler is the endpoint: an http.Handler with all its routes. It may be used by any number
// of goroutines.
type Handler struct {
	*endpoint.Frame[*exchange]
	o          Options
	volume     *volume
	scripts    *scripts // nil: none
	routes     map[string]*route
	metaHeader []byte // never written to
	over       atomic.Pointer[over]
}

type route = endpoint.Route[*exchange]

// over is the rate of a project, 0 for none, and what is answered over it.
type over struct{ rate, status int }

// Limit changes the limits of projects, as Limits.Rate, Limits.Quota and RateStatus have them. A meter
// that was given keeps its own unless it is a Limiter.
func (h *Handler) Limit(rate, quota, status int) {
	if m, ok := h.o.Meter.(Limiter); ok {
		m.Limit(rate, quota)
	}
	h.over.Store(&over{rate, status})
}

// exchange is one request and its answer. The path that it is counted by is the protocol that
// its client speaks.
type exchange struct {
	endpoint.Exchange
	h     *Handler
	batch *batch
}

// New makes an endpoint.
func New(o Options) (*Handler, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	h := &Handler{o: o, metaHeader: []byte(event.MetaHeader)}
	h.over.Store(&over{o.Limits.Rate, o.RateStatus})
	h.routes = h.table()
	l := &endpoint.Limits{Body: max(o.Limits.Native, o.Limits.PostHog), Items: o.Limits.Events, Ratio: o.Limits.Ratio, Memory: o.Limits.Memory, Time: o.Limits.Body,
		Requests: math.MaxInt} // connections bound them
	var err error
	h.Frame, err = endpoint.New(endpoint.Protocol[*exchange]{
		Name: "ingest", System: "analytics", New: func() *exchange { return &exchange{h: h, batch: new(batch)} }, Done: (*exchange).done,
		Find: (*exchange).find, Help: "events go to /v1/batch (native and Segment), /batch or /e (PostHog), /i/v1/analytics/events (PostHog v1) or /v1/cloudevents",
		Fail: (*exchange).fail, Options: (*exchange).handshake, CORS: &endpoint.CORS{Code: http.StatusOK, Expose: []string{"Retry-After"}},
		Defaults: endpoint.Limits{Memory: 256 * mib, Time: bodyTime},
		// As sent, inflated, while one grows, and the queue's copy; and what is made of events.
		// Twice, because who shows no key in the header has half.
		Least: func(l *endpoint.Limits) int64 { return 2 * (4*int64(l.Body) + int64(l.Items)*eventMemory) },
		Metrics: endpoint.Metrics{Requests: "tidemill_ingest_requests_total", RequestsHelp: "Requests answered, by protocol and status code.",
			Items: "tidemill_ingest_events_total", ItemsHelp: "Events judged, by protocol and verdict: accepted, known, the reason of a refusal, or why they were not kept.",
			Seconds: "tidemill_ingest_request_seconds", Buckets: endpoint.Buckets(), Label: "protocol", Paths: protocols},
	}, &h.o.Options, l)
	if err != nil {
		return nil, err
	}
	if h.o.Meter == nil {
		h.o.Meter = newMemoryMeter(o.Limits.Rate, o.Limits.Quota, h.o.Now)
	}
	if h.volume, err = newVolume(o.Registerer); err != nil {
		return nil, fmt.Errorf("ingest: register metrics: %w", err)
	}
	if h.scripts, err = openScripts(o.Scripts); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	return h, nil
}

// queueOf names the queue of a project's events.
func (h *Handler) queueOf(project uuid.UUID) string {
	if h.o.Route != nil {
		if q := h.o.Route(project); q != "" {
			return q
		}
	}
	return h.o.Queue
}

func (h *Handler) table() map[string]*route {
	const get, post, both = "GET, HEAD", "POST, OPTIONS", "GET, POST, OPTIONS"
	t := map[string]*route{
		"/health": {Path: none, Allow: get, Do: (*exchange).health},
		"/ready":  {Path: none, Allow: get, Do: (*exchange).ready},

		"/v1/batch":       {Path: native, Allow: post, Do: (*exchange).sharedBatch},
		"/v1/import":      {Path: native, Allow: post, Do: (*exchange).sharedImport},
		"/v1/cloudevents": {Path: cloudEvents, Allow: post, Do: (*exchange).cloudEvents},

		"/batch":                 {Path: postHog, Allow: both, Do: (*exchange).postHogBatch},
		"/i/v1/analytics/events": {Path: postHogV1, Allow: post, Do: (*exchange).postHogV1},
		"/i/v1/ai/events":        {Path: postHogV1, Allow: post, Do: (*exchange).postHogV1},
		"/flags":                 {Path: none, Allow: both, Do: (*exchange).flags},
		"/decide":                {Path: none, Allow: both, Do: (*exchange).decide},
		"/api/surveys":           {Path: none, Allow: both, Do: (*exchange).surveys},
		"/s":                     {Path: none, Allow: both, Do: (*exchange).recordings},
		"/array/{key}/config":    {Path: none, Allow: "GET, HEAD, OPTIONS", Do: (*exchange).remoteConfig},
		"/array/{key}/config.js": {Path: none, Allow: "GET, HEAD, OPTIONS", Do: (*exchange).remoteConfigScript},
		"/v1/b":                  {Path: segment, Allow: post, Do: (*exchange).segmentBatch},

		"/static/{script}":                        {Path: none, Allow: "GET, HEAD, OPTIONS", Do: (*exchange).posthogScript},
		"/static/{version}/{script}":              {Path: none, Allow: "GET, HEAD, OPTIONS", Do: (*exchange).posthogScript},
		"/analytics.js/v1/{key}/analytics.min.js": {Path: none, Allow: "GET, HEAD, OPTIONS", Do: (*exchange).segmentLoader},
		"/analytics-next/bundles/{script}":        {Path: none, Allow: "GET, HEAD, OPTIONS", Do: (*exchange).segmentBundle},
		"/v1/projects/{key}/settings":             {Path: none, Allow: "GET, HEAD, OPTIONS", Do: (*exchange).segmentSettings},
	}
	for _, path := range [...]string{"/e", "/capture", "/track", "/engage", "/i/v0/e"} {
		t[path] = &route{Path: postHog, Allow: both, Do: (*exchange).postHogSingle}
	}
	for _, call := range [...]string{"track", "identify", "page", "screen", "group", "alias"} {
		r := &route{Path: segment, Allow: post, Do: func(x *exchange) *request.Problem { return x.segmentCall(call) }}
		t["/v1/"+call], t["/v1/"+call[:1]] = r, r
	}
	for _, r := range t {
		r.Pages = true
	}
	return t
}

// nothing is where there is no path: a page may read that.
var nothing = &route{Pages: true}

// find returns the route of a path, with or without a slash at its end, and with double
// slashes, which come from SDKs whose address ends in one. It never redirects: SDKs take
// that for an error, or for success.
func (x *exchange) find() *route {
	path := x.R.URL.Path
	if r := x.h.routes[path]; r != nil {
		return r
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
	if r := x.h.routes["/"+strings.Join(parts, "/")]; r != nil {
		return r
	}
	return nothing
}

// done counts the body, and leaves memory for the next request.
func (x *exchange) done() {
	x.h.volume.add(x.Path, x.Body.Sent, len(x.Body.Bytes))
	x.batch.reset()
}

// events parses the body.
func (x *exchange) events(limit int, lists ...string) *request.Problem {
	x.batch.received = x.At.UTC().Truncate(time.Millisecond)
	v := &x.batch.envelope
	if p := v.parse(x.Body.Bytes, limit, lists...); p != nil {
		return p
	}
	// What is made of the body takes memory too: a job of each event, and the queue's copy.
	// As with buffers, what is small always has room.
	cost := int64(len(v.events))*int64(eventMemory+len(v.context)) + int64(len(x.Body.Bytes))
	if cost <= 2*request.Small {
		return nil
	}
	return x.Reserve(cost)
}

// eventMemory is about what an event takes beside its bytes, from here until it is durable.
const eventMemory = 1 << 10

// beacon says whether the client wants an answer without a body.
func (x *exchange) beacon() bool {
	return x.R.URL.RawQuery != "" && x.R.URL.Query().Get("beacon") == "1"
}

// handshake answers a CloudEvents sender that asks whether it may send.
func (x *exchange) handshake() {
	origin := x.R.Header.Get("WebHook-Request-Origin")
	if origin == "" || x.Path != cloudEvents {
		return
	}
	x.Header.Set("WebHook-Allowed-Origin", origin)
	if x.R.Header.Get("WebHook-Request-Rate") != "" {
		rate := "*"
		if n := x.h.over.Load().rate; n > 0 {
			rate = strconv.Itoa(n)
		}
		x.Header.Set("WebHook-Allowed-Rate", rate)
	}
}

// answer ends the exchange.
func (x *exchange) answer(status int, contentType, body string) {
	if contentType != "" {
		x.Header.Set("Content-Type", contentType)
		x.Header.Set("X-Content-Type-Options", "nosniff")
	}
	x.Send(status, []byte(body))
}

func (x *exchange) json(status int, body string) { x.answer(status, "application/json", body) }

// fail says a problem in the words of the protocol.
func (x *exchange) fail(p *request.Problem) {
	switch {
	case p.Reason == endpoint.NotAllowed:
		x.failNative(p)
	case x.Path == postHog:
		x.answer(p.Status, "text/plain; charset=utf-8", p.Text)
	case x.Path == postHogV1:
		x.failPostHogV1(p)
	case x.Path == segment:
		x.failSegment(p)
	default:
		x.failNative(p)
	}
}
