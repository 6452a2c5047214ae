package rules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrDamaged says that stored registers cannot be read.
var ErrDamaged = errors.New("the stored registers of properties are damaged")

// Encoded registers: a version, the CRC-32C of the rest, the number of registers, then
// each: key, flags, and the parts that the flags name, a write as stamp and value. A stamp
// equal to the one before it is one byte, since most properties of a person come from one
// event.
const (
	encodingVersion = 2
	encodingHead    = 5 // version, checksum
)

// flags in addition to holds.
const (
	valued   holds = 1 << (4 + iota) // the earliest $set_once has its value
	lastSame                         // the latest $set_once is the earliest
)

// AppendBinary appends the stored form, or nothing where rs is empty. Equal registers have
// equal bytes.
func (rs Registers) AppendBinary(b []byte) []byte {
	if len(rs) == 0 {
		return b
	}
	at := len(b)
	e := encoder{b: append(append(b, encodingVersion), make([]byte, encodingHead-1)...)}
	e.b = binary.AppendUvarint(e.b, uint64(len(rs)))
	for i := range rs {
		e.register(&rs[i])
	}
	binary.LittleEndian.PutUint32(e.b[at+1:], checksum(e.b[at+encodingHead:]))
	return e.b
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

type encoder struct {
	b    []byte
	prev stamp
}

func (e *encoder) register(r *Register) {
	e.b = binary.AppendUvarint(e.b, uint64(len(r.Key)))
	e.b = append(e.b, r.Key...)
	flags := r.has
	if r.first.value != nil {
		flags |= valued
	}
	if r.has&hasFirst != 0 && r.has&hasLast != 0 && r.first.compare(r.last) == 0 {
		flags |= lastSame
	}
	e.b = append(e.b, byte(flags))
	if flags&hasSet != 0 {
		e.stamp(r.set.stamp)
		e.value(r.set.value)
	}
	if flags&hasFirst != 0 {
		e.stamp(r.first.stamp)
		if flags&valued != 0 {
			e.value(r.first.value)
		}
	}
	if flags&hasLast != 0 && flags&lastSame == 0 {
		e.stamp(r.last.stamp)
		e.value(r.last.value)
	}
	if flags&hasUnset != 0 {
		e.stamp(r.unset)
	}
}

func (e *encoder) stamp(s stamp) {
	if s == e.prev {
		e.b = append(e.b, 0)
		return
	}
	e.b = binary.AppendVarint(append(e.b, 1), s.micro)
	e.b = binary.AppendUvarint(e.b, s.order)
	e.b = append(e.b, s.event[:]...)
	e.prev = s
}

func (e *encoder) value(v []byte) {
	e.b = binary.AppendUvarint(e.b, uint64(len(v)))
	e.b = append(e.b, v...)
}

// Decode reads what AppendBinary wrote; anything else is ErrDamaged. The result points
// into b, which must not change any more.
func Decode(b []byte) (Registers, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < encodingHead || b[0] != encodingVersion {
		return nil, fmt.Errorf("%w: neither version %d nor empty", ErrDamaged, encodingVersion)
	}
	if binary.LittleEndian.Uint32(b[1:]) != checksum(b[encodingHead:]) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	d := decoder{b: b[encodingHead:]}
	n := d.uvarint()
	if n == 0 || n > uint64(len(d.b)/3) { // a register is at least key length, flags, stamp
		return nil, fmt.Errorf("%w: wrong number of registers", ErrDamaged)
	}
	rs := make(Registers, n)
	for i := range rs {
		d.register(&rs[i])
		if i > 0 && rs[i-1].Key >= rs[i].Key {
			d.bad = true
		}
		if d.bad {
			return nil, fmt.Errorf("%w: register %d", ErrDamaged, i)
		}
	}
	if len(d.b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", ErrDamaged, len(d.b))
	}
	return rs, nil
}

// decoder remembers damage and reads on.
type decoder struct {
	b    []byte
	prev stamp
	bad  bool
}

func (d *decoder) register(r *Register) {
	key := d.bytes()
	r.Key = unsafe.String(unsafe.SliceData(key), len(key)) // b does not change
	flags := holds(d.byte())
	const parts = hasSet | hasFirst | hasLast | hasUnset
	r.has = flags & parts
	if flags&^(parts|valued|lastSame) != 0 || r.has == 0 ||
		flags&lastSame != 0 && flags&(hasFirst|hasLast|valued) != hasFirst|hasLast|valued ||
		flags&valued != 0 && flags&hasFirst == 0 {
		d.bad = true
	}
	if flags&hasSet != 0 {
		r.set = write{d.stamp(), d.value()}
	}
	if flags&hasFirst != 0 {
		r.first.stamp = d.stamp()
		if flags&valued != 0 {
			r.first.value = d.value()
		}
	}
	switch {
	case flags&lastSame != 0:
		r.last = r.first
	case flags&hasLast != 0:
		r.last = write{d.stamp(), d.value()}
	}
	if flags&hasUnset != 0 {
		r.unset = d.stamp()
	}
	if o := *r; !d.bad {
		if o.forget(); !o.equal(r) || r.has&hasFirst != 0 && r.first.value == nil && r.has&hasUnset == 0 {
			d.bad = true // AppendBinary never writes this
		}
	}
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
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

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

// value reads a value, which is never empty.
func (d *decoder) value() []byte {
	v := d.bytes()
	if len(v) == 0 {
		d.bad = true
	}
	return v
}

func (d *decoder) stamp() stamp {
	switch d.byte() {
	case 0:
	case 1:
		v, n := binary.Varint(d.b)
		order, m := binary.Uvarint(d.b[max(n, 0):])
		if n <= 0 || m <= 0 || len(d.b)-n-m < len(d.prev.event) {
			d.bad, d.b = true, nil
			return stamp{}
		}
		d.prev.micro, d.prev.order = v, order
		d.b = d.b[n+m+copy(d.prev.event[:], d.b[n+m:]):]
	default:
		d.bad = true
	}
	return d.prev
}

// AppendJSON appends the values as one JSON object, for people who read the store by SQL. A
// value that is not JSON is written as text, and bytes of a key that are not UTF-8 as
// U+FFFD, so that the whole stays readable.
func (rs Registers) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	more := false
	for i := range rs {
		v, ok := rs[i].Value()
		if !ok {
			continue
		}
		if more {
			b = append(b, ',')
		}
		more = true
		b = append(appendText(b, rs[i].Key), ':')
		if jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			b = append(b, v...)
		} else {
			b = appendText(b, string(v))
		}
	}
	return append(b, '}')
}

func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	b, _ = jsontext.AppendQuote(b, s) // fails only for bytes that are not UTF-8
	return b
}
