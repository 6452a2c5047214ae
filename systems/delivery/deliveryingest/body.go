package deliveryingest

import (
	"bytes"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/internal/jsonarray"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// read takes the body and finds its events. Types are media types beside
// application/json that it may be called.
func (x *exchange) read(types ...string) *request.Problem {
	if _, p := x.MediaType("application/json", types...); p != nil {
		return p
	}
	if p := x.Read(request.Gzip, x.h.o.Limits.Body); p != nil {
		return p
	}
	b := bytes.TrimLeft(x.Body.Bytes, " \t\r\n")
	if len(b) == 0 {
		return request.Malformed("the body is empty; one event or an array of events is wanted")
	}
	if b[0] != '[' {
		x.items = append(x.items, accept.Item{Raw: x.Body.Bytes})
		return nil
	}
	x.many = true
	return x.split(b)
}

// split finds the events of an array.
func (x *exchange) split(b []byte) *request.Problem {
	for e, err := range jsonarray.Elements(b, jsontext.AllowInvalidUTF8(true)) { // each event is judged by itself
		if err != nil {
			return request.Malformed("the body is no JSON: %s", cause(err))
		}
		if len(x.items) == x.h.o.Limits.Items {
			return request.TooLarge("the array has more than %d events", len(x.items))
		}
		x.items = append(x.items, accept.Item{Raw: e})
	}
	if len(x.items) == 0 {
		return request.Refuse(http.StatusBadRequest, "empty", "the array has no events")
	}
	return x.Reserve(int64(len(x.items)) * eventMemory)
}

// cause is what a syntax error says, without the library's name.
func cause(err error) string {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return "it ends too early"
	}
	if e, ok := err.(*jsontext.SyntacticError); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// judge decodes every event. One body that is no JSON at all is a problem.
func (x *exchange) judge(g event.Given) *request.Problem {
	for i := range x.items {
		it := &x.items[i]
		err := x.h.o.Rules.Decode(it.Raw, g, &it.Event)
		if err == nil {
			continue
		}
		it.Refused = invalid(err)
		if it.Refused.Malformed && !x.many {
			return request.Malformed("the body %s", it.Refused.Problems[0].Wrong)
		}
	}
	return nil
}
