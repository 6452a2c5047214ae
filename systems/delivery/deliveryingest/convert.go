package deliveryingest

import (
	"encoding/json"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// convert takes conversions from a server that shows its site's key.
func (x *exchange) convert() *request.Problem {
	key, p := x.ofServer(true)
	if p != nil {
		return p
	}
	if p := x.checkKeys(key); p != nil {
		return p
	}
	for i := range x.items {
		if it := &x.items[i]; it.Refused == nil {
			it.Note = x.partners(it)
		}
	}
	a, p := x.accept("convert", key)
	if p != nil {
		if more := p.More; more != nil && !x.many { // what a client of conversions looks at
			p.More = func(b []byte) []byte { return append(more(b), `,"status":"invalid","partners":[]`...) }
		}
		return p
	}
	results, err := conversions(a.Results)
	if err != nil {
		// Logged when a conversion was sent before, and the answer that is kept of it is none; the
		// sender is answered 503.
		// To do: report it: the ledger has what was not written by this program.
		x.h.o.Log.ErrorContext(x.R.Context(), "the answer of a conversion cannot be read again", "error", err)
		return request.Busy("answer", "the answer cannot be read now, please retry")
	}
	x.accepted(results)
	return nil
}

// partners names the partners of a conversion.
func (x *exchange) partners(it *accept.Item) []byte {
	b := []byte{'['}
	if x.h.o.Partners != nil {
		for i, p := range x.h.o.Partners(it, x.gpc()) {
			if i > 0 {
				b = append(b, ',')
			}
			b = event.Quote(append(b, `{"name":`...), p.Name)
			b = event.Quote(append(b, `,"status":`...), p.Status)
			b = event.Quote(append(b, `,"message":`...), p.Message)
			b = append(b, '}')
		}
	}
	return append(b, ']')
}

// conversion is what became of an event, in the words of conversions.
type conversion struct {
	EventID      string          `json:"eventId,omitempty"`
	ConversionID string          `json:"conversionId,omitempty"`
	Status       string          `json:"status"`
	DuplicateOf  string          `json:"duplicateOf,omitempty"`
	Error        string          `json:"error,omitempty"`
	Message      string          `json:"message,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
	Partners     json.RawMessage `json:"partners"`
}

// conversions says results in those words. The same results always become the same bytes.
func conversions(results []byte) ([]byte, error) {
	var all []conversion
	if err := json.Unmarshal(results, &all); err != nil {
		return nil, err
	}
	for i := range all {
		c := &all[i]
		c.ConversionID, c.EventID = c.EventID, ""
		if c.Status == "rejected" {
			c.Status = "invalid"
		}
		if c.Partners == nil {
			c.Partners = json.RawMessage("[]")
		}
	}
	return json.Marshal(all)
}
