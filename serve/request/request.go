// Package request is what doors for outside clients share: the body of a request, read and
// inflated within bounds and in memory that is used again; whose ingest key it brings; and
// the address it comes from. Use it in an http.Handler that strangers may call; what a
// problem is answered with, and in which words, is the door's.
package request

import (
	"fmt"
	"net/http"
)

// Problem is why a request is not taken. It is the sender's fault unless Status is 503:
// then the same request may succeed later, and is safe to repeat.
type Problem struct {
	Status int
	Reason string // by which it may be counted: one of a fixed set
	Text   string // for who sent it
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Text }

func badRequest(format string, args ...any) *Problem {
	return &Problem{http.StatusBadRequest, "bad_request", fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) *Problem {
	return &Problem{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) *Problem {
	return &Problem{http.StatusUnsupportedMediaType, "unsupported", fmt.Sprintf(format, args...)}
}

func busy(reason, text string) *Problem {
	return &Problem{http.StatusServiceUnavailable, reason, text}
}

// noRoom is busy for want of memory.
func noRoom() *Problem { return busy("memory", "too many large requests at once, please retry") }
