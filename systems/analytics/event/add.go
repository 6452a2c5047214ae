package event

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// A member of a JSON object: its name, which is prefix and name unescaped, and the bytes of its
// value.
type member struct {
	prefix string
	name   []byte
	value  []byte
	there  bool // the object has a member of that name
}

// named makes a member with a fixed name.
func named(name string, value []byte) member { return member{prefix: name, value: value} }

func (m *member) is(name []byte) bool {
	n := len(m.prefix)
	return len(name) == n+len(m.name) && string(name[:n]) == m.prefix && bytes.Equal(name[n:], m.name)
}

// extend writes members behind those of an object (nil: none), whose own bytes stay unchanged.
// It leaves out a member whose name the object has: the sender's value counts. Of two members
// with the same name the first counts.
func extend(object []byte, ms []member) []byte {
	has, size := false, len(object)+2
	for i := range ms {
		ms[i].there = false
		size += len(ms[i].prefix) + len(ms[i].name) + len(ms[i].value) + len(`"":,`)
	}
	for c := (cursor{b: object}); len(ms) > 0; c.any() {
		name, ok := c.next(has)
		if !ok {
			break
		}
		has = true
		for i := range ms {
			ms[i].there = ms[i].there || ms[i].is(name)
		}
	}
	var b []byte
	for i := range ms {
		m := &ms[i]
		if m.there {
			continue
		}
		for j := i + 1; j < len(ms); j++ {
			ms[j].there = ms[j].there || ms[j].prefix == m.prefix && bytes.Equal(ms[j].name, m.name)
		}
		if b == nil {
			b = append(make([]byte, 0, size), '{')
			if has {
				inner := bytes.TrimSpace(object)
				b = append(b, inner[1:len(inner)-1]...)
			}
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = m.append(b)
	}
	if b == nil {
		return object
	}
	return append(b, '}')
}

// append writes the member.
func (m *member) append(b []byte) []byte {
	if plain(m.name) && bytes.IndexByte(m.name, '"') < 0 && !control(m.name) {
		b = append(append(append(append(b, '"'), m.prefix...), m.name...), '"', ':')
		return append(b, m.value...)
	}
	b, _ = jsontext.AppendQuote(b, m.prefix+string(m.name)) // the error is about bytes that are not UTF-8
	return append(append(b, ':'), m.value...)
}

func control(b []byte) bool {
	for _, c := range b {
		if c < ' ' {
			return true
		}
	}
	return false
}

// next opens the object at the cursor, unless it is open, and goes to its next member.
func (c *cursor) next(open bool) (name []byte, ok bool) {
	if !open && !c.open('{') {
		return nil, false
	}
	return c.member()
}

// members lists those of an object that are not null; anything else has none.
func members(into []member, object []byte) []member {
	c := cursor{b: object}
	for name, ok := c.next(false); ok; name, ok = c.member() {
		if v := c.value(); v != nil {
			into = append(into, member{name: name, value: v})
		}
	}
	return into
}

// again empties a list for reuse by the next event, unless it has grown too large.
func again(ms []member) []member {
	if cap(ms) > 64 {
		return nil
	}
	clear(ms)
	return ms[:0]
}
