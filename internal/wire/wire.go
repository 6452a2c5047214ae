// Package wire reads and writes the small binary forms in which backends keep values without a
// column: bytes with their length before them, numbers as varints. A fingerprint is a short form that
// cannot be read back.
package wire

import (
	"encoding/binary"
	"errors"
	"time"
)

// ErrDamaged says that bytes are not those that were written.
var ErrDamaged = errors.New("the stored bytes are not what was written")

// AppendString writes a string or bytes with their length before them.
func AppendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendTime writes a time of any year with every nanosecond.
func AppendTime(b []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()), uint64(t.Nanosecond()))
}

// Reader reads in the order of writing. After the first error it reads zeros, and End reports
// it.
type Reader struct {
	b   []byte
	bad bool
}

// NewReader reads b, which it does not change.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Byte reads one.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// Uvarint reads a number.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Count reads how many things follow, of at least a byte each: more than there is room for is
// damage, and counts as none.
func (r *Reader) Count() int {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

// Varint reads a number with a sign.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Bytes reads what AppendString wrote. It is a part of the input: copy it.
func (r *Reader) Bytes() []byte { return r.Next(r.Uvarint()) }

// Next reads n bytes, or none where there are fewer. They are a part of the input: copy them.
func (r *Reader) Next(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

// Rest reads all that is left. It is a part of the input: copy it.
func (r *Reader) Rest() []byte {
	rest := r.b
	r.b = nil
	return rest
}

// Time reads what AppendTime wrote.
func (r *Reader) Time() time.Time {
	s, ns := r.Varint(), r.Uvarint()
	return time.Unix(s, int64(ns%1e9)).UTC()
}

// End is ErrDamaged after any error, or if something is left.
func (r *Reader) End() error {
	if r.bad || len(r.b) > 0 {
		return ErrDamaged
	}
	return nil
}

// Millis is a time as stored in a column; the zero time is 0.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// MillisUp is the first whole millisecond not before t; the zero time is 0.
func MillisUp(t time.Time) int64 {
	ms := Millis(t)
	if ms != 0 && time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

// Instant is the inverse of Millis.
func Instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
