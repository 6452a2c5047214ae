package httpsink

import (
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
)

// follow begins the span of a request under the trace of the first of its messages that has one; the
// others are linked.
func (w *write) follow(items []item) {
	w.span = tidemill.Span{Links: w.span.Links[:0]}
	var first *tidemill.Trace
	for _, it := range items {
		switch t := w.batch[it.index].Trace; {
		case t == nil:
		case first == nil || t.Sampled && !first.Sampled:
			first = t
		case t.Sampled:
			w.span.Links = append(w.span.Links, *t)
		}
	}
	w.trace = first
	if first == nil || !first.Sampled || w.sink.o.Tracer == nil {
		return
	}
	w.span.Trace, w.span.Parent, w.span.Begin = w.sink.o.Tracer.Under(first), first.Span, w.sink.o.Now()
	w.trace = &w.span.Trace
}

// followed ends the span of a request.
func (w *write) followed(a *Answer, err error) {
	if w.span.Begin == (time.Time{}) {
		return
	}
	o, s := &w.sink.o, w.span
	method := w.shared.Method
	def(&method, o.Method)
	s.Name, s.Kind, s.End, s.Links = method, tidemill.SpanClient, o.Now(), append([]tidemill.Trace(nil), s.Links...)
	s.Attributes = []tidemill.Attribute{{Name: "http.request.method", Text: method}, {Name: "server.address", Text: w.sink.url.Hostname()}, {Name: "tidemill.destination", Text: o.Name}}
	if port, bad := strconv.Atoi(w.sink.url.Port()); bad == nil {
		s.Attributes = append(s.Attributes, tidemill.Attribute{Name: "server.port", Number: int64(port)})
	}
	if a.Status != 0 {
		s.Attributes = append(s.Attributes, tidemill.Attribute{Name: "http.response.status_code", Number: int64(a.Status)})
	}
	if err != nil {
		s.Error = tidemill.KindOf(err).String()
	}
	o.Tracer.Ended(&s)
}
