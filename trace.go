package tidemill

import (
	"context"
	"encoding/hex"
	"time"
)

// Headers in which a trace goes from process to process, as W3C Trace Context has them.
const (
	Traceparent = "traceparent"
	Tracestate  = "tracestate"
)

// A Trace is where something is in a trace: the trace, and the span under which it goes on. It is not
// changed once it is made, and may be shared.
type Trace struct {
	ID      [16]byte
	Span    [8]byte
	Sampled bool   // spans under it are exported
	State   string // what others keep in the trace, as received; empty: nothing
}

// maxState is how many bytes of a tracestate are kept; of a longer one nothing is.
const maxState = 512

// ParseTrace reads a traceparent and a tracestate. ok is false where the first names no trace. One of
// a later version may have more parts.
func ParseTrace(parent, state string) (t Trace, ok bool) {
	const size = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if len(parent) < size || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' {
		return Trace{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		into []byte
		text string
	}{{version[:], parent[:2]}, {t.ID[:], parent[3:35]}, {t.Span[:], parent[36:52]}, {flags[:], parent[53:55]}} {
		if !lowerHex(part.text) {
			return Trace{}, false
		}
		_, _ = hex.Decode(part.into, []byte(part.text)) // what lowerHex takes is some
	}
	more := len(parent) > size
	if version[0] == 0xff || version[0] == 0 && more || more && parent[size] != '-' || t.ID == [16]byte{} || t.Span == [8]byte{} {
		return Trace{}, false
	}
	if t.Sampled = flags[0]&1 != 0; len(state) <= maxState {
		t.State = state
	}
	return t, true
}

func lowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// String is the trace as a traceparent has it.
func (t *Trace) String() string {
	b := make([]byte, 0, 55)
	b = hex.AppendEncode(append(b, "00-"...), t.ID[:])
	b = hex.AppendEncode(append(b, '-'), t.Span[:])
	if t.Sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}

// Put returns the fields of a header with this trace in the place of any that they have. The fields
// given are not changed. Of a nil Trace they are returned as they are.
func (t *Trace) Put(header []Field) []Field {
	if t == nil {
		return header
	}
	all := make([]Field, 0, len(header)+2)
	for _, f := range header {
		if name := string(f.Name); name != Traceparent && name != Tracestate {
			all = append(all, f)
		}
	}
	all = append(all, Field{Name: []byte(Traceparent), Value: []byte(t.String())})
	if t.State != "" {
		all = append(all, Field{Name: []byte(Tracestate), Value: []byte(t.State)})
	}
	return all
}

type traceKey struct{}

// WithTrace is a context with a trace; of a nil Trace, the context as it is.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceIn is the trace of a context; nil: it has none.
func TraceIn(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// TraceOf is the trace that a message came with, by its header.
func TraceOf(m *Message) (t Trace, ok bool) {
	if parent := m.Get(Traceparent); parent != nil {
		return ParseTrace(string(parent), string(m.Get(Tracestate)))
	}
	return Trace{}, false
}

// SpanKind is what a span is to those beside it in its trace.
type SpanKind uint8

// The kinds of spans, as OpenTelemetry has them.
const (
	SpanInternal SpanKind = iota
	SpanServer            // a request that was answered
	SpanClient            // a request that was made
	SpanProducer          // a message that was sent on
	SpanConsumer          // a message that was worked on
)

// Attribute says something of a span: its value is a text, or else a number.
type Attribute struct {
	Name   string
	Text   string
	Number int64 // where Text is empty
}

// A Span is one piece of work that has ended.
type Span struct {
	Trace      Trace   // it itself
	Parent     [8]byte // the span that it is under, in the same trace; zero: none
	Links      []Trace // what it is of, too
	Name       string
	Kind       SpanKind
	Begin, End time.Time
	Error      string // the kind of failure; empty: it did not fail
	Attributes []Attribute
}

// A Tracer takes the spans of this process. A nil Tracer says that nothing is traced: who has one does
// nothing of it, and it costs nothing.
type Tracer interface {
	// Under makes the trace of a new span under another one, sampled as that is. Under nil it is the
	// first of a trace, which is sampled by chance.
	Under(parent *Trace) Trace
	// Ended exports a span. It never waits: spans are dropped, and counted, where they come faster
	// than they can be exported.
	Ended(s *Span)
}
