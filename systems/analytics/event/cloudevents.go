package event

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// CloudEventsID is where the distinct id of a CloudEvent is looked for by default. Its subject
// is optional, and no SDK sets one by default; its source is always set.
const CloudEventsID = "subject,data.distinct_id,source"

// CheckCloudEventsID refuses places that cannot hold a CloudEvent's distinct id: each is the
// name of an attribute or extension (subject, source, userid…), or data.<member>.
func CheckCloudEventsID(places []string) error {
	if len(places) == 0 {
		return errors.New("no place to look for the distinct id of a CloudEvent is given")
	}
	for _, p := range places {
		member, inData := strings.CutPrefix(p, "data.")
		if inData && member != "" && !strings.Contains(member, ",") || !inData && attribute(p) && p != "data" {
			continue
		}
		return fmt.Errorf("%q can hold no distinct id of a CloudEvent: want an attribute or extension, whose name has lower-case letters and digits (subject, source, userid), or data.<member>", p)
	}
	return nil
}

// attribute reports whether a CloudEvent may have an attribute or extension of that name.
func attribute(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || 'z' < r) && (r < '0' || '9' < r) })
}

// cloudEvent has the values of a CloudEvent as received.
type cloudEvent struct {
	version, id, source, name, at []byte
	data                          []byte   // an object
	attributes                    []member // without a column: all but specversion, type, time and data
	raw                           []member // data that is not an object
}

// cloudevents reads a CloudEvent 1.0 in structured form, at the cursor. Its type is the event's
// name, (source, id) the event's id, and its data the properties, read as PostHog's are. Data
// that is not an object, and data_base64, become properties of that name. Attributes and
// extensions become properties behind them, as ce_<name>. The distinct id is the first one
// found in the places that m names. The sender is a server: its address and User-Agent are not
// the person's.
func (d *decoder) cloudevents(m *Meta, c *cursor, e *Event) error {
	var v cloudEvent
	for key, ok := c.member(); ok; key, ok = c.member() {
		switch string(key) {
		case "specversion":
			v.version = c.value()
		case "type":
			v.name = c.value()
		case "time":
			v.at = c.value()
		case "data":
			if v.data = nil; c.at('{') {
				v.data, _ = d.bag(c, "data", false)
				break
			}
			v.raw = append(v.raw, named("data", c.any()))
		case "data_base64":
			v.raw = append(v.raw, named("data_base64", c.any()))
		default:
			switch value := c.value(); {
			case value == nil:
			case string(key) == "id":
				v.id = value
				v.attributes = append(v.attributes, named("ce_id", value))
			case string(key) == "source":
				v.source = value
				v.attributes = append(v.attributes, named("ce_source", value))
			default:
				v.attributes = append(v.attributes, member{prefix: "ce_", name: key, value: value})
			}
		}
	}
	e.Properties = extend(v.data, slices.Concat(v.raw, v.attributes))
	places := cmp.Or(m.Whose, CloudEventsID)
	e.DistinctID = d.cloudEventID(places, &v)
	if err := d.name(v.name, "type", e); err != nil {
		return err
	}
	if s := string(d.characters(v.version)); s != "1.0" {
		return invalid("specversion", "%.20q; 1.0 is required", s)
	}
	for _, f := range [...]struct {
		name  string
		value []byte
	}{{"id", v.id}, {"source", v.source}} {
		if !is(f.value, '"') || len(f.value) == 2 {
			return invalid(f.name, "missing, empty or no text; a text of at least one character is required")
		}
	}
	if err := e.check("type", "distinct id ("+places+")"); err != nil {
		return err
	}
	if e.ID == uuid.Nil {
		e.ID = derive([]byte("cloudevent:"), []byte(e.Project.String()), lengthed(d.text(v.source)), []byte(d.text(v.id)))
	}
	if err := d.timed(m, "time", v.at, nil, nil, false, e); err != nil {
		return err
	}
	d.context(e)
	if e.Name == "$identify" {
		e.UserID = e.DistinctID
	}
	d.person(e)
	return nil
}

// TraceOfCloudEvent is the trace of a CloudEvent in structured form, by the extension Distributed Tracing:
// its attributes traceparent and tracestate.
func TraceOfCloudEvent(raw []byte) (t tidemill.Trace, ok bool) {
	if !bytes.Contains(raw, []byte(tidemill.Traceparent)) {
		return t, false
	}
	var d decoder
	var parent, state string
	c := cursor{b: raw}
	if !c.open('{') {
		return t, false
	}
	for key, ok := c.member(); ok; key, ok = c.member() {
		switch value := c.any(); {
		case !is(value, '"'):
		case string(key) == tidemill.Traceparent:
			parent = d.text(value)
		case string(key) == tidemill.Tracestate:
			state = d.text(value)
		}
	}
	return tidemill.ParseTrace(parent, state)
}

// cloudEventID finds the distinct id of a CloudEvent.
func (d *decoder) cloudEventID(places string, v *cloudEvent) string {
	for place := range strings.SplitSeq(places, ",") {
		var id string
		if member, ok := strings.CutPrefix(place, "data."); ok {
			c := cursor{b: v.data}
			for name, ok := c.next(false); ok; name, ok = c.member() {
				if value := c.value(); string(name) == member {
					id = d.id(value)
				}
			}
		} else {
			for i := range v.attributes {
				if a := &v.attributes[i]; a.prefix+string(a.name) == "ce_"+place {
					id = d.id(a.value)
				}
			}
		}
		if id != "" {
			return id
		}
	}
	return ""
}
