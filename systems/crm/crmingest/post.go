package crmingest

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/tidemill/tidemill/internal/jsonarray"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// post takes the events of a tenant that shows its key.
func (x *exchange) post() *request.Problem {
	if p := x.Authenticate(request.Key(x.R)); p != nil {
		return p
	}
	if _, p := x.MediaType("application/json"); p != nil {
		return p
	}
	if p := x.Read(request.Gzip, x.h.o.Limits.Body); p != nil {
		return p
	}
	if len(bytes.TrimLeft(x.Body.Bytes, " \t\r\n")) == 0 {
		return request.Malformed("the body is empty; one event or an array of events is wanted")
	}
	raws, array, err := jsonarray.Split(x.Body.Bytes, x.h.o.Limits.Items)
	if most, ok := errors.AsType[jsonarray.TooMany](err); ok {
		return request.TooLarge("the array has more than %d events: send them in several requests", most)
	}
	if err != nil {
		return request.Malformed("%v", err)
	}
	if p := x.Reserve(int64(len(raws)) * eventMemory); p != nil {
		return p
	}
	tenant := x.Owner.Project.Name
	if _, p := x.Admit(tenant, len(raws), "the tenant's events of this minute are used up, or would be with these"); p != nil {
		x.Count(limited, len(raws))
		return p
	}
	ctx, done := x.Urgent(x.Context(), len(raws))
	defer done()
	results, err := x.h.o.Acceptor.Accept(ctx, raws, func(of string) bool { return of == tenant })
	if err != nil {
		x.Count(unkept, len(raws))
		return x.unkept(err, len(raws))
	}
	for i := range results {
		x.Count(string(results[i].Status), 1)
	}
	if refused := x.refused(raws, results, array); refused != nil {
		return refused
	}
	x.JSON(http.StatusAccepted, AppendAnswer(nil, results, array))
	return nil
}

// unkept is why events are not durable.
func (x *exchange) unkept(err error, n int) *request.Problem {
	switch {
	case errors.Is(err, accept.ErrFull):
		return request.Busy("unkept", accept.ErrFull.Error())
	case errors.Is(err, accept.ErrClosed):
		return request.Busy("unkept", accept.ErrClosed.Error())
	}
	x.Unkept(x.Owner.Project.Name, n, err)
	return request.Busy("unkept", "events cannot be kept now, please retry")
}

// refused is the problem of a request of which every event is refused: of a single one its
// fields, of several all of them. Nil: one at least was taken.
func (x *exchange) refused(raws [][]byte, results []accept.Result, array bool) *request.Problem {
	foreign := 0
	for i := range results {
		if results[i].Status != accept.Rejected {
			return nil
		}
		if errors.Is(results[i].Err, accept.ErrTenant) {
			foreign++
		}
	}
	p := request.Refuse(http.StatusUnprocessableEntity, codeInvalid, "no event of the array is valid")
	if foreign == len(results) {
		p = request.Refuse(http.StatusForbidden, codeTenant, "the key may not send events of this tenant")
	}
	if array {
		p.More = func(b []byte) []byte { return AppendResults(append(b, `,"results":`...), results) }
		return p
	}
	bad, ok := errors.AsType[*event.Invalid](results[0].Err)
	switch {
	case !ok:
		return p
	case len(raws[0]) > event.MaxSize:
		p.Status, p.Reason = http.StatusRequestEntityTooLarge, codeLarge
	case bad.Malformed:
		return request.Malformed("the body %s", bad.Problems[0].Wrong)
	}
	p.Text = "the event is not valid"
	p.More = func(b []byte) []byte { return appendProblems(append(b, ','), bad) }
	return p
}
