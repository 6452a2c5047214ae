// Package request is what doors for outside clients share: the body of a request, read and
// inflated within bounds and in memory that is used again; whose ingest key it brings; and
// the address it comes from. Use it in an http.Handler that strangers may call; what a
// problem is answered with, and in which words, is the ingest API's.
package request

import (
	"fmt"
	"net/http"
)

// Problem is why a request is not taken. It is the sender's fault unless Status is 503:
// then the same request may succeed later, and is safe to repeat.
type Problem struct {
	Status int
	Reason string // a word of a fixed set, for programs
	Text   string // for people
	After  int    // seconds, Retry-After; 0: none
	// More appends more members of the answer, each with a comma before it; nil: none.
	More func(b []byte) (ext []byte)
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Text }

// Refuse is a request that is not taken for a reason.
func Refuse(status int, reason, format string, args ...any) *Problem {
	return &Problem{Status: status, Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// BadRequest is a request that is wrong in its form.
func BadRequest(format string, args ...any) *Problem {
	return Refuse(http.StatusBadRequest, "bad_request", format, args...)
}

// Malformed is a body that is no JSON, or has none.
func Malformed(format string, args ...any) *Problem {
	return Refuse(http.StatusBadRequest, "malformed_json", format, args...)
}

// Unauthorized is a request without a key that is known.
func Unauthorized(text string) *Problem {
	return &Problem{Status: http.StatusUnauthorized, Reason: "unauthorized", Text: text}
}

// NotFound is a request for what is not there.
func NotFound(text string) *Problem {
	return &Problem{Status: http.StatusNotFound, Reason: "not_found", Text: text}
}

// TooLarge is a request with more than is taken.
func TooLarge(format string, args ...any) *Problem {
	return Refuse(http.StatusRequestEntityTooLarge, "too_large", format, args...)
}

// Unsupported is a body of a kind that is not read.
func Unsupported(format string, args ...any) *Problem {
	return Refuse(http.StatusUnsupportedMediaType, "unsupported", format, args...)
}

// retryBusy is after how many seconds a client that was answered 503 is to come again.
const retryBusy = 5

// Busy is back-pressure: the same request may succeed later, and is safe to repeat.
func Busy(reason, text string) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Reason: reason, Text: text, After: retryBusy}
}

// NoRoom is Busy for want of memory.
func NoRoom() *Problem { return Busy("memory", "too many large requests at once, please retry") }
