// Package event is the event of delivery: use it wherever the bytes that a site sent are
// to be judged or understood. [Rules] say which types of events there are; their Decode
// reads an event in one pass, names everything that is wrong with it, field by field, and
// keeps what routing, consent and idempotency need. Bytes are never changed: what goes on
// its way is the event as it was received.
//
// One table (fields.go) says what each field may hold. Decode walks an event along it, and
// Schema writes it as JSON Schema, so that what is documented is what is checked.
//
// What the table does not name is allowed and goes along, within limits: text of 1,000
// characters, 100 elements, 10 levels. Null is as good as absent. Two things are refused
// that many readers of JSON let pass, because a partner might read them in another way
// than the rules here did: a name that comes twice in one object, and text that is no
// UTF-8.
package event

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Event is what is known of an event beside its bytes. Texts are empty where the event
// does not have them.
type Event struct {
	ID         string // eventId in lower case; empty: it brought none
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

// Hash of an event that brought an id: over site, id and time. Equal hashes are the same
// event sent again.
func (e *Event) Hash() [sha256.Size]byte {
	var room [256]byte
	b := append(room[:0], "event\x00"...)
	b = append(append(b, e.Site...), 0) // neither has a zero byte
	b = append(append(b, e.ID...), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Time.Nanosecond()))
	return sha256.Sum256(b)
}

// NameFor makes the id of an event that brought none: of its site, the idempotency key
// that protects it (with the scope in which that key is one), its place in the request and
// its bytes. The same request sent again names the same events, and no other one does.
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
	id[6] = id[6]&0x0f | 0x80 // version 8: made as its maker likes
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}
