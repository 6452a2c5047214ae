package operation

import (
	"context"
	"encoding/json"
	"regexp"
)

// RequestID is the header with the id of a request: that which its sender gave, or one that was made.
const RequestID = "X-Request-Id"

var requestID = regexp.MustCompile(`^[A-Za-z0-9._:/+=@-]{1,128}$`)

// IsRequestID says whether a text is one that is taken from a sender.
func IsRequestID(text string) bool { return requestID.MatchString(text) }

type traceKey struct{}

// Trace is what is known of a request beside what it asks.
type Trace struct {
	ID            string
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
