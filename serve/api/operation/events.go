package operation

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/sockets"
	"github.com/tidemill/tidemill/serve/caller"
)

// EventsType is the type of a stream of server-sent events.
const EventsType = "text/event-stream"

const (
	takesWithin = 30 * time.Second // how long a client may take nothing before its stream is cut
	untaken     = 64 << 10         // bytes that the system keeps for a client that takes nothing
)

// Stream sends events as long as somebody listens, each with one A as its data.
type Stream[Q, A any] struct{ *Description }

// Events describes a stream of server-sent events.
func Events[Q, A any](id, path, text string) Stream[Q, A] {
	d := describe(id, http.MethodGet, path, text, reflect.TypeFor[Q](), reflect.TypeFor[A]())
	d.Events = true
	return Stream[Q, A]{d}
}

// For is a stream that a role may listen to already, and not admins alone.
func (s Stream[Q, A]) For(r caller.Role) Stream[Q, A] {
	s.Role = r
	return s
}

// OfEach is a stream of what several systems have. Who sends looks no further than the caller may.
func (s Stream[Q, A]) OfEach() Stream[Q, A] {
	s.System = Each
	return s
}

// By is the stream with who sends: until its context ends, which it does with the rights of its caller
// too, or an event could not be sent.
func (s Stream[Q, A]) By(send func(context.Context, *Q, *EventWriter) error) Handler {
	return Handler{s.Description, func(w http.ResponseWriter, r *http.Request) error {
		q := new(Q)
		if err := s.read(w, r, reflect.ValueOf(q).Elem()); err != nil {
			return err
		}
		out := &EventWriter{Last: r.Header.Get("Last-Event-ID"), w: w, flush: http.NewResponseController(w), head: r.Method == http.MethodHead}
		sockets.Of(r.Context()).Limit(untaken, takesWithin)
		ctx, end := whileMay(r.Context())
		defer end()
		if err := send(ctx, q, out); err != nil && !out.begun {
			return err
		}
		return nil // the client is gone, or takes nothing
	}}
}

// EventWriter writes server-sent events. A client that takes nothing for 30 seconds is cut off.
type EventWriter struct {
	Last string // the id of the event that the client saw last; empty: none

	w     http.ResponseWriter
	flush *http.ResponseController
	head  bool // nobody wants the events
	begun bool
}

// Begin sends the head of the answer. From then on no problem can be said any more.
func (e *EventWriter) Begin() error {
	h := e.w.Header()
	h.Set("Content-Type", EventsType)
	h.Set("X-Accel-Buffering", "no") // proxies would keep events together
	e.begun = true
	_ = e.flush.SetReadDeadline(time.Time{}) // in this very process there is none
	if e.w.WriteHeader(http.StatusOK); e.head {
		return http.ErrBodyNotAllowed
	}
	return e.write(":\n\n")
}

// Send sends an event, whose data are one line.
func (e *EventWriter) Send(id, event string, data []byte) error {
	var b strings.Builder
	b.Grow(len(id) + len(event) + len(data) + 32)
	for _, part := range []string{"id: ", id, "\nevent: ", event, "\ndata: "} {
		b.WriteString(part)
	}
	b.Write(data)
	b.WriteString("\n\n")
	return e.write(b.String())
}

// Comment sends what clients pass over, so that nobody on the way takes the stream for a dead one.
func (e *EventWriter) Comment() error { return e.write(":\n\n") }

func (e *EventWriter) write(s string) error {
	_ = e.flush.SetWriteDeadline(time.Now().Add(takesWithin))
	if _, err := e.w.Write([]byte(s)); err != nil {
		return err
	}
	if err := e.flush.Flush(); !errors.Is(err, http.ErrNotSupported) { // in this very process nothing is kept back
		return err
	}
	return nil
}
