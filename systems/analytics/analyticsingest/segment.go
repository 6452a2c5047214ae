package analyticsingest

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// Segment's limits, as its documentation has them.
const (
	segmentEvent  = 32 << 10  // bytes of one event
	segmentBody   = 500 << 10 // bytes of a batch
	segmentNumber = 2_500     // events of a batch
)

// segmentBatch serves the short path of analytics.js.
func (x *exchange) segmentBatch() *request.Problem {
	if p := x.openSegment("batch"); p != nil {
		return p
	}
	if x.batch.envelope.list != "batch" {
		return request.BadRequest(`the body has no "batch"`)
	}
	return x.segmentEvents(false)
}

// segmentCall serves the paths that take one event: what sort it is, the path says.
func (x *exchange) segmentCall(call string) *request.Problem {
	if p := x.openSegment(); p != nil {
		return p
	}
	if x.batch.envelope.list != "" {
		return request.BadRequest("the body is not one event")
	}
	if len(x.Body.Bytes) > segmentEvent {
		return request.TooLarge("the event has more than %s", kilobytes(segmentEvent))
	}
	m := x.meta(event.Segment)
	m.Call = call
	return x.segmentTake(m)
}

func (x *exchange) openSegment(lists ...string) *request.Problem {
	if p := x.open(segmentBody, request.Gzip); p != nil {
		return p
	}
	if p := x.events(segmentNumber, lists...); p != nil {
		return p
	}
	return x.authenticateBody(request.Key(x.R))
}

// segmentEvents takes a batch.
func (x *exchange) segmentEvents(imported bool) *request.Problem {
	switch n := len(x.batch.envelope.events); {
	case len(x.Body.Bytes) > segmentBody:
		return request.TooLarge("the batch has more than %s", kilobytes(segmentBody))
	case n > segmentNumber:
		return request.TooLarge("the batch has %d events; at most %d are allowed", n, segmentNumber)
	case n == 0:
		return request.BadRequest("the batch is empty")
	}
	m := x.meta(event.Segment)
	m.Import = imported
	return x.segmentTake(m)
}

// segmentTake answers 200 to events that are wrong too: Segment's senders drop a batch
// only where it is too large.
func (x *exchange) segmentTake(m event.Meta) *request.Problem {
	a, p := x.admit(!m.Import, http.StatusTooManyRequests)
	if p != nil {
		return p
	}
	if a == Admitted {
		x.judge(m, segmentEvent)
		if x.allTooLarge() {
			x.warn()
			return x.noneGood()
		}
		if p := x.add(!m.Import); p != nil {
			return p
		}
	}
	x.json(http.StatusOK, `{"success":true}`)
	return nil
}

func (x *exchange) allTooLarge() bool {
	for i := range x.batch.verdicts {
		if x.batch.verdicts[i].reason != "too_large" {
			return false
		}
	}
	return true
}

func (x *exchange) failSegment(p *request.Problem) {
	status := p.Status
	if status == http.StatusRequestEntityTooLarge {
		status = http.StatusBadRequest
	}
	text, _ := jsontext.AppendQuote(nil, p.Text)
	x.json(status, fmt.Sprintf(`{"success":false,"message":%s}`, text))
}
