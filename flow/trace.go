package flow

import (
	"time"

	"github.com/tidemill/tidemill"
)

// Trace has the messages of a pipeline followed: each hand-out is a span under the trace that the
// message came with, and what is made of the message goes on under that span. Messages that die are
// exported also where their trace is not sampled. It is called before Run.
func (e *Engine) Trace(t tidemill.Tracer) { e.tracer = t }

// following is the span of a hand-out that has not ended.
type following struct {
	own   tidemill.Trace
	came  time.Time // it was handed out
	links []tidemill.Trace
}

// follow begins the spans of messages that were just received.
func (e *Engine) follow(tasks []*Task) {
	now := e.p.Now()
	for _, t := range tasks {
		t.span = &following{came: now}
		if from, ok := tidemill.TraceOf(&t.Message); !ok {
			t.span.own = e.tracer.Under(nil)
		} else if from.Sampled {
			t.span.own = e.tracer.Under(&from)
		} else {
			t.span.own = from
		}
		t.Trace = &t.span.own
	}
}

// maxLinks is how many traces a span is of, beside its own.
const maxLinks = 128

// Link says that the message is of another trace, too: its span is linked to that, and exported where
// that is sampled. Where messages are not followed it does nothing.
func (t *Task) Link(to *tidemill.Trace) {
	if t.span == nil {
		return
	}
	n := len(t.span.links)
	if n == maxLinks || n > 0 && t.span.links[n-1] == *to {
		return
	}
	if t.span.links = append(t.span.links, *to); to.Sampled && !t.Trace.Sampled {
		own := *t.Trace
		own.Sampled = true
		t.Trace = &own
	}
}

// followed ends the spans of messages that were settled.
func (d *settler) followed(tasks []*Task, ends []tidemill.Settlement) {
	now := d.e.p.Now()
	for i, t := range tasks {
		end := &ends[i]
		died := end.End == tidemill.Done && end.Fate == tidemill.Dead && end.Outcome != tidemill.Stale
		if !unanswered(*end) && t.span != nil && (t.Trace.Sampled || died) {
			d.e.tracer.Ended(d.e.spanOf(t, end, now))
		}
	}
}

// spanOf is the span of a hand-out that has ended. It has ids of the message, and nothing of its
// content.
func (e *Engine) spanOf(t *Task, end *tidemill.Settlement, now time.Time) *tidemill.Span {
	s := &tidemill.Span{Trace: *t.Trace, Name: "process " + e.p.Name, Kind: tidemill.SpanConsumer, Begin: t.span.came, End: now, Links: t.span.links}
	if from, ok := tidemill.TraceOf(&t.Message); ok {
		if s.Parent = from.Span; from.Span == s.Trace.Span { // not sampled: it has no span of its own yet
			s.Trace = e.tracer.Under(&from)
		}
	}
	s.Trace.Sampled = true
	place := t.To
	if place == "" {
		place = e.p.Name
	}
	s.Attributes = append(make([]tidemill.Attribute, 0, 12),
		tidemill.Attribute{Name: "messaging.system", Text: "tidemill"},
		tidemill.Attribute{Name: "messaging.operation.type", Text: "process"},
		tidemill.Attribute{Name: "messaging.operation.name", Text: "process"},
		tidemill.Attribute{Name: "messaging.destination.name", Text: place},
		tidemill.Attribute{Name: "messaging.message.id", Text: t.ID},
		tidemill.Attribute{Name: "messaging.message.body.size", Number: int64(len(t.Payload))},
		tidemill.Attribute{Name: "tidemill.pipeline", Text: e.p.Name},
		tidemill.Attribute{Name: "tidemill.tries", Number: int64(t.Tries)},
		tidemill.Attribute{Name: "tidemill.end", Text: endOf(end)})
	for _, a := range []tidemill.Attribute{{Name: "tidemill.tenant", Text: t.Tenant}, {Name: "tidemill.type", Text: t.Type}} {
		if a.Text != "" {
			s.Attributes = append(s.Attributes, a)
		}
	}
	switch {
	case end.Kind != tidemill.NoKind:
		s.Error = end.Kind.String()
	case end.Fate == tidemill.Dead:
		s.Error = tidemill.Unknown.String()
	case end.Fate == tidemill.Skipped:
		s.Attributes = append(s.Attributes, tidemill.Attribute{Name: "tidemill.reason", Text: end.Cause})
	}
	return s
}

// endOf is how a hand-out ended, in a word: a fate, again, left, or stale where that did not count.
func endOf(end *tidemill.Settlement) string {
	switch {
	case end.Outcome == tidemill.Stale:
		return "stale"
	case end.End == tidemill.Again:
		return "again"
	case end.End == tidemill.Left:
		return "left"
	}
	return end.Fate.String()
}
