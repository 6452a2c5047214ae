package crm

import (
	"net/http"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/request"
)

// exchange is one request and its answer.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	code   int // answered; 0: nothing yet
	body   request.Body
	tenant string // of the key
}

// end gives back all memory and counts the request.
func (x *exchange) end(start time.Time) {
	x.h.running.Add(-1)
	x.h.stats.request(x.code, time.Since(start))
	x.body.Close()
}

// answer ends the exchange with JSON.
func (x *exchange) answer(code int, body []byte) {
	x.code = code
	answer.JSON(x.w, code, body)
}

// fail says a problem.
func (x *exchange) fail(p *answer.Problem) {
	x.code = p.Code
	p.Write(x.w, x.h.o.NewID().String())
}
