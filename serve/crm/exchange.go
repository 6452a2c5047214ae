package crm

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/serve/request"
)

// exchange is one request and its answer.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	code   int // answered; 0: nothing yet
	body   request.Body
	large  int64  // bytes of memory that the events are counted for
	tenant string // of the key
}

// end gives back all memory and counts the request.
func (x *exchange) end(start time.Time) {
	x.h.running.Add(-1)
	x.h.stats.request(x.code, time.Since(start))
	x.body.Use(nil)
	x.h.bodies.Release(x.large)
}

// secure sets what every answer has.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// answer ends the exchange with JSON.
func (x *exchange) answer(code int, body []byte) {
	x.code = code
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(code)
	_, _ = x.w.Write(body) // a client that is gone needs no answer
}

// problem is why a request is not taken.
type problem struct {
	code  int
	error string // a word of a fixed set
	text  string
	after int                         // seconds, Retry-After; 0: none
	more  func(b []byte) (ext []byte) // appends more members of the answer, each with a comma before it; nil: none
}

func badRequest(error, text string) *problem {
	return &problem{code: http.StatusBadRequest, error: error, text: text}
}

func notFound(text string) *problem {
	return &problem{code: http.StatusNotFound, error: "not_found", text: text}
}

// busy is back-pressure: the same request may succeed later, and is safe to repeat.
func busy(text string) *problem {
	return &problem{code: http.StatusServiceUnavailable, error: "unavailable", text: text, after: retryBusy}
}

// retryBusy is after how many seconds a client that was answered 503 is to come again.
const retryBusy = 5

// of is a problem with the request itself.
func of(p *request.Problem) *problem {
	switch p.Status {
	case http.StatusServiceUnavailable:
		return busy(p.Text)
	case http.StatusUnsupportedMediaType:
		return &problem{code: p.Status, error: "unsupported_media_type", text: p.Text}
	}
	return &problem{code: p.Status, error: p.Reason, text: p.Text}
}

// fail says a problem.
func (x *exchange) fail(p *problem) {
	h, id := x.w.Header(), x.h.o.NewID().String()
	h.Set("X-Request-Id", id)
	if p.after > 0 {
		h.Set("Retry-After", strconv.Itoa(p.after))
	}
	if p.code == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	b := append(make([]byte, 0, 256), `{"error":"`...)
	b = quote(append(append(b, p.error...), `","message":`...), p.text)
	if p.more != nil {
		b = p.more(b)
	}
	x.answer(p.code, append(append(append(b, `,"requestId":"`...), id...), `"}`...))
}
