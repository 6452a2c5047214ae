package rules

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
)

// ErrDamaged says that the stored attributes of a profile cannot be read. It comes with
// kind internal.
var ErrDamaged = errors.New("the stored attributes are damaged; restore the database from a backup, or delete the profile")

// Encoded registers: a version, the CRC-32C of the rest, the number of registers, then of
// each: key, flags, and the parts that the flags name, a write as stamp and value. A stamp
// equal to the one before it is one byte, since most attributes of a profile come from one
// event.
const (
	encodingVersion = 1
	encodingHead    = 5 // version, checksum
)

// two is a flag in addition to holds: the latest Once is not the earliest.
const two holds = 1 << 7

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
	flags := r.has
	if r.first.compare(r.last) != 0 {
		flags |= two
	}
	e.b = append(wire.AppendString(e.b, r.Key), byte(flags))
	if flags&hasSet != 0 {
		e.stamp(r.set.stamp)
		e.b = wire.AppendString(e.b, r.set.value)
	}
	if flags&hasOnce != 0 {
		e.stamp(r.first.stamp)
		e.b = wire.AppendString(e.b, r.first.value)
	}
	if flags&two != 0 {
		e.stamp(r.last.stamp)
		e.b = wire.AppendString(e.b, r.last.value)
	}
	if flags&hasUnset != 0 {
		e.stamp(r.unset)
	}
	if flags&hasSum != 0 {
		e.stamp(r.from)
		e.stamp(r.to)
		e.b = wire.AppendString(e.b, r.sum)
	}
}

func (e *encoder) stamp(s stamp) {
	if s == e.prev {
		e.b = append(e.b, 0)
		return
	}
	e.b = binary.AppendVarint(append(e.b, 1), s.micro)
	e.b = binary.LittleEndian.AppendUint64(e.b, s.event)
	e.prev = s
}

// Decode reads what AppendBinary wrote of a profile; anything else is ErrDamaged. The result
// points into b, which must not change any more.
func Decode(id uuid.UUID, b []byte) (Registers, error) {
	if len(b) == 0 {
		return nil, nil
	}
	damaged := func(why string) (Registers, error) {
		return nil, tidemill.Fail(tidemill.Internal, "read profile %v: %w (%s)", id, ErrDamaged, why)
	}
	if len(b) < encodingHead || b[0] != encodingVersion {
		return damaged("of an unknown version")
	}
	if binary.LittleEndian.Uint32(b[1:]) != checksum(b[encodingHead:]) {
		return damaged("wrong checksum")
	}
	d := decoder{Reader: wire.NewReader(b[encodingHead:])}
	rs := make(Registers, d.Count())
	for i := range rs {
		d.register(&rs[i])
		if i > 0 && rs[i-1].Key >= rs[i].Key {
			return damaged("not in order")
		}
	}
	if d.End() != nil || len(rs) == 0 {
		return damaged("too short or too long")
	}
	return rs, nil
}

type decoder struct {
	*wire.Reader
	prev stamp
}

func (d *decoder) register(r *Register) {
	r.Key = string(d.Bytes())
	flags := holds(d.Byte())
	r.has = flags & (hasSet | hasUnset | hasOnce | hasSum)
	if flags&hasSet != 0 {
		r.set = write{d.stamp(), d.Bytes()}
	}
	if flags&hasOnce != 0 {
		r.first = write{d.stamp(), d.Bytes()}
		r.last = r.first
	}
	if flags&two != 0 {
		r.last = write{d.stamp(), d.Bytes()}
	}
	if flags&hasUnset != 0 {
		r.unset = d.stamp()
	}
	if flags&hasSum != 0 {
		r.from, r.to, r.sum = d.stamp(), d.stamp(), d.Bytes()
	}
}

func (d *decoder) stamp() stamp {
	if d.Byte() == 0 {
		return d.prev
	}
	d.prev.micro = d.Varint()
	d.prev.event = 0
	for i := range 8 {
		d.prev.event |= uint64(d.Byte()) << (8 * i)
	}
	return d.prev
}

// Object is the values as one JSON object, for programs that read the store by SQL.
func (rs Registers) Object() []byte {
	b := []byte{'{'}
	sep := ""
	for i := range rs {
		if v, ok := rs[i].Value(); ok {
			b = member(append(b, sep...), rs[i].Key, v)
			sep = ","
		}
	}
	return readable(append(b, '}'))
}

func member(b []byte, key string, value []byte) []byte {
	b, _ = jsontext.AppendQuote(b, key) // fails only for bytes that are not UTF-8
	return append(append(b, ':'), value...)
}
