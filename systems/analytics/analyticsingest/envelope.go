package analyticsingest

import (
	"bytes"
	"time"

	"github.com/tidemill/tidemill/serve/request"
)

// envelope is what a body says beside its events.
type envelope struct {
	list       string   // the member that holds the events; "[" for a bare array, empty for one bare event
	events     [][]byte // as received, each one JSON value
	key        string   // the first of api_key, token, $token, writeKey
	mixed      bool     // those say different things
	sent       time.Time
	historical bool
	context    []byte // as received: of all events, in the batches of Segment's libraries

	scanner scanner
}

// parse reads a body, which is kept: events point into it. Lists are the members that may
// hold events; without any of them an object is one event. A body with more than limit
// events is too large.
func (v *envelope) parse(body []byte, limit int, lists ...string) *request.Problem {
	v.list, v.events, v.key, v.mixed = "", v.events[:0], "", false
	v.sent, v.historical, v.context = time.Time{}, false, nil
	d := v.scanner.open(body)
	switch d.PeekKind() {
	case '[':
		v.list = "["
		if p := v.elements(body, limit); p != nil {
			return p
		}
	case '{':
		if p := v.members(body, limit, lists); p != nil {
			return p
		}
	default:
		if _, err := d.ReadToken(); err != nil {
			return notJSON(err)
		}
		return request.BadRequest("the body is neither an object nor an array")
	}
	if len(bytes.TrimLeft(body[d.InputOffset():], " \t\r\n")) > 0 {
		return request.BadRequest("there is something behind the end of the JSON")
	}
	return nil
}

func notJSON(err error) *request.Problem { return request.BadRequest("the body is no JSON: %v", err) }

// elements reads the array that comes next.
func (v *envelope) elements(body []byte, limit int) *request.Problem {
	d := &v.scanner.decoder
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err)
	}
	for d.PeekKind() != ']' {
		raw, err := d.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		if len(v.events) >= limit {
			return request.TooLarge("the body has more than %d events", limit)
		}
		end := int(d.InputOffset())
		v.events = append(v.events, body[end-len(raw):end:end])
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err)
	}
	return nil
}

// members reads the object that comes next.
func (v *envelope) members(body []byte, limit int, lists []string) *request.Problem {
	d := &v.scanner.decoder
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err)
	}
	start := int(d.InputOffset()) - 1
	var name []byte
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		name = unquote(name[:0], quoted)
		if p := v.member(name, body, limit, lists); p != nil {
			return p
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err)
	}
	if v.list == "" {
		end := int(d.InputOffset())
		v.events = append(v.events, body[start:end:end])
	}
	return nil
}

// member reads the value of one member.
func (v *envelope) member(name, body []byte, limit int, lists []string) *request.Problem {
	d := &v.scanner.decoder
	for _, l := range lists {
		if string(name) == l && d.PeekKind() == '[' {
			if v.list != "" {
				return request.BadRequest("the body has two lists of events, %q and %q", v.list, l)
			}
			v.list = l
			return v.elements(body, limit)
		}
	}
	value, err := d.ReadValue()
	if err != nil {
		return notJSON(err)
	}
	switch string(name) {
	case "api_key", "token", "$token", "writeKey":
		v.mixed = v.offer(value) || v.mixed
	case "sent_at", "sentAt":
		v.sent = timeOf(value)
	case "context":
		v.context = nil
		if value.Kind() == '{' {
			end := int(d.InputOffset())
			v.context = body[end-len(value) : end : end]
		}
	case "historical_migration":
		v.historical = string(value) == "true"
	}
	return nil
}

// offer takes a key where there is none yet, and says whether it is another than the one
// there is.
func (v *envelope) offer(value []byte) (other bool) {
	if value[0] != '"' {
		return false
	}
	k := string(unquote(nil, value))
	if v.key == "" {
		v.key = k
	}
	return k != "" && k != v.key
}

// findKey looks for a key in the events themselves, which must agree, where the envelope
// has none: token, $token or api_key of an event, or token of its properties.
func (v *envelope) findKey() {
	var outer, inner scanner
	for _, raw := range v.events {
		var properties []byte
		found := false
		outer.each(raw, func(name, value []byte) bool {
			switch string(name) {
			case "api_key", "token", "$token":
				found = true
				v.mixed = v.offer(value) || v.mixed
			case "properties":
				properties = value
			}
			return true
		})
		if found {
			continue
		}
		inner.each(properties, func(name, value []byte) bool {
			if string(name) == "token" {
				v.mixed = v.offer(value) || v.mixed
			}
			return true
		})
	}
}
