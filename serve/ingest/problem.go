package ingest

import (
	"fmt"
	"net/http"
)

// problem is why a whole request is not taken. Each protocol says it in its own way.
type problem struct {
	status int
	reason string // by which it is counted: one of a fixed set
	text   string // for who sent it
	after  int    // seconds, Retry-After; 0: none
}

func (p *problem) Error() string { return p.reason + ": " + p.text }

func badRequest(format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, reason: "bad_request", text: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, reason: "too_large", text: fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *problem {
	return &problem{status: http.StatusUnsupportedMediaType, reason: "unsupported", text: fmt.Sprintf(format, args...)}
}

func unauthorized(text string) *problem {
	return &problem{status: http.StatusUnauthorized, reason: "unauthorized", text: text}
}

// busy is back-pressure: the same request may succeed later, and is safe to repeat.
func busy(reason, text string) *problem {
	return &problem{status: http.StatusServiceUnavailable, reason: reason, text: text, after: retryBusy}
}
