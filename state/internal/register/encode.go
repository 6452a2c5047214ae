package register

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"
	"unsafe"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/wire"
)

// Encoded registers: a version, the CRC-32C of the rest, the number of registers, then each: key,
// flags, and the parts that the flags name, a write as stamp and value. A stamp equal to the one
// before it is one byte, since most properties come from one event.
const (
	version = 2
	head    = 5 // version, checksum
)

// Flags in addition to Parts.
const (
	valued   Parts = 1 << 4 // the earliest once has its value
	lastSame Parts = 1 << 5 // the latest once is the earliest
	added    Parts = 1 << 6 // the role adds a part
)

// How a stamp is written.
const (
	same byte = iota // as the one before
	withEvent
	withHash // Order alone, in 8 bytes
)

// Encoder writes registers. Equal registers have equal bytes.
type Encoder struct {
	b    []byte
	at   int // where they begin
	prev Stamp
}

// Begin begins n registers, at least one, after b.
func Begin(b []byte, n int) Encoder {
	return Encoder{at: len(b), b: binary.AppendUvarint(append(b, version, 0, 0, 0, 0), uint64(n))}
}

// End returns the bytes, after all registers were written.
func (e *Encoder) End() []byte {
	binary.LittleEndian.PutUint32(e.b[e.at+1:], checksum(e.b[e.at+head:]))
	return e.b
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Register writes a register. With own, a part follows that its role adds.
func (e *Encoder) Register(r *Register, own bool) {
	flags := r.Has
	if r.First.Value != nil {
		flags |= valued
	}
	if r.Has&Once == Once && r.First.Compare(r.Last) == 0 {
		flags |= lastSame
	}
	if own {
		flags |= added
	}
	e.b = append(wire.AppendString(e.b, r.Key), byte(flags))
	if flags&HasSet != 0 {
		e.Stamp(r.Set.Stamp)
		e.Value(r.Set.Value)
	}
	if flags&HasFirst != 0 {
		e.Stamp(r.First.Stamp)
		if flags&valued != 0 {
			e.Value(r.First.Value)
		}
	}
	if flags&HasLast != 0 && flags&lastSame == 0 {
		e.Stamp(r.Last.Stamp)
		e.Value(r.Last.Value)
	}
	if flags&HasUnset != 0 {
		e.Stamp(r.Unset)
	}
}

// Stamp writes a stamp.
func (e *Encoder) Stamp(s Stamp) {
	switch {
	case s == e.prev:
		e.b = append(e.b, same)
	case s.Event == uuid.UUID{}:
		e.b = binary.LittleEndian.AppendUint64(binary.AppendVarint(append(e.b, withHash), s.Micro), s.Order)
	default:
		e.b = binary.AppendUvarint(binary.AppendVarint(append(e.b, withEvent), s.Micro), s.Order)
		e.b = append(e.b, s.Event[:]...)
	}
	e.prev = s
}

// Value writes a value, which is not empty.
func (e *Encoder) Value(v []byte) { e.b = wire.AppendString(e.b, v) }

// Decoder reads registers. It remembers damage and reads on.
type Decoder struct {
	r    wire.Reader
	key  string // of the register before
	read bool   // there is one
	prev Stamp
	why  string // it is damaged; empty: it is not
}

// Open begins to read what an Encoder wrote, or no registers where b is empty. Those that are read
// point into b, which must not change any more.
func Open(b []byte) (d Decoder, n int) {
	switch {
	case len(b) == 0:
		return d, 0
	case len(b) < head || b[0] != version:
		d.why = "an unknown version"
	case binary.LittleEndian.Uint32(b[1:]) != checksum(b[head:]):
		d.why = "a wrong checksum"
	default:
		d.r = *wire.NewReader(b[head:])
		n = d.r.Count()
		d.Bad(n == 0)
	}
	return d, n
}

// Bad says that what was read is damaged where bad is true.
func (d *Decoder) Bad(bad bool) {
	if bad && d.why == "" {
		d.why = "what was never written, in or before the register " + strconv.Quote(d.key)
	}
}

// End returns an error where anything else was read than an Encoder wrote.
func (d *Decoder) End() error {
	if d.Bad(d.r.End() != nil); d.why != "" {
		return errors.New(d.why)
	}
	return nil
}

// Register reads a register, and says whether a part follows that its role adds.
func (d *Decoder) Register(r *Register) (own bool) {
	key := d.r.Bytes()
	r.Key = unsafe.String(unsafe.SliceData(key), len(key)) // the bytes do not change
	d.Bad(d.read && r.Key <= d.key)
	d.key, d.read = r.Key, true
	flags := Parts(d.r.Byte())
	r.Has = flags & (HasSet | Once | HasUnset)
	d.Bad(flags&^(valued|lastSame) == 0 || flags&^(r.Has|valued|lastSame|added) != 0 ||
		flags&lastSame != 0 && flags&(Once|valued) != Once|valued || flags&valued != 0 && flags&HasFirst == 0)
	if flags&HasSet != 0 {
		r.Set = Write{d.Stamp(), d.Value()}
	}
	if flags&HasFirst != 0 {
		r.First.Stamp = d.Stamp()
		if flags&valued != 0 {
			r.First.Value = d.Value()
		}
	}
	switch {
	case flags&lastSame != 0:
		r.Last = r.First
	case flags&HasLast != 0:
		r.Last = Write{d.Stamp(), d.Value()}
	}
	if flags&HasUnset != 0 {
		r.Unset = d.Stamp()
	}
	o := *r
	o.Forget() // Append never writes what it drops
	d.Bad(!o.Equal(r) || r.Has&HasFirst != 0 && r.First.Value == nil && r.Has&HasUnset == 0)
	return flags&added != 0
}

// Stamp reads a stamp.
func (d *Decoder) Stamp() Stamp {
	switch d.r.Byte() {
	case same:
	case withEvent:
		d.prev = Stamp{Micro: d.r.Varint(), Order: d.r.Uvarint()}
		d.Bad(copy(d.prev.Event[:], d.r.Next(uint64(len(d.prev.Event)))) == 0)
	case withHash:
		d.prev = Stamp{Micro: d.r.Varint()}
		if b := d.r.Next(8); len(b) == 8 {
			d.prev.Order = binary.LittleEndian.Uint64(b)
		}
	default:
		d.Bad(true)
	}
	return d.prev
}

// Value reads a value.
func (d *Decoder) Value() []byte {
	v := d.r.Bytes()
	d.Bad(len(v) == 0)
	return v[:len(v):len(v)]
}
