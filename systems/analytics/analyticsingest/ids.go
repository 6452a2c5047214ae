package analyticsingest

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// nameless gives an id to an event that brings none: the index-th of its batch. The
// package comment says why it is made so.
func (x *exchange) nameless(index int, raw []byte, sent time.Time) uuid.UUID {
	b := x.batch
	if b.distinguished(raw) {
		h := sha256.Sum256(raw)
		if b.seen == nil {
			b.seen = map[[sha256.Size]byte]uint64{}
		}
		n := b.seen[h]
		b.seen[h] = n + 1
		return hashID("event", x.Owner.Project.ID, h, 0, n)
	}
	if sent.IsZero() {
		return x.h.o.NewID()
	}
	if !b.hashed {
		b.hash, b.hashed = sha256.Sum256(x.Body.Bytes), true
	}
	return hashID("place", x.Owner.Project.ID, b.hash, uint64(sent.UnixMilli()), uint64(index))
}

// hashID is the UUIDv8 that a hash and what it is of stand for.
func hashID(kind string, project uuid.UUID, h [sha256.Size]byte, time, n uint64) (id uuid.UUID) {
	b := append(make([]byte, 0, 128), "tidemill ingest "...)
	b = append(append(b, kind...), 0)
	b = append(append(b, project[:]...), h[:]...)
	b = binary.BigEndian.AppendUint64(b, time)
	b = binary.BigEndian.AppendUint64(b, n)
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80 // version 8: made as its maker likes
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}

// distinguished says whether an event has something that another one of the same sort
// would not have: its time, or what PostHog's old clients gave it instead of an id.
func (b *batch) distinguished(raw []byte) (yes bool) {
	said := func(v []byte) bool {
		return v[0] == '-' || '0' <= v[0] && v[0] <= '9' || v[0] == '"' && len(v) > 2
	}
	var properties []byte
	b.scanner.each(raw, func(name, value []byte) bool {
		switch string(name) {
		case "timestamp", "originalTimestamp", "time":
			yes = said(value)
		case "properties":
			properties = value
		}
		return !yes
	})
	if !yes {
		b.scanner.each(properties, func(name, value []byte) bool {
			yes = (string(name) == "$time" || string(name) == "$insert_id") && said(value)
			return !yes
		})
	}
	return yes
}
