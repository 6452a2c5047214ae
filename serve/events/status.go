package events

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/queue"
)

// maxID is how long the name of an event is at most: a UUID, a dot and eight digits.
const maxID = 36 + 1 + 8

// status answers where an event of the key's site is.
func (x *exchange) status() *problem {
	if x.h.o.Status == nil {
		return notFound("where events are is not known here")
	}
	if p := x.authenticate(request.Key(x.r)); p != nil {
		return p
	}
	id := strings.ToLower(x.rest)
	if len(id) > maxID || strings.Trim(id, "0123456789abcdef-.") != "" {
		return notFound("there is no such event")
	}
	v, err := x.h.o.Status(x.r.Context(), x.site, id)
	if errors.Is(err, queue.ErrNotFound) {
		return notFound("there is no such event, or it is no longer known")
	}
	var b []byte
	if err == nil {
		b, err = json.Marshal(v)
	}
	if err != nil {
		x.h.o.Log.WarnContext(x.r.Context(), "where an event is cannot be said", "error", err)
		return busy("where the event is cannot be said now, please retry")
	}
	x.answer(http.StatusOK, b)
	return nil
}

// schema answers what an event of a type may be. It needs no key: it is the same for all.
func (x *exchange) schema() *problem {
	b, ok := x.h.o.Rules.Schema(x.rest)
	if !ok {
		return notFound("there is no such type of events; there are: " + strings.Join(x.h.o.Rules.Types(), ", "))
	}
	x.header["Content-Type"] = []string{"application/schema+json"}
	x.send(http.StatusOK, b)
	return nil
}
