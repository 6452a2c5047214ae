package redisdeadletter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// version is the first byte of what is encoded here. A new form gets a new number; old
// ones stay readable.
const version = 1

var errDamaged = errors.New("the stored bytes are not what was written")

// encodeMeta writes what is known of a letter without its message and history. Times are
// milliseconds, 0: none.
func encodeMeta(r *deadletter.Record) string {
	b := make([]byte, 0, 64+len(r.Pipeline)+len(r.ID)+len(r.Tenant))
	flags := byte(0)
	if r.State == deadletter.Replaying {
		flags |= 1
	}
	if r.Damaged != "" {
		flags |= 2
	}
	b = append(b, version, flags, byte(r.Kind))
	for _, n := range []uint64{uint64(r.Mark.Shard), uint64(r.Mark.Epoch), r.Mark.Hi, r.Mark.Lo, uint64(r.Deaths), uint64(r.Replays),
		uint64(r.Asked), uint64(r.Handed), uint64(r.Burnt), uint64(r.Epoch)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, ms := range []int64{millis(r.First), millis(r.Last), ceil(r.Due), ceil(r.Until)} {
		b = binary.AppendVarint(b, ms)
	}
	for _, s := range []string{r.Pipeline, r.ID, r.Tenant} {
		b = appendString(b, s)
	}
	return string(b)
}

// decodeMeta is the inverse of encodeMeta.
func decodeMeta(b []byte) (*deadletter.Record, error) {
	d := decoder{b: b}
	if d.byte() != version {
		return nil, errDamaged
	}
	r := new(deadletter.Record)
	flags := d.byte()
	if r.State = deadletter.Held; flags&1 != 0 {
		r.State = deadletter.Replaying
	}
	if flags&2 != 0 {
		r.Damaged = "the stored message is damaged"
	}
	r.Kind = tidemill.Kind(d.byte())
	r.Mark = tidemill.Mark{Shard: uint32(d.uvarint()), Epoch: uint32(d.uvarint()), Hi: d.uvarint(), Lo: d.uvarint()}
	r.Deaths, r.Replays, r.Asked, r.Handed, r.Burnt = int(d.uvarint()), int(d.uvarint()), int(d.uvarint()), int(d.uvarint()), int(d.uvarint())
	r.Epoch = uint32(d.uvarint())
	r.First, r.Last, r.Due, r.Until = instant(d.varint()), instant(d.varint()), instant(d.varint()), instant(d.varint())
	r.Pipeline, r.ID, r.Tenant = string(d.bytes()), string(d.bytes()), string(d.bytes())
	return r, d.end()
}

// What of a letter's message is in the field data.
const (
	dataIsRow = 1 << iota
	dataIsPayload
)

// encodeLetter writes what has no field of its own in the entry, and the checksum of the
// whole letter. Bytes stay bytes, and times keep every nanosecond of whatever year.
func encodeLetter(pipeline string, m *tidemill.Message, row []byte, flags byte) []byte {
	b := make([]byte, 0, 128)
	b = append(b, version, flags, m.Priority)
	for _, s := range []string{m.Type, m.To, string(m.Key)} {
		b = appendString(b, s)
	}
	for _, t := range []time.Time{m.Time, m.At} {
		b = binary.AppendVarint(b, t.Unix())
		b = binary.AppendUvarint(b, uint64(t.Nanosecond()))
	}
	for _, n := range []uint64{uint64(m.Tries), uint64(m.Handed), uint64(m.Mark.Shard), uint64(m.Mark.Epoch), m.Mark.Hi, m.Mark.Lo, uint64(len(m.Header))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, f := range m.Header {
		b = appendString(b, string(f.Name))
		b = appendString(b, string(f.Value))
	}
	return binary.LittleEndian.AppendUint64(b, sum(pipeline, m.Tenant, m.ID, b, m.Payload, row))
}

// decodeLetter is the inverse of encodeLetter, without the checksum, which is returned
// with the bytes that it is of. It copies what it keeps.
func decodeLetter(b []byte, m *tidemill.Message) (flags byte, head []byte, stored uint64, err error) {
	n := len(b) - 8
	if n < 0 {
		return 0, nil, 0, errDamaged
	}
	head, stored = b[:n], binary.LittleEndian.Uint64(b[n:])
	d := decoder{b: head}
	if d.byte() != version {
		return 0, head, stored, errDamaged
	}
	flags, m.Priority = d.byte(), d.byte()
	m.Type, m.To, m.Key = string(d.bytes()), string(d.bytes()), bytes.Clone(d.bytes())
	m.Time, m.At = d.time(), d.time()
	m.Tries, m.Handed = int(d.uvarint()), int(d.uvarint())
	m.Mark = tidemill.Mark{Shard: uint32(d.uvarint()), Epoch: uint32(d.uvarint()), Hi: d.uvarint(), Lo: d.uvarint()}
	fields := d.uvarint()
	if fields > uint64(len(d.b)) { // two bytes each at the least
		return flags, head, stored, errDamaged
	}
	m.Header = make([]tidemill.Field, 0, fields)
	for range fields {
		m.Header = append(m.Header, tidemill.Field{Name: bytes.Clone(d.bytes()), Value: bytes.Clone(d.bytes())})
	}
	return flags, head, stored, d.end()
}

// sum is the checksum of a letter's message with all that it is found by.
func sum(pipeline, tenant, id string, head, payload, row []byte) uint64 {
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
	for _, b := range [][]byte{head, payload, row} {
		part(b)
	}
	return h.Sum64()
}

// encodeHistory writes failures with a checksum of their own: they change, the message
// does not.
func encodeHistory(fs []deadletter.Failure) string {
	b := []byte{version}
	b = binary.AppendUvarint(b, uint64(len(fs)))
	for _, f := range fs {
		b = binary.AppendVarint(b, millis(f.At))
		b = append(b, byte(f.Kind))
		b = appendString(b, f.Cause)
		b = binary.AppendUvarint(b, uint64(f.Tries))
	}
	return string(binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b)))
}

// decodeHistory is the inverse of encodeHistory.
func decodeHistory(b []byte) ([]deadletter.Failure, error) {
	n := len(b) - 8
	if n < 0 || binary.LittleEndian.Uint64(b[n:]) != xxhash.Sum64(b[:n]) {
		return nil, errDamaged
	}
	d := decoder{b: b[:n]}
	if d.byte() != version {
		return nil, errDamaged
	}
	k := d.uvarint()
	if k > uint64(len(d.b)) {
		return nil, errDamaged
	}
	fs := make([]deadletter.Failure, 0, k)
	for range k {
		fs = append(fs, deadletter.Failure{At: instant(d.varint()), Kind: tidemill.Kind(d.byte()), Cause: string(d.bytes()), Tries: int(d.uvarint())})
	}
	return fs, d.end()
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads what the functions above wrote; after the first thing that is wrong it
// reads zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes is a part of what is decoded: copy it.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

func (d *decoder) time() time.Time {
	s, ns := d.varint(), d.uvarint()
	return time.Unix(s, int64(ns%1e9)).UTC()
}

func (d *decoder) end() error {
	if d.bad || len(d.b) > 0 {
		return errDamaged
	}
	return nil
}

// millis is a time as it is kept; the zero time is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// ceil is the first whole millisecond that is not before t; the zero time is 0.
func ceil(t time.Time) int64 {
	ms := millis(t)
	if ms != 0 && time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
