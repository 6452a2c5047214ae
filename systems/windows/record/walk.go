package record

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/internal/jsonspan"
)

// walker steps through the members of an object that is known to be valid JSON, and checks
// nothing again. On anything else its answers mean nothing.
type walker struct {
	b []byte
	i int
}

// peek skips white space and returns the byte behind; 0 at the end.
func (w *walker) peek() byte {
	for w.i < len(w.b) {
		if c := w.b[w.i]; c > ' ' {
			return c
		}
		w.i++
	}
	return 0
}

// open steps into the object and says whether it has a member. The walker is at its name then.
func (w *walker) open() bool {
	w.peek()
	w.i++ // the brace
	return w.peek() == '"'
}

// more goes to the name of the next member and says whether there is one.
func (w *walker) more() bool {
	if w.peek() != ',' {
		return false
	}
	w.i++
	return w.peek() == '"'
}

// expect steps over a name, written plainly with its quotes and the colon behind it, if it is
// that one.
func (w *walker) expect(quoted string) bool {
	end := w.i + len(quoted)
	if end > len(w.b) || string(w.b[w.i:end]) != quoted {
		return false
	}
	w.i = end
	return true
}

// name steps over a name and its colon, and returns it without quotes and escapes.
func (w *walker) name() []byte {
	quoted := w.text()
	w.peek()
	w.i++ // the colon
	if name, plain := unquoted(quoted); plain {
		return name
	}
	name, _ := jsontext.AppendUnquote(nil, quoted)
	return name
}

// value steps over a value and returns its bytes.
func (w *walker) value() []byte {
	first := w.peek()
	start := w.i
	switch first {
	case '"':
		return w.text()
	case '{', '[':
		w.i, _ = jsonspan.Nested(w.b, w.i)
	default:
		for w.i < len(w.b) {
			if c := w.b[w.i]; c <= ' ' || c == ',' || c == '}' || c == ']' {
				break
			}
			w.i++
		}
	}
	return w.b[start:w.i:w.i]
}

// text steps over a text and returns it with its quotes.
func (w *walker) text() []byte {
	start := w.i
	w.i, _ = jsonspan.Text(w.b, start)
	return w.b[start:w.i:w.i]
}

// unquoted is the part between the quotes, and whether that is the text: it has no escapes.
func unquoted(quoted []byte) (in []byte, plain bool) {
	in = quoted[1 : len(quoted)-1]
	return in, bytes.IndexByte(in, '\\') < 0
}

// trim removes white space.
func trim(v []byte) []byte { return bytes.Trim(v, " \t\r\n") }
