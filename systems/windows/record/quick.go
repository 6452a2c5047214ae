package record

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// quick reads an object of the usual form in one pass: names without escapes, texts without \u
// escapes, no objects or lists as values, nothing wrong. It reports whether it did. If not, r
// is half read, and thorough has to read it. What it accepts is valid JSON, and is read as
// thorough reads it.
func (r *Record) quick(raw []byte) bool {
	columns, names := r.Kind.columns(), r.Kind.names()
	q := quick{b: raw}
	r.raw = raw
	if !q.is('{') {
		return false
	}
	var seen uint64 // a bit for each field
	next := 0       // names usually come in the order of the columns
	for {
		f, known, start := next, true, q.i-1
		q.space()
		plain := q.i == start+1 && raw[start] == ','
		if next < len(columns) && q.expect(columns[next].quoted) {
			at := q.i
			q.space()
			plain = plain && q.i == at
		} else {
			plain = false
			name, ok := q.text()
			if !ok || bytes.IndexByte(name, '\\') >= 0 || !q.is(':') {
				return false
			}
			q.space()
			var field Field
			field, known = names[string(name[1:len(name)-1])]
			f = int(field)
		}
		value, ok := q.value()
		if !ok {
			return false
		}
		if known {
			if seen&(1<<f) != 0 {
				return false
			}
			seen |= 1 << f
			if value[0] != 'n' {
				if !q.fits(columns[f].typ, value) {
					return false
				}
				r.values[f] = value
			}
			if plain {
				r.member[f] = span{int32(start), int32(q.i)}
			}
			next = f + 1
		}
		if q.is(',') {
			continue
		}
		if !q.is('}') {
			return false
		}
		break
	}
	q.space()
	if q.i != len(raw) {
		return false
	}
	var ok bool
	r.ID, ok = integer(r.values[GlobalEventID])
	return ok
}

// quick is a position in unchecked bytes.
type quick struct {
	b     []byte
	i     int
	whole bool // the value before it is a number without fraction and exponent
}

// fits reports whether the last value can have the type.
func (q *quick) fits(t Type, v []byte) bool {
	if t == Text {
		return v[0] == '"'
	}
	return t == Integer && q.whole && len(v) <= 18 || misfit(t, v) == ""
}

// space steps over white space.
func (q *quick) space() {
	for q.i < len(q.b) {
		if c := q.b[q.i]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return
		}
		q.i++
	}
}

// is steps over white space and one byte, if it is that byte.
func (q *quick) is(c byte) bool {
	q.space()
	if q.i < len(q.b) && q.b[q.i] == c {
		q.i++
		return true
	}
	return false
}

// expect steps over exactly that text.
func (q *quick) expect(text string) bool {
	end := q.i + len(text)
	if end > len(q.b) || string(q.b[q.i:end]) != text {
		return false
	}
	q.i = end
	return true
}

// value steps over a value that contains no others.
func (q *quick) value() (v []byte, ok bool) {
	if q.i >= len(q.b) {
		return nil, false
	}
	start := q.i
	q.whole = false
	switch c := q.b[q.i]; {
	case c == '"':
		return q.text()
	case c == 'n':
		ok = q.expect("null")
	case c == 't':
		ok = q.expect("true")
	case c == 'f':
		ok = q.expect("false")
	default:
		ok = q.number()
	}
	return q.b[start:q.i:q.i], ok
}

// number steps over a number.
func (q *quick) number() bool {
	if q.at('-') {
		q.i++
	}
	if q.at('0') {
		q.i++
	} else if !q.digits() {
		return false
	}
	q.whole = true
	if q.at('.') {
		q.whole = false
		q.i++
		if !q.digits() {
			return false
		}
	}
	if q.at('e') || q.at('E') {
		q.whole = false
		q.i++
		if q.at('+') || q.at('-') {
			q.i++
		}
		return q.digits()
	}
	return true
}

func (q *quick) at(c byte) bool { return q.i < len(q.b) && q.b[q.i] == c }

// digits steps over digits, and reports whether there was any.
func (q *quick) digits() bool {
	start := q.i
	for q.i < len(q.b) && q.b[q.i]-'0' <= 9 {
		q.i++
	}
	return q.i > start
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text steps over a text without \u escapes, and returns it with its quotes.
func (q *quick) text() (v []byte, ok bool) {
	if !q.at('"') {
		return nil, false
	}
	b, start, i, ascii := q.b, q.i, q.i+1, true
	for {
		// Eight bytes at a time: the lowest bit that is set in stop belongs to the first byte
		// that is a quote, a backslash or a control character, or is not ASCII.
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^('"'*ones), w^('\\'*ones)
			stop := ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w | w) & highs
			if stop != 0 {
				i += bits.TrailingZeros64(stop) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return nil, false
		}
		switch c := b[i]; {
		case c == '"':
			q.i = i + 1
			v = b[start:q.i:q.i]
			return v, ascii || utf8.Valid(v)
		case c < ' ':
			return nil, false
		case c == '\\':
			if i++; i == len(b) || strings.IndexByte(`"\/bfnrt`, b[i]) < 0 {
				return nil, false // or a \u escape
			}
		case c >= utf8.RuneSelf:
			ascii = false
		}
		i++
	}
}
