package event

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// valid reports whether b is exactly one JSON value. Names may be duplicate (the last one
// counts, as in JavaScript), and text need not be UTF-8: bytes are kept as received.
func valid(b []byte) bool {
	return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// A cursor walks over JSON that valid has accepted, and checks nothing again: it finds where
// names and values begin and end, and hands out the bytes between. On anything else its answers
// mean nothing, but it ends and does not panic.
type cursor struct {
	b []byte
	i int
}

// at skips white space and reports whether ch comes next.
func (c *cursor) at(ch byte) bool { return c.skip(' ', ch) }

// open steps into the object or array that begins with ch.
func (c *cursor) open(ch byte) bool {
	if !c.at(ch) {
		return false
	}
	c.i++
	return true
}

// member goes to the next member of the open object and returns its name, without quotes and
// escapes. The cursor is at its value then. At the end of the object it steps behind it and
// returns false.
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

// skip steps over white space and separators and reports whether ch comes next.
func (c *cursor) skip(separator, ch byte) bool {
	b, i := c.b, c.i
	for i < len(b) && (b[i] <= ' ' || b[i] == separator) {
		i++
	}
	c.i = i
	return i < len(b) && b[i] == ch
}

// element reports whether the open array has another element, and goes to it. At the end it
// steps behind the array.
func (c *cursor) element() bool {
	if c.skip(',', ']') || c.i >= len(c.b) {
		c.i = min(c.i+1, len(c.b))
		return false
	}
	return true
}

// value steps over the next value and returns its bytes. Null is nil: fields of events do not
// distinguish it from absence.
func (c *cursor) value() []byte {
	v := c.any()
	if len(v) > 0 && v[0] == 'n' {
		return nil
	}
	return v
}

// any steps over the next value and returns its bytes, also of null.
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

// text steps over a text and reports whether it has escapes.
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

// special returns the position of the next quote or backslash from i on, or at least len(b). It
// looks at eight bytes at a time: xor with the wanted byte makes it zero, and subtracting 1
// sets the highest bit of a zero byte, and of no smaller one before it.
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

// plain reports whether a text is ASCII without a backslash.
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

// is reports whether the value begins with ch: '{' for an object, '"' for a text…
func is(v []byte, ch byte) bool { return len(v) > 0 && v[0] == ch }

// number reports whether the value is a number.
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

// characters returns a text unescaped, or a number as written; nil for anything else. The
// result may lie in the decoder's own memory: use it at once.
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
	// The error is about bytes that are not UTF-8. U+FFFD replaces them, as in every decoder
	// that makes text of them.
	d.scratch, _ = jsontext.AppendUnquote(d.scratch[:0], v)
	return d.scratch
}

// text is the text of a value that differs in nearly every event.
func (d *decoder) text(v []byte) string { return string(d.characters(v)) }

// word is the text of a value that many events share.
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

// toUTF8 replaces every byte that is not UTF-8 by U+FFFD.
func toUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

const (
	maxWord  = 256 // bytes
	tabWords = 512 // a table holds at most 128 KiB
)

// words remembers recurring texts (browsers, property names, User-Agents) so that each is
// allocated once. A text is forgotten when another gets its slot.
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
