package operation

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// RequestID is the header with the id of a request: that which its sender gave, or one that was made.
const RequestID = "X-Request-Id"

var requestID = regexp.MustCompile(`^[A-Za-z0-9._:/+=@-]{1,128}$`)

// IsRequestID says whether a text is one that is taken from a sender.
func IsRequestID(text string) bool { return requestID.MatchString(text) }

// Traceparent is the header of W3C Trace Context that says which trace a request is part of.
const Traceparent = "Traceparent"

// traceOf is the id of the trace that a traceparent names; empty: it names none.
func traceOf(header []string) string {
	if len(header) == 1 {
		if t, ok := tidemill.ParseTrace(header[0], ""); ok {
			return hex.EncodeToString(t.ID[:])
		}
	}
	return ""
}

// Identified gives a request its id, which its sender may have given, and the trace that it is part
// of, and answers with the id. A request that this process makes for another one has those of that.
func Identified(w http.ResponseWriter, r *http.Request) *http.Request {
	t := TraceOf(r.Context())
	if t == nil {
		t = &Trace{ID: r.Header.Get(RequestID), Whole: traceOf(r.Header.Values(Traceparent))}
		if !IsRequestID(t.ID) {
			t.ID = uuid.NewString()
		}
	}
	w.Header().Set(RequestID, t.ID)
	return r.WithContext(Traced(r.Context(), &Trace{ID: t.ID, Whole: t.Whole}))
}

// Logging is a log whose records have the ids of the request and the trace that their context is of.
func Logging(log *slog.Logger) *slog.Logger {
	if _, is := log.Handler().(records); is {
		return log
	}
	return slog.New(records{log.Handler()})
}

// records are those of Logging.
type records struct{ slog.Handler }

func (h records) Handle(ctx context.Context, r slog.Record) error {
	if t := TraceOf(ctx); t != nil {
		r = r.Clone()
		if r.AddAttrs(slog.String("request", t.ID)); t.Whole != "" {
			r.AddAttrs(slog.String("trace", t.Whole))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h records) WithAttrs(as []slog.Attr) slog.Handler { return records{h.Handler.WithAttrs(as)} }

func (h records) WithGroup(name string) slog.Handler { return records{h.Handler.WithGroup(name)} }

type traceKey struct{}

// Trace is what is known of a request beside what it asks.
type Trace struct {
	ID            string
	Whole         string          // the id of the trace that the request is part of, as its sender said; empty: of none
	Before, After json.RawMessage // values that it changed; nil: not known
}

// Traced is a context of a request with a trace.
func Traced(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf is the trace of a request; nil: it has none.
func TraceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// Note notes what a change was made from and to, for the audit trail: settings, a role; nothing that
// senders sent, and no secret.
func Note(ctx context.Context, before, after any) {
	t := TraceOf(ctx)
	if t == nil {
		return
	}
	if before != nil {
		t.Before, _ = json.Marshal(before) // what is no JSON is not known
	}
	t.After, _ = json.Marshal(after)
}
