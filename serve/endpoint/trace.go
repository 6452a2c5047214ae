package endpoint

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
)

// follow begins the span of a request, under that of its sender if it names one.
func (x *Exchange) follow() {
	tracer := x.core.o.Tracer
	if tracer == nil {
		return
	}
	var sender *tidemill.Trace
	if said := x.R.Header["Traceparent"]; len(said) == 1 {
		if t, ok := tidemill.ParseTrace(said[0], strings.Join(x.R.Header["Tracestate"], ",")); ok {
			sender, x.sender = &t, t.Span
		}
	}
	if sender != nil && !sender.Sampled {
		x.Trace = sender
		return
	}
	x.Trace = new(tracer.Under(sender))
}

// Context is that of the request, with its trace.
func (x *Exchange) Context() context.Context { return tidemill.WithTrace(x.R.Context(), x.Trace) }

// followed ends the span of a request, which is exported where its trace is sampled, and where the
// request failed by our fault.
func (x *Exchange) followed() {
	if x.Trace == nil || !x.Trace.Sampled && x.code < http.StatusInternalServerError {
		return
	}
	name, post := x.R.Method, x.R.Method == http.MethodPost // paths of other methods have ids, and keys of pages
	if post {
		name += " " + x.R.URL.Path
	}
	s := &tidemill.Span{Trace: *x.Trace, Parent: x.sender, Name: name, Kind: tidemill.SpanServer, Begin: x.At, End: x.core.o.Now()}
	if s.Trace.Span == x.sender { // not sampled: it has no span of its own yet
		s.Trace = x.core.o.Tracer.Under(x.Trace)
	}
	s.Trace.Sampled = true
	s.Attributes = []tidemill.Attribute{{Name: "http.request.method", Text: x.R.Method},
		{Name: "http.response.status_code", Number: int64(x.code)}, {Name: "tidemill.system", Text: x.core.system}}
	if post {
		s.Attributes = append(s.Attributes, tidemill.Attribute{Name: "url.path", Text: x.R.URL.Path})
	}
	if owner := x.Owner.Project.Name; owner != "" {
		s.Attributes = append(s.Attributes, tidemill.Attribute{Name: "tidemill.tenant", Text: owner})
	}
	if x.code >= http.StatusInternalServerError {
		s.Error = strconv.Itoa(x.code)
	}
	x.core.o.Tracer.Ended(s)
}
