package records

import (
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/request"
)

// exchange is one request and its answer.
type exchange struct {
	h       *Handler
	w       http.ResponseWriter
	r       *http.Request
	door    door
	code    int // answered; 0: nothing yet
	body    request.Body
	project uuid.UUID // whose records it brings
}

// end gives back all memory and counts the request.
func (x *exchange) end(start time.Time) {
	x.h.running.Add(-1)
	x.h.stats.request(x.door, x.code, time.Since(start))
	x.body.Close()
}

// authenticate finds whose key the request brings, where one is needed.
func (x *exchange) authenticate() *answer.Problem {
	if x.h.keys == nil { // only programs of this machine can come
		x.project = x.h.o.Project
		x.body.Vouch()
		return nil
	}
	o, p := answer.Owner(x.r, x.h.keys, x.h.o.TrustProxy, x.h.o.Log)
	if x.project = o.Project.ID; p == nil {
		x.body.Vouch()
	}
	return p
}

// admit counts records in the project's minute, or refuses them. back takes them out again.
func (x *exchange) admit(n int) (back func(), p *answer.Problem) {
	most := x.h.o.Limits.PerMinute
	if most == 0 {
		return func() {}, nil
	}
	now := x.h.o.Now()
	project := x.project.String()
	ok, until := x.h.minutes.Admit(project, n, most, now)
	if ok {
		return func() { x.h.minutes.Return(project, n, until) }, nil
	}
	x.h.stats.record(x.door, limited, n)
	return nil, &answer.Problem{Code: http.StatusTooManyRequests, Word: "rate_limited", Text: "the records of this minute are used up, or would be with these: at most " + strconv.Itoa(most) + " are taken in a minute",
		After: int(until.Sub(now)/time.Second) + 1}
}

// reserve counts memory beside the body's.
func (x *exchange) reserve(n int64) *answer.Problem {
	if n > request.Small && !x.body.Reserve(n) {
		return answer.Busy("too many large requests at once, please retry")
	}
	return nil
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

// number appends a member of an object, with a comma before it.
func number(b []byte, name string, n int) []byte {
	return strconv.AppendInt(append(append(append(b, `,"`...), name...), `":`...), int64(n), 10)
}
