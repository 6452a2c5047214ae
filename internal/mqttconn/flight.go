package mqttconn

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tidemill/tidemill"
)

// slot is a packet id and the message that uses it.
type slot struct {
	b       *batch // nil: its caller no longer waits
	i       int    // which message of the batch
	seq     uint64 // order of sending
	state   state
	dup     bool // was sent again
	unknown bool // the broker may know this id from before: released before it is used
}

type state uint8

const (
	unused       state = iota
	waitsPuback        // QoS 1, sent
	waitsPubrec        // QoS 2, sent
	waitsPubcomp       // QoS 2, accepted by the broker and released by us
)

// acked processes an acknowledgement; under mu.
func (c *Client) acked(l *link, first byte, a ack, body []byte) {
	if first == pubrelBits {
		delete(c.inbox.releasing, a.id)
		c.out = appendAck(c.out, pubcompBits, a.id)
		return
	}
	if int(a.id) >= len(c.slots) || c.slots[a.id].state == unused {
		c.stats.Unexpected++
		if first == pubrecBits && a.code < firstError { // else the broker would keep it for ever
			c.out = appendAck(c.out, pubrelBits, a.id)
		}
		return
	}
	s := &c.slots[a.id]
	reason := func() string {
		if l.version < 5 {
			return ""
		}
		return c.redact(reasonString(body))
	}
	switch {
	case first == pubackBits && s.state != waitsPubcomp, // a broker may refuse QoS 2 so
		first == pubrecBits && s.state == waitsPubrec && a.code >= firstError && !(a.code == codeIDInUse && s.dup):
		var err error
		if a.code >= firstError {
			err = refusedMessage(a.code, reason())
			c.stats.Refused++
		}
		c.land(a.id, err)
	case first == pubrecBits: // also repeated, and as "in use" for one that was sent again: the broker has it
		s.state = waitsPubcomp
		c.out = appendAck(c.out, pubrelBits, a.id)
	case first == pubcompBits && s.state == waitsPubcomp:
		var err error
		if a.code >= firstError && !s.dup { // sent again, the first time may have released it
			err = tidemill.Fail(tidemill.Unknown, "the MQTT broker took a message and then forgot it: %w", refusal("its release", a.code, reason()))
		}
		c.land(a.id, err)
	default: // the answer to the release of an earlier use of the id
	}
}

// land ends the message of a packet id and frees the id; under mu.
func (c *Client) land(id uint16, err error) {
	s := &c.slots[id]
	if s.b != nil {
		c.endOne(s.b, s.i, err)
	}
	*s = slot{unknown: s.unknown}
	c.free = append(c.free, id)
	c.inFlight--
}

// lose ends the message of a packet id whose outcome stays unknown.
func (c *Client) lose(id uint16, err error) {
	s := &c.slots[id]
	c.stats.Lost++
	s.unknown = s.unknown || s.state == waitsPubrec
	if s.b != nil {
		s.b.broken = true
	}
	c.land(id, err)
}

// flying are the packet ids in use, in the order of sending.
func (c *Client) flying() []uint16 {
	ids := make([]uint16, 0, c.inFlight)
	for id := range c.slots {
		if c.slots[id].state != unused {
			ids = append(ids, uint16(id))
		}
	}
	slices.SortFunc(ids, func(a, b uint16) int { return cmp.Compare(c.slots[a].seq, c.slots[b].seq) })
	return ids
}

// suspend ends, after a break, the messages that cannot be sent again; under mu.
func (c *Client) suspend(why error) {
	for _, id := range c.flying() {
		s := &c.slots[id]
		if c.o.Session == 0 || s.b == nil && s.state != waitsPubcomp {
			c.lose(id, lost(why))
		}
	}
	c.failBroken(why)
}

// abandonFlights ends messages in flight that wait for a connection; under mu. What the broker
// still has to be told stays known.
func (c *Client) abandonFlights(why error) {
	for _, id := range c.flying() {
		s := &c.slots[id]
		switch {
		case s.state != waitsPubcomp:
			c.lose(id, lost(why))
		case s.b != nil:
			c.stats.Lost++
			c.endOne(s.b, s.i, lost(why))
			s.b = nil
		}
	}
	c.failBroken(why)
}

// failBroken ends the unsent messages of batches that lost a message, so that later messages do
// not overtake it.
func (c *Client) failBroken(why error) {
	for _, b := range slices.Clone(c.queue) {
		if b.broken {
			c.failRest(b, away(why))
		}
	}
}

var errForgotten = errors.New("the MQTT broker forgot the session")

// resume sends again what was in flight, if the broker still has the session; under mu.
func (c *Client) resume(l *link) {
	if !l.present {
		for _, id := range c.flying() {
			c.lose(id, lost(errForgotten))
		}
		for id := range c.slots {
			c.slots[id].unknown = false
		}
		c.failBroken(errForgotten)
		return
	}
	if c.stats.Connects == 1 { // ids of an earlier life
		for id := range c.slots {
			c.slots[id].unknown = true
		}
		return
	}
	for n, id := range c.flying() {
		s := &c.slots[id]
		s.dup = true
		switch {
		case s.state == waitsPubcomp:
			c.out = appendAck(c.out, pubrelBits, id)
		case s.b == nil:
			c.lose(id, nil)
		case n >= l.quota, c.unfit(l, &s.b.msgs[s.i]) != nil: // the broker accepts less than before
			c.lose(id, lost(errors.New("the MQTT broker takes less than before")))
		default:
			c.stats.Sent++
			c.stats.Repeated++
			c.out = appendPublish(c.out, &s.b.msgs[s.i], id, true, l.version)
		}
	}
	c.failBroken(nil)
}
