// Package rules is what the backends of dead letters share: what a store refuses, what an end adds
// to the books, and how dead letters are stored.
package rules

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
)

// AppendMessage writes all of a message but its name and its payload, as backends keep it
// in one piece: bytes stay bytes, and times keep every nanosecond.
func AppendMessage(b []byte, m *tidemill.Message) []byte {
	b = wire.AppendString(b, m.Type)
	b = wire.AppendString(b, m.To)
	b = wire.AppendString(b, m.Key)
	b = wire.AppendTime(b, m.Time)
	b = wire.AppendTime(b, m.At)
	for _, n := range []uint64{uint64(m.Tries), uint64(m.Handed), uint64(m.Mark.Shard), uint64(m.Mark.Epoch), m.Mark.Hi, m.Mark.Lo, uint64(len(m.Header))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, f := range m.Header {
		b = wire.AppendString(b, f.Name)
		b = wire.AppendString(b, f.Value)
	}
	return b
}

// ReadMessage reads what AppendMessage wrote into m, and copies what it keeps. r.End
// reports damage.
func ReadMessage(r *wire.Reader, m *tidemill.Message) {
	m.Type, m.To, m.Key = string(r.Bytes()), string(r.Bytes()), bytes.Clone(r.Bytes())
	m.Time, m.At = r.Time(), r.Time()
	m.Tries, m.Handed = int(r.Uvarint()), int(r.Uvarint())
	m.Mark = tidemill.Mark{Shard: uint32(r.Uvarint()), Epoch: uint32(r.Uvarint()), Hi: r.Uvarint(), Lo: r.Uvarint()}
	n := r.Count()
	m.Header = make([]tidemill.Field, 0, n)
	for range n {
		m.Header = append(m.Header, tidemill.Field{Name: bytes.Clone(r.Bytes()), Value: bytes.Clone(r.Bytes())})
	}
}

// SumOf is the checksum of a dead letter's message with all that identifies it. head is the
// encoded message, without its payload.
func SumOf(l *deadletter.Letter, head []byte) uint64 {
	if l.Edited.IsZero() { // so that it also covers whether the dead letter was edited
		return Sum(l.Pipeline, l.Tenant, l.ID, head, l.Payload, l.Row)
	}
	return Sum(l.Pipeline, l.Tenant, l.ID, head, l.Payload, l.Row, l.Original)
}

// Sum is SumOf of a dead letter in parts: its payload and row, and the original of an
// edited one.
func Sum(pipeline, tenant, id string, head []byte, parts ...[]byte) uint64 {
	h := xxhash.New()
	var length [8]byte
	part := func(b []byte) {
		binary.LittleEndian.PutUint64(length[:], uint64(len(b)))
		_, _ = h.Write(length[:]) // never fails
		_, _ = h.Write(b)
	}
	for _, s := range []string{pipeline, tenant, id} {
		part([]byte(s))
	}
	part(head)
	for _, b := range parts {
		part(b)
	}
	return h.Sum64()
}

// historyVersion is the first byte of an encoded history: a new form gets a new number.
const historyVersion = 1

// EncodeHistory writes failures as backends keep them, with their own checksum: they
// change, the message does not.
func EncodeHistory(fs []deadletter.Failure) []byte {
	b := binary.AppendUvarint([]byte{historyVersion}, uint64(len(fs)))
	for _, f := range fs {
		b = binary.AppendVarint(b, wire.Millis(f.At))
		b = append(b, byte(f.Kind))
		b = wire.AppendString(b, f.Cause)
		b = binary.AppendUvarint(b, uint64(f.Tries))
		if f.Answer == nil {
			b = append(b, 0)
		} else {
			b = wire.AppendString(append(b, 1), f.Answer)
		}
	}
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
}

// DecodeHistory is the inverse of EncodeHistory; it returns wire.ErrDamaged for other
// bytes.
func DecodeHistory(b []byte) ([]deadletter.Failure, error) {
	n := len(b) - 8
	if n < 0 || binary.LittleEndian.Uint64(b[n:]) != xxhash.Sum64(b[:n]) {
		return nil, wire.ErrDamaged
	}
	r := wire.NewReader(b[:n])
	if r.Byte() != historyVersion {
		return nil, wire.ErrDamaged
	}
	k := r.Count()
	fs := make([]deadletter.Failure, 0, k)
	for range k {
		f := deadletter.Failure{At: wire.Instant(r.Varint()), Kind: tidemill.Kind(r.Byte()), Cause: string(r.Bytes()), Tries: int(r.Uvarint())}
		if r.Byte() != 0 {
			f.Answer = append([]byte{}, r.Bytes()...)
		}
		fs = append(fs, f)
	}
	return fs, r.End()
}
