// Package event is the event of delivery. Use it to check or read the bytes that a site sent.
// [Rules] list the types of events. Their Decode reads an event in one pass, names everything
// that is wrong with it, field by field, and keeps what routing, consent and idempotency need.
// Bytes are never changed: partners get the event as it was received.
//
// One table (fields.go) says what each field may hold. Decode checks events by it, and Schema
// writes it as JSON Schema, so the documentation matches the checks.
//
// A field that the table does not name is allowed and kept, within limits: text of 1,000
// characters, 100 elements, 10 levels. Null counts as absent. Decode refuses two things that
// many JSON readers accept, because a partner might read them differently: a name that comes
// twice in one object, and text that is not UTF-8.
package event

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Event is what is known of an event besides its bytes. Texts are empty where the event does
// not have them.
type Event struct {
	ID         string // eventId in lower case; empty: the event has none
	Type       string
	Site       string
	Time       time.Time
	Version    string // of its schema: the event's own, else the request's, else 1.0.0
	User       string // 64 hex digits, in lower case
	Device     string
	Session    string
	Order      string // orderId of purchases and conversions
	Key        string // idempotencyKey: its own, where it has one
	Purchase   bool   // its type is one of purchases
	Conversion bool   // it came as a conversion, from server to server
	Consent    Consent
}

// Hash of an event with an id: over site, id and time. Equal hashes mean the same event sent
// again.
func (e *Event) Hash() [sha256.Size]byte {
	var room [256]byte
	b := append(room[:0], "event\x00"...)
	b = append(append(b, e.Site...), 0) // neither has a zero byte
	b = append(append(b, e.ID...), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Time.Nanosecond()))
	return sha256.Sum256(b)
}

// NameFor makes the id of an event without one: of its site, its idempotency key (with the
// key's scope), its position in the request and its bytes. The same request sent again names
// the same events. No other request does.
func NameFor(site, key string, index int, raw []byte) string {
	h := sha256.New()
	var n [8]byte
	for _, part := range [...]string{"tidemill delivery event", site, key} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	binary.BigEndian.PutUint64(n[:], uint64(index))
	h.Write(n[:])
	h.Write(raw)
	var sum [sha256.Size]byte
	id := uuid.UUID(h.Sum(sum[:0])[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: a custom form
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}
