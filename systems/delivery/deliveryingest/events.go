// Package deliveryingest is the HTTP endpoint of delivery: use it where sites and their servers send
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
package deliveryingest

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

// Handler is the endpoint: an http.Handler with all its paths. It may be used by any number
// of goroutines.
type Handler struct {
	*endpoint.Frame[*exchange]
	o Options
}

// exchange is one request and its answer, in memory that is used again.
type exchange struct {
	endpoint.Exchange
	h    *Handler
	rest string // of the path: a name
	day  day    // what the site's day was charged

	site   string
	set    Site
	items  []accept.Item
	many   bool // the body is an array
	ask    accept.Request
	fields [4]tidemill.Field
	agent  []byte   // in fields, as stamp is
	stamp  [24]byte // when the request came
}

// maxItems is how many items of an exchange are used again.
const maxItems = 64

// forget leaves only memory for the next request.
func (x *exchange) forget() {
	clear(x.items)
	items := x.items[:0]
	if cap(items) > maxItems {
		items = nil
	}
	*x = exchange{Exchange: x.Exchange, h: x.h, items: items, agent: x.agent[:0]}
}

// eventMemory is about what an event takes beside its bytes, from here until it is durable.
const eventMemory = 2 << 10

// New makes an endpoint.
func New(o Options) (*Handler, error) {
	if o.Acceptor == nil || o.Rules == nil || o.Projects == nil {
		return nil, errors.New("events: an acceptor, rules and projects are needed")
	}
	if o.Sites == nil {
		o.Sites = func(string) (Site, bool) { return Site{}, false }
	}
	h := &Handler{o: o}
	var err error
	h.Frame, err = endpoint.New(endpoint.Protocol[*exchange]{
		Name: "events", System: "delivery", New: func() *exchange { return &exchange{h: h} }, Done: (*exchange).forget,
		Find: find, Help: "events go to POST /v1/events", CORS: cors, Headers: headers, HSTS: true,
		Defaults: endpoint.Limits{Body: 1 << 20, Items: 500, Memory: 64 << 20, PerMinute: 1000},
		// As sent, inflated, while it grows, and what is made of it.
		Least: func(l *endpoint.Limits) int64 { return 4*int64(l.Body) + int64(l.Items)*eventMemory },
		Metrics: endpoint.Metrics{Requests: "tidemill_events_requests_total", RequestsHelp: "Requests answered by the ingest API of delivery, by door and status code.",
			Items: "tidemill_events_total", ItemsHelp: "Events judged by the ingest API of delivery, by door and verdict.", Seconds: "tidemill_events_request_seconds", Buckets: endpoint.Buckets(),
			Label: "door", Paths: []string{"none", "events", "collect", "pixel", "convert"}, Verdicts: []string{accepted, duplicate, rejected, repeated, limited, unkept}, Usual: http.StatusAccepted},
	}, &h.o.Options, &h.o.Limits)
	if h.o.Meter == nil {
		h.o.Meter = endpoint.NewMeter(h.o.Now)
	}
	return h, err
}

// What requests are counted by: their path.
const (
	elsewhere = iota // paths that there are not, status, schemas
	api
	collect
	_ // pixels are counted as collect
	convert
)

// What became of an event.
const (
	accepted  = "accepted"
	duplicate = "duplicate"
	rejected  = "rejected"
	repeated  = "repeated" // of a request that was answered before
	limited   = "limited"
	unkept    = "unkept" // it could not be kept then; its sender was asked to retry
)

// headers are those of every answer.
var headers = []endpoint.Header{{Name: "X-Content-Type-Options", Values: []string{"nosniff"}}, {Name: "X-Frame-Options", Values: []string{"DENY"}},
	{Name: "Referrer-Policy", Values: []string{"strict-origin-when-cross-origin"}}}

// cors lets any page ask: whose event it sends is known only later, and checkOrigin then takes
// that back.
var cors = &endpoint.CORS{Code: http.StatusNoContent, Methods: []string{"GET, POST, OPTIONS"},
	Headers: []string{"Content-Type, Content-Encoding, Authorization, X-API-Key, X-Idempotency-Key, X-Schema-Version, X-Priority, Sec-GPC"},
	Expose:  []string{"Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id"}}

// routes are by path; of one that ends in a slash the rest of the path is a name.
var routes = map[string]*endpoint.Route[*exchange]{
	"/v1/events":   {Path: api, Allow: "POST, OPTIONS", Do: (*exchange).post, Pages: true},
	"/collect":     {Path: collect, Allow: "GET, POST, OPTIONS", Do: (*exchange).collect, Pages: true},
	"/s2s/convert": {Path: convert, Allow: "POST", Do: (*exchange).convert},
	"/v1/events/":  {Path: elsewhere, Allow: "GET", Do: (*exchange).status},
	"/v1/schemas/": {Path: elsewhere, Allow: "GET", Do: (*exchange).schema},
}

func find(x *exchange) *endpoint.Route[*exchange] {
	path := x.R.URL.Path
	i := strings.LastIndexByte(path, '/') + 1
	if i == len(path) {
		return nil
	}
	if rt := routes[path]; rt != nil {
		return rt
	}
	x.rest = path[i:]
	return routes[path[:i]]
}

// Handled is what the endpoint has done since it was made.
type Handled struct {
	Requests                                                 uint64 // answered
	Accepted, Duplicate, Rejected, Repeated, Limited, Unkept uint64 // events
}

// Handled says what the endpoint has done so far.
func (h *Handler) Handled() Handled {
	return Handled{h.Requests(), h.Items(accepted), h.Items(duplicate), h.Items(rejected), h.Items(repeated), h.Items(limited), h.Items(unkept)}
}
