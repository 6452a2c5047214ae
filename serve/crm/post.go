package crm

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// post takes the events of a tenant that shows its key.
func (x *exchange) post() *answer.Problem {
	if p := x.authenticate(); p != nil {
		return p
	}
	if p := x.read(); p != nil {
		return p
	}
	raws, array, err := event.Split(x.body.Bytes, x.h.o.Limits.Events)
	if err != nil {
		return x.unsplit(err)
	}
	if cost := int64(len(raws)) * eventMemory; cost > request.Small && !x.body.Reserve(cost) {
		return answer.Busy("too many large requests at once, please retry")
	}
	if p := x.admit(len(raws)); p != nil {
		x.h.stats.event(limited, len(raws))
		return p
	}
	results, err := x.h.o.Acceptor.Accept(x.r.Context(), raws, func(tenant string) bool { return tenant == x.tenant })
	if err != nil {
		x.h.stats.event(unkept, len(raws))
		return x.unkept(err, len(raws))
	}
	x.h.stats.results(results)
	if refused := x.refused(raws, results, array); refused != nil {
		return refused
	}
	x.answer(http.StatusAccepted, AppendAnswer(nil, results, array))
	return nil
}

// authenticate finds whose key the request brings.
func (x *exchange) authenticate() *answer.Problem {
	o, p := answer.Owner(x.r, x.h.keys, x.h.o.TrustProxy, x.h.o.Log)
	if x.tenant = o.Project.Name; p == nil {
		x.body.Vouch()
	}
	return p
}

// read takes the body and inflates it.
func (x *exchange) read() *answer.Problem {
	if p := checkType(x.r.Header["Content-Type"]); p != nil {
		return p
	}
	if _, p := request.Encoding(x.r, request.Gzip); p != nil {
		return answer.Of(p)
	}
	limit := x.h.o.Limits.Body
	if p := x.body.Read(x.w, limit); p != nil {
		return answer.Of(p)
	}
	if p := x.body.Plain(request.Gzip, limit); p != nil {
		return answer.Of(p)
	}
	if len(bytes.TrimLeft(x.body.Bytes, " \t\r\n")) == 0 {
		return answer.BadRequest("malformed_json", "the body is empty; one event or an array of events is wanted")
	}
	return nil
}

// checkType refuses a body that says that it is something else.
func checkType(said []string) *answer.Problem {
	if len(said) == 0 || len(said) == 1 && (said[0] == "" || said[0] == "application/json") {
		return nil
	}
	t, parameters, err := mime.ParseMediaType(said[0])
	charset := strings.ToLower(parameters["charset"])
	if len(said) > 1 || err != nil || t != "application/json" || charset != "" && charset != "utf-8" {
		return answer.Unsupported(fmt.Sprintf("Content-Type %.60q: want application/json", said[0]))
	}
	return nil
}

// unsplit is why no events were found in the body.
func (x *exchange) unsplit(err error) *answer.Problem {
	most := x.h.o.Limits.Events
	d := jsontext.NewDecoder(bytes.NewReader(x.body.Bytes), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err == nil { // the bracket
		n := 0
		for d.PeekKind() != ']' && d.SkipValue() == nil {
			if n++; n > most {
				return answer.TooLarge(fmt.Sprintf("the array has more than %d events: send them in several requests", most))
			}
		}
	}
	return answer.BadRequest("malformed_json", err.Error())
}

// unkept is why events are not durable.
func (x *exchange) unkept(err error, n int) *answer.Problem {
	switch {
	case errors.Is(err, accept.ErrFull):
		return answer.Busy(accept.ErrFull.Error())
	case errors.Is(err, accept.ErrClosed):
		return answer.Busy(accept.ErrClosed.Error())
	}
	x.h.o.Log.WarnContext(x.r.Context(), "events cannot be kept", "count", n, "tenantId", x.tenant, "error", err)
	return answer.Busy("events cannot be kept now, please retry")
}

// refused is the problem of a request of which every event is refused: of a single one its
// fields, of several all of them. Nil: one at least was taken.
func (x *exchange) refused(raws [][]byte, results []accept.Result, array bool) *answer.Problem {
	foreign := 0
	for i := range results {
		if results[i].Status != accept.Rejected {
			return nil
		}
		if errors.Is(results[i].Err, accept.ErrTenant) {
			foreign++
		}
	}
	p := &answer.Problem{Code: http.StatusUnprocessableEntity, Word: codeInvalid, Text: "no event of the array is valid"}
	if foreign == len(results) {
		p.Code, p.Word, p.Text = http.StatusForbidden, codeTenant, "the key may not send events of this tenant"
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
		p.Code, p.Word = http.StatusRequestEntityTooLarge, codeLarge
	case bad.Malformed:
		return answer.BadRequest("malformed_json", "the body "+bad.Problems[0].Wrong)
	}
	p.Text = "the event is not valid"
	p.More = func(b []byte) []byte { return appendProblems(append(b, ','), bad) }
	return p
}
