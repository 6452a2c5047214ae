// Package answer is how doors answer: JSON, and a problem in one form, with a word for programs
// and a text for people:
//
//	{"error":"unauthorized","message":"the API key is not known","requestId":"…"}
package answer

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tidemill/tidemill/serve/request"
)

// Secure sets what every answer has.
func Secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// JSON answers with a body that is JSON.
func JSON(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// Problem is why a request is not taken.
type Problem struct {
	Code  int
	Word  string // of a fixed set, for programs
	Text  string // for people
	After int    // seconds, Retry-After; 0: none
	// More appends more members of the answer, each with a comma before it; nil: none.
	More func(b []byte) (ext []byte)
}

// BadRequest is a request that is wrong in its form.
func BadRequest(word, text string) *Problem {
	return &Problem{Code: http.StatusBadRequest, Word: word, Text: text}
}

// Unauthorized is a request without a key that is known.
func Unauthorized(text string) *Problem {
	return &Problem{Code: http.StatusUnauthorized, Word: "unauthorized", Text: text}
}

// NotFound is a request for what is not there.
func NotFound(text string) *Problem {
	return &Problem{Code: http.StatusNotFound, Word: "not_found", Text: text}
}

// TooLarge is a request with more than is taken.
func TooLarge(text string) *Problem {
	return &Problem{Code: http.StatusRequestEntityTooLarge, Word: "too_large", Text: text}
}

// Unsupported is a body of a kind that is not read.
func Unsupported(text string) *Problem {
	return &Problem{Code: http.StatusUnsupportedMediaType, Word: "unsupported_media_type", Text: text}
}

// Busy is back-pressure: the same request may succeed later, and is safe to repeat.
func Busy(text string) *Problem {
	return &Problem{Code: http.StatusServiceUnavailable, Word: "unavailable", Text: text, After: retryBusy}
}

// retryBusy is after how many seconds a client that was answered 503 is to come again.
const retryBusy = 5

// Of is a problem with the request itself.
func Of(p *request.Problem) *Problem {
	switch p.Status {
	case http.StatusServiceUnavailable:
		return Busy(p.Text)
	case http.StatusUnsupportedMediaType:
		return Unsupported(p.Text)
	}
	return &Problem{Code: p.Status, Word: p.Reason, Text: p.Text}
}

// Write answers with the problem; id names the request, for who asks about it.
func (p *Problem) Write(w http.ResponseWriter, id string) {
	h := w.Header()
	h.Set("X-Request-Id", id)
	if p.After > 0 {
		h.Set("Retry-After", strconv.Itoa(p.After))
	}
	if p.Code == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	b := append(make([]byte, 0, 256), `{"error":"`...)
	b = Quote(append(append(b, p.Word...), `","message":`...), p.Text)
	if p.More != nil {
		b = p.More(b)
	}
	JSON(w, p.Code, append(append(append(b, `,"requestId":"`...), id...), `"}`...))
}

// Quote appends a JSON string.
func Quote(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil { // texts always can be
		return append(b, `""`...)
	}
	return append(b, q...)
}
