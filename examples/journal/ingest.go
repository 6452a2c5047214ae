package main

import (
	"context"
	"net/http"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
)

// path of the endpoint: POST takes a note, as it is, from who shows a project's key.
const path = "/v1/notes"

type exchange struct {
	endpoint.Exchange
	add func(context.Context, *tidemill.Message) error
}

// newIngest makes the endpoint. A 202 says that the note is durable.
func newIngest(o endpoint.Options, add func(context.Context, *tidemill.Message) error) (http.Handler, error) {
	post := &endpoint.Route[*exchange]{Allow: http.MethodPost, Do: (*exchange).post}
	return endpoint.New(endpoint.Protocol[*exchange]{Name: "the endpoint of the journal", System: name,
		New: func() *exchange { return &exchange{add: add} },
		Find: func(x *exchange) *endpoint.Route[*exchange] {
			if x.R.URL.Path == path {
				return post
			}
			return nil
		},
		Help: "notes go to POST " + path, Headers: endpoint.Private,
		Defaults: endpoint.Limits{Body: 64 << 10, Items: 1, Memory: 8 << 20},
		Least:    func(l *endpoint.Limits) int64 { return 4 * int64(l.Body) },
		Metrics: endpoint.Metrics{Requests: "journal_requests_total", RequestsHelp: "Requests of the journal's endpoint, by status code.",
			Items: "journal_notes_taken_total", ItemsHelp: "Notes taken in.", Seconds: "journal_request_seconds", Buckets: endpoint.Buckets(), Verdicts: []string{"accepted"}},
	}, &o, &endpoint.Limits{})
}

func (x *exchange) post() *request.Problem {
	if p := x.Authenticate(request.Key(x.R)); p != nil {
		return p
	}
	if p := x.Read(request.Gzip, 64<<10); p != nil {
		return p
	}
	if err := x.add(x.R.Context(), &tidemill.Message{ID: x.Said("Idempotency-Key"), Tenant: x.Owner.Project.ID.String(), Payload: x.Body.Bytes}); err != nil {
		return request.Busy("unkept", "the note cannot be kept now, please retry")
	}
	x.Count("accepted", 1)
	x.JSON(http.StatusAccepted, []byte(`{"accepted":1}`))
	return nil
}
