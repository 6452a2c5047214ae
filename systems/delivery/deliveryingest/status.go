package deliveryingest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/queue"
)

// maxID is how long the name of an event is at most: a UUID, a dot and eight digits.
const maxID = 36 + 1 + 8

// status answers where an event of the key's site is.
func (x *exchange) status() *request.Problem {
	if x.h.o.Status == nil {
		return request.NotFound("where events are is not known here")
	}
	if p := x.authenticate(request.Key(x.R)); p != nil {
		return p
	}
	id := strings.ToLower(x.rest)
	if len(id) > maxID || strings.Trim(id, "0123456789abcdef-.") != "" {
		return request.NotFound("there is no such event")
	}
	v, err := x.h.o.Status(giveway.Waited(x.R.Context()), x.site, id)
	if errors.Is(err, queue.ErrNotFound) {
		return request.NotFound("there is no such event, or it is no longer known")
	}
	var b []byte
	if err == nil {
		b, err = json.Marshal(v)
	}
	if err != nil {
		x.Unsaid(x.site, err)
		return request.Busy("status", "where the event is cannot be said now, please retry")
	}
	x.JSON(http.StatusOK, b)
	return nil
}

// schema answers what an event of a type may be. It needs no key: it is the same for all.
func (x *exchange) schema() *request.Problem {
	b, ok := x.h.o.Rules.Schema(x.rest)
	if !ok {
		return request.NotFound("there is no such type of events; there are: " + strings.Join(x.h.o.Rules.Types(), ", "))
	}
	x.Header["Content-Type"] = []string{"application/schema+json"}
	x.Send(http.StatusOK, b)
	return nil
}
