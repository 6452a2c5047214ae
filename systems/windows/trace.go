package windows

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// follow begins the span of a record that is sent, under the trace that it came with, and links it
// and the window's span to each other.
func (p *part) follow(x *sending, r *window.Record, m *tidemill.Message) {
	from, ok := tidemill.ParseTrace(r.Trace, "")
	if !ok {
		return
	}
	own := from
	if from.Sampled {
		own = x.s.o.Tracer.Under(&from)
		x.task.Link(&own)
		p.spans = append(p.spans, x.span("send "+m.To, own, from.Span, r.Kind, m.ID))
	}
	m.Header = own.Put(m.Header)
}

// span is one of a record.
func (x *sending) span(name string, own tidemill.Trace, parent [8]byte, kind, id string) tidemill.Span {
	now := x.s.o.Now()
	s := tidemill.Span{Trace: own, Parent: parent, Name: name, Kind: tidemill.SpanProducer, Begin: now, End: now, Attributes: []tidemill.Attribute{
		{Name: "messaging.system", Text: "tidemill"}, {Name: "messaging.operation.type", Text: "send"}, {Name: "messaging.operation.name", Text: "send"},
		{Name: "messaging.message.id", Text: id}, {Name: "tidemill.type", Text: kind}, {Name: "tidemill.batch", Text: x.batch.ID()}}}
	if x.of != nil {
		s.Links = []tidemill.Trace{*x.of}
	}
	return s
}

// followed ends the spans of a part that was sent.
func (x *sending) followed(p *part, err error) {
	refused := map[string]error{}
	for _, r := range p.refused {
		refused[x.sent(r.id)] = r.err
	}
	now := x.s.o.Now()
	for i := range p.spans {
		s := p.spans[i]
		s.End = now
		for _, a := range s.Attributes {
			if a.Name == "messaging.message.id" && refused[a.Text] != nil {
				s.Error = tidemill.KindOf(refused[a.Text]).String()
			}
		}
		if err != nil {
			s.Error = tidemill.KindOf(err).String()
		}
		x.s.o.Tracer.Ended(&s)
	}
}

// died has the span of a record exported that became a dead letter, whether its trace is sampled or
// not.
func (x *sending) died(id, kind, trace string, err error) {
	var own tidemill.Trace
	from, ok := tidemill.ParseTrace(trace, "")
	if ok {
		own = x.s.o.Tracer.Under(&from)
	} else {
		own = x.s.o.Tracer.Under(nil)
	}
	own.Sampled = true
	s := x.span("process record", own, from.Span, kind, id)
	s.Kind, s.Error = tidemill.SpanInternal, tidemill.KindOf(err).String()
	x.s.o.Tracer.Ended(&s)
}
