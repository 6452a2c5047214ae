package event

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// namespace of event ids that are derived from other values. It never changes.
var namespace = uuid.MustParse("6f1c2c0e-52f4-4f0b-9d53-1f6d2b8a7e10")

// eventID is the id of an event whose sender calls it s: s itself if it is a UUID, else the
// UUIDv5 of "project:s". It never changes. Empty and the zero UUID are not ids.
func eventID(project uuid.UUID, s []byte) uuid.UUID {
	if len(s) == 0 {
		return uuid.Nil
	}
	if id, ok := parseUUID(s); ok {
		return id
	}
	return derive([]byte(project.String()+":"), s)
}

// IDOf is the id of an event of a project whose sender calls it that.
func IDOf(project uuid.UUID, sent string) uuid.UUID { return eventID(project, []byte(sent)) }

// parseUUID reads the two usual notations, with hyphens and without.
func parseUUID(s []byte) (id uuid.UUID, ok bool) {
	switch {
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-':
		var b [32]byte
		copy(b[:8], s[:8])
		copy(b[8:12], s[9:13])
		copy(b[12:16], s[14:18])
		copy(b[16:20], s[19:23])
		copy(b[20:], s[24:])
		_, err := hex.Decode(id[:], b[:])
		return id, err == nil
	case len(s) == 32:
		_, err := hex.Decode(id[:], s)
		return id, err == nil
	}
	return id, false
}

// entryID is the id of an event without one: made of its message's position.
func entryID(msg *tidemill.Message) uuid.UUID {
	if msg.ID != "" {
		return derive([]byte("entry:"), lengthed(msg.To), []byte(msg.ID))
	}
	var b [20]byte
	binary.BigEndian.PutUint32(b[:], msg.Mark.Shard)
	binary.BigEndian.PutUint64(b[4:], msg.Mark.Hi)
	binary.BigEndian.PutUint64(b[12:], msg.Mark.Lo)
	return derive([]byte("mark:"), lengthed(msg.To), b[:])
}

// bytesID is the id of an event without one and without a message.
func bytesID(m *Meta, raw []byte) uuid.UUID {
	b := append([]byte("bytes:"), m.Project[:]...)
	return derive(binary.BigEndian.AppendUint64(b, uint64(milli(m.Received))), raw)
}

// lengthed makes s distinguishable from what follows it.
func lengthed(s string) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(s))), s...)
}

func derive(parts ...[]byte) uuid.UUID {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return uuid.NewSHA1(namespace, b)
}

// origin is a number for a message's position: the same at every redelivery and after every
// restart, different for every other position (but one in 2⁶⁴), and not 0.
func origin(m tidemill.Mark) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, v := range [...]uint64{uint64(m.Shard), m.Hi, m.Lo} {
		h ^= v
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return max(h, 1)
}
