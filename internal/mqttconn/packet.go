package mqttconn

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill"
)

// The first byte of packets that are read and written by hand: all those of a message. Rare
// packets go through a library.
const (
	publishBits = 0x30
	pubackBits  = 0x40
	pubrecBits  = 0x50
	pubrelBits  = 0x62
	pubcompBits = 0x70
	pingreqBits = 0xC0
)

// Properties of PUBLISH in MQTT 5 that are written and read.
const (
	propExpiry      = 0x02
	propContentType = 0x03
	propUser        = 0x26
)

var errMalformed = errors.New("the broker sent a malformed packet")

// cut finds the first packet of b. size is 0 if b does not hold all of it; need is then its
// size, if known.
func cut(b []byte, most int) (body []byte, size, need int, err error) {
	n, shift, at := 0, 0, 1
	for ; ; at++ {
		if at == len(b) || len(b) == 0 {
			return nil, 0, 0, nil
		}
		if at > 4 {
			return nil, 0, 0, fmt.Errorf("%w: its length never ends", errMalformed)
		}
		n |= int(b[at]&0x7f) << shift
		shift += 7
		if b[at] < 0x80 {
			at++
			break
		}
	}
	if at+n > most {
		return nil, 0, 0, fmt.Errorf("the broker sent a packet of %d bytes, more than the limit of %d: raise it, or publish less at once", at+n, most)
	}
	if len(b) < at+n {
		return nil, 0, at + n, nil
	}
	return b[at : at+n], at + n, at + n, nil
}

// ack is the content of all four acknowledgements.
type ack struct {
	id   uint16
	code byte
}

// parseAck reads the body of PUBACK, PUBREC, PUBREL or PUBCOMP.
func parseAck(body []byte, version byte) (ack, error) {
	if len(body) < 2 || version < 5 && len(body) != 2 {
		return ack{}, fmt.Errorf("%w: an acknowledgement of %d bytes", errMalformed, len(body))
	}
	a := ack{id: binary.BigEndian.Uint16(body)}
	if len(body) > 2 {
		a.code = body[2]
	}
	return a, nil
}

// incoming is a received PUBLISH; its slices point into the read buffer.
type incoming struct {
	topic, properties, payload []byte
	id                         uint16
	qos                        byte
	dup, retain                bool
}

// parsePublish reads the body of a PUBLISH.
func parsePublish(first byte, body []byte, version byte) (incoming, error) {
	in := incoming{qos: first >> 1 & 3, dup: first&8 != 0, retain: first&1 != 0}
	var ok bool
	if in.topic, body, ok = cutField(body); !ok || in.qos == 3 {
		return in, fmt.Errorf("%w: a PUBLISH without a topic or QoS", errMalformed)
	}
	if in.qos > 0 {
		if len(body) < 2 {
			return in, fmt.Errorf("%w: a PUBLISH without a packet id", errMalformed)
		}
		if in.id = binary.BigEndian.Uint16(body); in.id == 0 {
			return in, fmt.Errorf("%w: a PUBLISH with packet id 0", errMalformed)
		}
		body = body[2:]
	}
	if version >= 5 {
		n, used := varint(body)
		if used == 0 || n > len(body)-used {
			return in, fmt.Errorf("%w: a PUBLISH with properties that do not end", errMalformed)
		}
		in.properties, body = body[used:used+n], body[used+n:]
	}
	in.payload = body
	return in, nil
}

// cutField cuts off a string with its length before it.
func cutField(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, false
	}
	return b[2 : 2+n], b[2+n:], true
}

// varint reads a variable byte integer; used is 0 if there is none.
func varint(b []byte) (n, used int) {
	for i := range min(len(b), 4) {
		n |= int(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

func appendVarint(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func varintSize(n int) int {
	switch {
	case n < 1<<7:
		return 1
	case n < 1<<14:
		return 2
	case n < 1<<21:
		return 3
	}
	return 4
}

// appendPublish appends the packet of a message.
func appendPublish(b []byte, m *Message, id uint16, dup bool, version byte) []byte {
	first := byte(publishBits) | m.QoS<<1
	if dup {
		first |= 8
	}
	if m.Retain {
		first |= 1
	}
	n, props := m.size(version)
	b = appendVarint(append(b, first), n)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(m.Topic))), m.Topic...)
	if m.QoS > 0 {
		b = binary.BigEndian.AppendUint16(b, id)
	}
	if version >= 5 {
		b = m.appendProperties(appendVarint(b, props))
	}
	return append(b, m.Payload...)
}

// size is the remaining length of the message's packet, and the length of its properties.
func (m *Message) size(version byte) (n, props int) {
	n = 2 + len(m.Topic) + len(m.Payload)
	if m.QoS > 0 {
		n += 2
	}
	if version < 5 {
		return n, 0
	}
	if m.Expiry > 0 {
		props += 5
	}
	if m.ContentType != "" {
		props += 3 + len(m.ContentType)
	}
	for i := range m.User {
		props += 5 + len(m.User[i].Name) + len(m.User[i].Value)
	}
	return n + varintSize(props) + props, props
}

func (m *Message) appendProperties(b []byte) []byte {
	if m.Expiry > 0 {
		b = binary.BigEndian.AppendUint32(append(b, propExpiry), seconds(m.Expiry))
	}
	if m.ContentType != "" {
		b = append(binary.BigEndian.AppendUint16(append(b, propContentType), uint16(len(m.ContentType))), m.ContentType...)
	}
	for i := range m.User {
		b = append(binary.BigEndian.AppendUint16(append(b, propUser), uint16(len(m.User[i].Name))), m.User[i].Name...)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(m.User[i].Value))), m.User[i].Value...)
	}
	return b
}

// appendAck appends an acknowledgement of success.
func appendAck(b []byte, first byte, id uint16) []byte {
	return append(b, first, 2, byte(id>>8), byte(id))
}

// fixed lengths of the values of a PUBLISH's other properties.
var fixed = map[byte]int{0x01: 1, propExpiry: 4, 0x23: 2}

// appendUser appends the user properties of a PUBLISH to dst. A malformed property ends them.
func appendUser(dst []tidemill.Field, props []byte) []tidemill.Field {
	for len(props) > 0 {
		kind, rest := props[0], props[1:]
		var name, value []byte
		ok := true
		switch kind {
		case propUser:
			if name, rest, ok = cutField(rest); ok {
				value, rest, ok = cutField(rest)
			}
			if ok {
				dst = append(dst, tidemill.Field{Name: name, Value: value})
			}
		case propContentType, 0x08, 0x09: // content type, response topic, correlation data
			_, rest, ok = cutField(rest)
		case 0x0B: // subscription identifier
			_, used := varint(rest)
			ok = used > 0
			rest = rest[used:]
		default:
			n, known := fixed[kind]
			if ok = known && len(rest) >= n; ok {
				rest = rest[n:]
			}
		}
		if !ok {
			return dst
		}
		props = rest
	}
	return dst
}
