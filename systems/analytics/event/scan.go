package event

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// valid says whether b is one JSON value and nothing else. Names may come twice (the
// last one counts, as in JavaScript), and text need not be UTF-8: bytes are kept as
// received.
func valid(b []byte) bool {
	return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// A cursor walks over JSON that valid has seen, which is why it checks nothing again: it
// finds where names and values begin and end, and hands out the bytes between. On
// anything else its answers mean nothing, but it ends and does not panic.
type cursor struct {
	b []byte
	i int
}

// at skips white space and says whether ch comes next.
func (c *cursor) at(ch byte) bool { return c.skip(' ', ch) }

// open steps into the object or array that begins with ch.
func (c *cursor) open(ch byte) bool {
	if !c.at(ch) {
		return false
	}
	c.i++
	return true
}

// member goes to the next member of the object that was opened and returns its name,
// without quotes and escapes; the cursor is at the value then. At the end of the object
// it steps behind it and says false.
func (c *cursor) member() (name []byte, ok bool) {
	if !c.skip(',', '"') {
		c.i = min(c.i+1, len(c.b))
		return nil, false
	}
	start := c.i
	escaped := c.text()
	if name = c.b[start+1 : max(c.i-1, start+1)]; escaped {
		name, _ = jsontext.AppendUnquote(nil, c.b[start:c.i])
	}
	c.skip(':', 0)
	return name, true
}

// skip steps over white space and separators and says whether ch comes next.
func (c *cursor) skip(separator, ch byte) bool {
	b, i := c.b, c.i
	for i < len(b) && (b[i] <= ' ' || b[i] == separator) {
		i++
	}
	c.i = i
	return i < len(b) && b[i] == ch
}

// element says whether the array that was opened has one more element, and goes there.
// At the end it steps behind the array.
func (c *cursor) element() bool {
	if c.skip(',', ']') || c.i >= len(c.b) {
		c.i = min(c.i+1, len(c.b))
		return false
	}
	return true
}

// value steps over the next value and returns its bytes; null is nil, because no field
// of an event tells it from absence.
func (c *cursor) value() []byte {
	v := c.any()
	if len(v) > 0 && v[0] == 'n' {
		return nil
	}
	return v
}

// any steps over the next value and returns its bytes, null too.
func (c *cursor) any() []byte {
	c.at(0)
	start := c.i
	if start >= len(c.b) {
		return nil
	}
	switch c.b[start] {
	case '"':
		c.text()
	case '{', '[':
		for depth := 0; c.i < len(c.b); {
			switch c.b[c.i] {
			case '"':
				c.text()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if c.i++; depth == 0 {
				break
			}
		}
	default:
		for c.i++; c.i < len(c.b) && c.b[c.i] > ' ' && c.b[c.i] != ',' && c.b[c.i] != '}' && c.b[c.i] != ']'; {
			c.i++
		}
	}
	return c.b[start:c.i:c.i]
}

// text steps over a text and says whether there are escapes in it.
func (c *cursor) text() (escaped bool) {
	for i := c.i + 1; ; {
		i = special(c.b, i)
		switch {
		case i >= len(c.b):
			c.i = len(c.b)
			return escaped
		case c.b[i] == '"':
			c.i = i + 1
			return escaped
		}
		escaped = true
		i += 2
	}
}

// special returns where the next quote or backslash is, from i on, or at least len(b). It
// looks at eight bytes at a time: a byte is zero after xor with what is looked for, and
// taking 1 from a zero byte, and from no smaller one before it, sets its highest bit.
func special(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		quote, slash := v^ones*'"', v^ones*'\\'
		if hit := ((quote - ones) &^ quote & highs) | ((slash - ones) &^ slash & highs); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b) && b[i] != '"' && b[i] != '\\'; i++ {
	}
	return i
}

// Every byte of eight has its lowest or highest bit.
const ones, highs = 0x0101010101010101, 0x8080808080808080

// plain says whether a text is ASCII without a backslash.
func plain(b []byte) bool {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		slash := v ^ ones*'\\'
		if (v|(slash-ones)&^slash)&highs != 0 {
			return false
		}
	}
	for ; i < len(b); i++ {
		if b[i] == '\\' || b[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// is says whether the value begins with ch: '{' for an object, '"' for a text…
func is(v []byte, ch byte) bool { return len(v) > 0 && v[0] == ch }

// number says whether the value is a number.
func number(v []byte) bool { return len(v) > 0 && (v[0] == '-' || '0' <= v[0] && v[0] <= '9') }

// describe says in words what a value is, for a refusal.
func describe(v []byte) string {
	switch {
	case len(v) == 0:
		return "missing"
	case is(v, '{'):
		return "an object"
	case is(v, '['):
		return "an array"
	case is(v, '"'):
		return "a text"
	case number(v):
		return "a number"
	}
	return string(v) // true, false
}

// characters returns what a text stands for, or a number as it is written; nil for all
// else. They may lie in the decoder's own memory, for a moment.
func (d *decoder) characters(v []byte) []byte {
	switch {
	case number(v):
		return v
	case !is(v, '"') || len(v) < 2:
		return nil
	}
	if in := v[1 : len(v)-1]; plain(in) || bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in) {
		return in
	}
	// The error is about bytes that are no UTF-8; U+FFFD stands for them now, as in every
	// decoder that makes them text.
	d.scratch, _ = jsontext.AppendUnquote(d.scratch[:0], v)
	return d.scratch
}

// text is the text of a value of which nearly every event has another.
func (d *decoder) text(v []byte) string { return string(d.characters(v)) }

// word is the text of a value of which many events have the same.
func (d *decoder) word(v []byte) string { return d.words.get(d.characters(v)) }

// id is a value as a distinct id: objects and arrays become their own text.
func (d *decoder) id(v []byte) string {
	switch {
	case is(v, '{'), is(v, '['):
		b, err := jsontext.AppendFormat(d.scratch[:0], v, jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
		if err != nil {
			b = append(d.scratch[:0], v...)
		}
		d.scratch = b
		return toUTF8(string(b))
	case is(v, 't'), is(v, 'f'):
		return string(v)
	}
	return d.text(v)
}

// toUTF8 puts U+FFFD in the place of every byte that is no UTF-8.
func toUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

const (
	maxWord  = 256 // bytes
	tabWords = 512 // so that a table holds at most 128 KiB
)

// words remembers texts that come again and again (browsers, property names, User-Agents)
// so that they are made once. It forgets one when another falls on its place.
type words [tabWords]string

func (w *words) get(b []byte) string {
	if w == nil || len(b) > maxWord || len(b) == 0 {
		return string(b)
	}
	const odd = 0x9e3779b97f4a7c15
	h := uint64(len(b)) * odd
	if len(b) >= 8 {
		h ^= binary.LittleEndian.Uint64(b)
		h = (h ^ h>>29) * odd
		h ^= binary.LittleEndian.Uint64(b[len(b)/2-4:])
		h = (h ^ h>>29) * odd
		h ^= binary.LittleEndian.Uint64(b[len(b)-8:])
	} else {
		for _, ch := range b {
			h = h<<8 ^ h>>56 ^ uint64(ch)
		}
	}
	h = (h ^ h>>29) * odd
	at := &w[h>>32%tabWords]
	if *at != string(b) {
		*at = string(b)
	}
	return *at
}
