// Package crmingest is the HTTP endpoint of the CRM system: use it where business applications send
// the events of their tenants.
//
//	POST /v1/crm/events        one event or an array; a key of the tenant
//	GET  /v1/crm/events/{id}   where an event is; a key of its tenant
//
// A 202 means that every event it calls accepted is durable in the queue. The same event
// sent again, whatever else comes with it, is a duplicate and changes nothing: after a
// timeout or a 503 all of the request may be sent once more.
package crmingest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
)

// Path of the endpoint.
const Path = "/v1/crm/events"

// Serves says whether a path, as a request has it, is the endpoint's.
func Serves(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

// Acceptor takes events in; an *accept.Acceptor is one.
type Acceptor interface {
	Accept(ctx context.Context, raws [][]byte, may func(tenant string) bool) ([]accept.Result, error)
}

// Events knows where events are; a *crm.System does.
type Events interface {
	// Event says where an event is; kind not_found where nothing is known of it.
	Event(ctx context.Context, tenant, id string) (*crm.EventStatus, error)
}

// Options tune the endpoint. Acceptor and Projects are required; a project's name is its
// tenant's id.
type Options struct {
	endpoint.Options
	Acceptor Acceptor
	Events   Events          // nil: where events are is not told
	Limits   endpoint.Limits // by default bodies of 1 MiB with 500 events, in 64 MiB of memory; a minute is a tenant's, on this instance
}

// Handler is the endpoint: an http.Handler with all its paths. It may be used by any number
// of goroutines.
type Handler struct {
	*endpoint.Frame[*exchange]
	o Options
}

// exchange is one request and its answer. Its owner's project is called as the tenant.
type exchange struct {
	endpoint.Exchange
	h *Handler
}

// eventMemory is about what an event takes beside its bytes, from here until it is durable.
const eventMemory = 2 << 10

// What became of an event.
const (
	accepted  = string(accept.Accepted)
	duplicate = string(accept.Duplicate)
	rejected  = string(accept.Rejected)
	limited   = "limited"
	unkept    = "unkept" // it could not be kept then; its sender was asked to retry
)

// New makes an endpoint.
func New(o Options) (*Handler, error) {
	if o.Acceptor == nil || o.Projects == nil {
		return nil, errors.New("the endpoint of CRM: an acceptor and projects are needed")
	}
	h := &Handler{o: o}
	var err error
	h.Frame, err = endpoint.New(endpoint.Protocol[*exchange]{
		Name: "the endpoint of CRM", System: "crm", New: func() *exchange { return &exchange{h: h} },
		Find: find, Help: "events go to POST " + Path, Headers: endpoint.Private,
		Defaults: endpoint.Limits{Body: 1 << 20, Items: 500, Memory: 64 << 20},
		// As sent, inflated, while it grows, and what is made of it.
		Least: func(l *endpoint.Limits) int64 { return 4*int64(l.Body) + int64(l.Items)*eventMemory },
		Metrics: endpoint.Metrics{Requests: "tidemill_crm_requests_total", RequestsHelp: "Requests answered by the ingest API of CRM, by status code.",
			Items: "tidemill_crm_door_events_total", ItemsHelp: "Events judged by the ingest API of CRM, by verdict.", Seconds: "tidemill_crm_request_seconds", Buckets: endpoint.Buckets(),
			Verdicts: []string{accepted, duplicate, rejected, limited, unkept}},
	}, &h.o.Options, &h.o.Limits)
	return h, err
}

var events = &endpoint.Route[*exchange]{Allow: http.MethodPost, Do: (*exchange).post}

func find(x *exchange) *endpoint.Route[*exchange] {
	path := x.R.URL.EscapedPath() // an id may have a slash
	if path == Path {
		return events
	}
	rest, _ := strings.CutPrefix(path, Path+"/")
	if rest == "" || rest == path {
		return nil
	}
	return &endpoint.Route[*exchange]{Allow: http.MethodGet, Do: func(x *exchange) *request.Problem { return x.status(rest) }}
}

// Handled is what the endpoint has done since it was made.
type Handled struct {
	Requests                                       uint64 // answered
	Accepted, Duplicate, Rejected, Limited, Unkept uint64 // events
}

// Handled says what the endpoint has done so far.
func (h *Handler) Handled() Handled {
	return Handled{h.Requests(), h.Items(accepted), h.Items(duplicate), h.Items(rejected), h.Items(limited), h.Items(unkept)}
}
