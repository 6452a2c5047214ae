package events

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/internal/jsonarray"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// read takes the body and finds its events. Types are media types beside
// application/json that it may be called.
func (x *exchange) read(types ...string) *problem {
	if p := x.checkType(types); p != nil {
		return p
	}
	if _, p := request.Encoding(x.r, request.Gzip); p != nil {
		return of(p)
	}
	limit := x.h.o.Limits.Body
	if p := x.body.Read(x.w, limit); p != nil {
		return of(p)
	}
	if p := x.body.Plain(request.Gzip, limit); p != nil {
		return of(p)
	}
	b := bytes.TrimLeft(x.body.Bytes, " \t\r\n")
	if len(b) == 0 {
		return badRequest("malformed_json", "the body is empty; one event or an array of events is wanted")
	}
	if b[0] != '[' {
		x.items = append(x.items, accept.Item{Raw: x.body.Bytes})
		return nil
	}
	x.many = true
	return x.split(b)
}

// checkType refuses a body that says that it is something else.
func (x *exchange) checkType(types []string) *problem {
	said := x.r.Header["Content-Type"]
	if len(said) == 0 || len(said) == 1 && (said[0] == "" || said[0] == "application/json") {
		return nil
	}
	t, parameters, err := mime.ParseMediaType(said[0])
	charset := strings.ToLower(parameters["charset"])
	if len(said) > 1 || err != nil || t != "application/json" && !slices.Contains(types, t) || charset != "" && charset != "utf-8" {
		return &problem{http.StatusUnsupportedMediaType, "unsupported_media_type", fmt.Sprintf("Content-Type %.60q: want application/json", said[0]), 0, nil}
	}
	return nil
}

// split finds the events of an array.
func (x *exchange) split(b []byte) *problem {
	for e, err := range jsonarray.Elements(b, jsontext.AllowInvalidUTF8(true)) { // each event is judged by itself
		if err != nil {
			return badRequest("malformed_json", "the body is no JSON: "+cause(err))
		}
		if len(x.items) == x.h.o.Limits.Events {
			return &problem{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the array has more than %d events", len(x.items)), 0, nil}
		}
		x.items = append(x.items, accept.Item{Raw: e})
	}
	if len(x.items) == 0 {
		return badRequest("empty", "the array has no events")
	}
	cost := int64(len(x.items)) * eventMemory
	if cost > request.Small && !x.body.Reserve(cost) {
		return busy("too many large requests at once, please retry")
	}
	return nil
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
func (x *exchange) judge(g event.Given) *problem {
	for i := range x.items {
		it := &x.items[i]
		err := x.h.o.Rules.Decode(it.Raw, g, &it.Event)
		if err == nil {
			continue
		}
		it.Refused = invalid(err)
		if it.Refused.Malformed && !x.many {
			return badRequest("malformed_json", "the body "+it.Refused.Problems[0].Wrong)
		}
	}
	return nil
}
