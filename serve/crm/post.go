package crm

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// post takes the events of a tenant that shows its key.
func (x *exchange) post() *problem {
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
	if cost := int64(len(raws)) * eventMemory; cost > request.Small {
		if !x.h.bodies.Reserve(cost) {
			return busy("too many large requests at once, please retry")
		}
		x.large = cost
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
func (x *exchange) authenticate() *problem {
	key := request.Key(x.r)
	if key == "" {
		return &problem{code: http.StatusUnauthorized, error: "unauthorized", text: "an API key is needed, as X-API-Key or Authorization: Bearer"}
	}
	o, err := x.h.keys.Find(x.r.Context(), key)
	switch {
	case err == nil:
		x.tenant = o.Project.Name
		return nil
	case errors.Is(err, project.ErrUnknown):
		return &problem{code: http.StatusUnauthorized, error: "unauthorized", text: "the API key is not known"}
	}
	x.h.o.Log.WarnContext(x.r.Context(), "keys cannot be checked", "error", err)
	return busy("keys cannot be checked now, please retry")
}

// read takes the body and inflates it.
func (x *exchange) read() *problem {
	if p := checkType(x.r.Header["Content-Type"]); p != nil {
		return p
	}
	if _, p := request.Encoding(x.r, request.Gzip); p != nil {
		return of(p)
	}
	limit := x.h.o.Limits.Body
	if p := x.body.Read(x.w, x.r, limit); p != nil {
		return of(p)
	}
	if p := x.body.Plain(x.r, request.Gzip, limit); p != nil {
		return of(p)
	}
	if len(bytes.TrimLeft(x.body.Bytes, " \t\r\n")) == 0 {
		return badRequest("malformed_json", "the body is empty; one event or an array of events is wanted")
	}
	return nil
}

// checkType refuses a body that says that it is something else.
func checkType(said []string) *problem {
	if len(said) == 0 || len(said) == 1 && (said[0] == "" || said[0] == "application/json") {
		return nil
	}
	t, parameters, err := mime.ParseMediaType(said[0])
	charset := strings.ToLower(parameters["charset"])
	if len(said) > 1 || err != nil || t != "application/json" || charset != "" && charset != "utf-8" {
		return &problem{code: http.StatusUnsupportedMediaType, error: "unsupported_media_type", text: fmt.Sprintf("Content-Type %.60q: want application/json", said[0])}
	}
	return nil
}

// unsplit is why no events were found in the body.
func (x *exchange) unsplit(err error) *problem {
	most := x.h.o.Limits.Events
	d := jsontext.NewDecoder(bytes.NewReader(x.body.Bytes), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err == nil { // the bracket
		n := 0
		for d.PeekKind() != ']' && d.SkipValue() == nil {
			if n++; n > most {
				return &problem{code: http.StatusRequestEntityTooLarge, error: "too_large", text: fmt.Sprintf("the array has more than %d events: send them in several requests", most)}
			}
		}
	}
	return badRequest("malformed_json", err.Error())
}

// unkept is why events are not durable.
func (x *exchange) unkept(err error, n int) *problem {
	switch {
	case errors.Is(err, accept.ErrFull):
		return busy(accept.ErrFull.Error())
	case errors.Is(err, accept.ErrClosed):
		return busy(accept.ErrClosed.Error())
	}
	x.h.o.Log.WarnContext(x.r.Context(), "events cannot be kept", "count", n, "tenantId", x.tenant, "error", err)
	return busy("events cannot be kept now, please retry")
}

// refused is the problem of a request of which every event is refused: of a single one its
// fields, of several all of them. Nil: one at least was taken.
func (x *exchange) refused(raws [][]byte, results []accept.Result, array bool) *problem {
	foreign := 0
	for i := range results {
		if results[i].Status != accept.Rejected {
			return nil
		}
		if errors.Is(results[i].Err, accept.ErrTenant) {
			foreign++
		}
	}
	p := &problem{code: http.StatusUnprocessableEntity, error: codeInvalid, text: "no event of the array is valid"}
	if foreign == len(results) {
		p.code, p.error, p.text = http.StatusForbidden, codeTenant, "the key may not send events of this tenant"
	}
	if array {
		p.more = func(b []byte) []byte { return AppendResults(append(b, `,"results":`...), results) }
		return p
	}
	bad, ok := errors.AsType[*event.Invalid](results[0].Err)
	switch {
	case !ok:
		return p
	case len(raws[0]) > event.MaxSize:
		p.code, p.error = http.StatusRequestEntityTooLarge, codeLarge
	case bad.Malformed:
		return badRequest("malformed_json", "the body "+bad.Problems[0].Wrong)
	}
	p.text = "the event is not valid"
	p.more = func(b []byte) []byte { return appendProblems(append(b, ','), bad) }
	return p
}
