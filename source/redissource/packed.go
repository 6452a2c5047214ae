package redissource

import (
	"unsafe"

	"github.com/tidemill/tidemill"
)

// parsePacked reads what readLua packs: MessagePack arrays of entries {id, {name, value,
// …}}, one after the other. Names, values and ids point into packed, which must not change
// from then on. It does not allocate once b has its size.
func (b *batch) parsePacked(packed string) error {
	p := unpacker{rest: unsafe.Slice(unsafe.StringData(packed), len(packed))}
	for len(p.rest) > 0 {
		for n := p.array(); n > 0 && !p.bad; n-- {
			if p.array() != 2 {
				return errReply
			}
			id := p.text()
			e := entry{id: unsafe.String(unsafe.SliceData(id), len(id)), count: 1}
			var ok bool
			if e.place, ok = parsePlace(e.id); !ok {
				return errReply
			}
			texts := p.array()
			if texts%2 != 0 {
				return errReply
			}
			from := len(b.fields)
			for ; texts > 0 && !p.bad; texts -= 2 {
				name := p.text()
				b.fields = append(b.fields, tidemill.Field{Name: name, Value: p.text()})
			}
			e.fields = b.fields[from:len(b.fields):len(b.fields)]
			b.entries = append(b.entries, e)
		}
		if p.bad {
			return errReply
		}
	}
	return nil
}

// unpacker reads MessagePack arrays and strings. Where it cannot read, the value is empty,
// and it is bad.
type unpacker struct {
	rest []byte
	bad  bool
}

// number reads a length of so many bytes.
func (p *unpacker) number(bytes int) (n int) {
	if len(p.rest) < bytes {
		p.bad, p.rest = true, nil
		return 0
	}
	for _, c := range p.rest[:bytes] {
		n = n<<8 | int(c)
	}
	p.rest = p.rest[bytes:]
	return n
}

func (p *unpacker) array() int {
	switch c := p.number(1); {
	case c>>4 == 0x9:
		return c & 0xf
	case c == 0xdc:
		return p.number(2)
	case c == 0xdd:
		return p.number(4)
	}
	p.bad, p.rest = true, nil
	return 0
}

func (p *unpacker) text() []byte {
	n := 0
	switch c := p.number(1); {
	case c>>5 == 0x5:
		n = c & 0x1f
	case c == 0xd9 || c == 0xc4:
		n = p.number(1)
	case c == 0xda || c == 0xc5:
		n = p.number(2)
	case c == 0xdb || c == 0xc6:
		n = p.number(4)
	default:
		p.bad = true
	}
	if p.bad || n > len(p.rest) {
		p.bad, p.rest = true, nil
		return nil
	}
	text := p.rest[:n:n]
	p.rest = p.rest[n:]
	return text
}
