package event

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// Decode reads one event as its sender wrote it, in any format but Stream. m is what the
// endpoint knows of it besides its bytes. Of duplicate members the last one counts.
//
// The event's byte slices point into raw, its texts do not. A refusal is a *tidemill.Error of
// kind Validation around a *Refusal; e holds what was read until then. An event without an id
// gets one made of its bytes and its time of receipt, and is marked as Derived. Its time and
// order are those of an event that came by itself. For the events of a request, Clock.Together
// finds them from the events' Timing.
func Decode(m *Meta, raw []byte, e *Event) error {
	d := decoders.Get().(*decoder)
	defer d.release()
	e.Reset()
	if err := d.decode(m, raw, e); err != nil {
		return err
	}
	if e.ID == uuid.Nil {
		e.ID, e.Derived = bytesID(m, raw), true
	}
	given := e.timing // Together finishes it again, with the others of its request
	e.alone(m, 0)
	e.timing = given
	return nil
}

// DecodeMessage reads the event of a message: one from an endpoint, with its Meta in
// MetaHeader, or the entry of a stream. A missing id is made of the stream's name and the
// message's ID, a missing time is the message's. Both are the same at every redelivery. clock
// bounds the times of events that did not come through an endpoint. Refusals are as in Decode.
func DecodeMessage(msg *tidemill.Message, clock Clock, e *Event) error {
	d := decoders.Get().(*decoder)
	defer d.release()
	e.Reset()
	e.Origin = origin(msg.Mark)
	m := Meta{}
	if h := msg.Get(MetaHeader); h != nil {
		var err error
		if m, err = parseMeta(h, &d.words); err != nil {
			return err
		}
	}
	m.Checked = m.Checked && (m.Sum == 0 || m.Sum == SumOf(msg.Payload)) // else they were edited
	m.Clock = clock
	if m.Received.IsZero() {
		m.Received = msg.Time
	}
	var err error
	if m.Format == Stream {
		err = d.stream(&m, msg, e)
	} else {
		err = d.decode(&m, msg.Payload, e)
	}
	e.alone(&m, msg.Mark.Lo&(1<<placeBits-1))
	if err == nil && e.ID == uuid.Nil {
		e.ID, e.Derived = entryID(msg), true
	}
	return err
}

// A decoder is memory that is reused for the next event.
type decoder struct {
	words   words
	props   [pNone][]byte      // the values of interest in the event's properties
	ops     [pUnset + 1][]byte // the values of interest in its user properties
	plain   bool               // its user properties have others too
	call    segmentCall        // of Segment
	fields  fields             // of a stream's entry or a row
	at      map[string]int     // where in Event.Changes a key is, when there are many
	scratch []byte
}

const maxScratch = 64 << 10 // bytes a decoder keeps for the next event

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// release lets go of the event's bytes and gives the decoder back.
func (d *decoder) release() {
	clear(d.props[:])
	clear(d.ops[:])
	d.plain = false
	d.call.reset()
	if cap(d.scratch) > maxScratch {
		d.scratch = nil
	}
	decoders.Put(d)
}

func (d *decoder) decode(m *Meta, raw []byte, e *Event) error {
	e.ID, e.Project, e.BatchID = m.Event, m.Project, m.Batch
	e.IngestedAt, e.Profile = m.Received, true
	switch {
	case m.Project == uuid.Nil:
		return invalid("project_id", "missing; the UUID of a project is required")
	case !m.Checked && !valid(raw):
		return invalid("event", "its bytes are no JSON")
	}
	c := cursor{b: raw}
	if !c.open('{') {
		return invalid("event", "%s; an object is required", describe(c.any()))
	}
	switch m.Format {
	case Native:
		return d.native(m, &c, e)
	case PostHog:
		return d.posthog(m, &c, e)
	case Segment:
		return d.segment(m, &c, e)
	case CloudEvents:
		return d.cloudevents(m, &c, e)
	}
	return tidemill.Fail(tidemill.Validation, "format %d is not one that Decode reads", m.Format)
}

// named sets what follows from the name alone.
func (e *Event) named(name string) {
	e.Name, e.Type = name, "track"
	switch name {
	case "$identify":
		e.Type = "identify"
	case "$pageview":
		e.Type = "pageview"
	case "$pageleave":
		e.Type = "pageleave"
	case "$set":
		e.Type = "set"
	case "$set_once":
		e.Type = "set_once"
	case "$screen":
		e.Type = "screen"
	}
}

// name reads an event's name.
func (d *decoder) name(v []byte, field string, e *Event) error {
	if len(v) > 0 && v[0] != '"' {
		return invalid(field, "%s; a text of 1 to %d characters is required", describe(v), maxName)
	}
	e.named(d.word(v))
	return nil
}

// identify notes the id that was sent, unless the endpoint found or gave one.
func (d *decoder) identify(v []byte, e *Event) {
	if e.ID == uuid.Nil {
		if s := d.characters(v); len(s) > 0 {
			e.ID = eventID(e.Project, s)
		}
	}
}

// size reads a width or height of a screen. A value that is not a number is 0, and no number
// exceeds the column's range.
func (d *decoder) size(v []byte) uint16 { return size(d.characters(v)) }

func size(s []byte) uint16 {
	var n uint32
	for i, ch := range s {
		switch {
		case '0' <= ch && ch <= '9':
			n = min(n*10+uint32(ch-'0'), 1<<16)
		case i > 0 && (ch == '.' || ch == 'e' || ch == 'E'):
			return fractional(s)
		default:
			return 0
		}
	}
	return uint16(min(n, 1<<16-1))
}

// rounded is a time in the precision that is stored.
func rounded(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
