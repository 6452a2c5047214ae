package record

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// walker steps through the members of an object that is known to be valid JSON, which is why
// it checks nothing again. On anything else its answers mean nothing.
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

// expect steps over a name, written plainly with its quotes and the colon behind, if it is
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
	switch w.peek() {
	case '"':
		return w.text()
	case '{', '[':
		return w.nested()
	}
	start := w.i
	for w.i < len(w.b) {
		if c := w.b[w.i]; c <= ' ' || c == ',' || c == '}' || c == ']' {
			break
		}
		w.i++
	}
	return w.b[start:w.i:w.i]
}

func (w *walker) nested() []byte {
	start := w.i
	for depth := 0; w.i < len(w.b); {
		switch w.b[w.i] {
		case '"':
			w.text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if w.i++; depth == 0 {
			break
		}
	}
	return w.b[start:w.i:w.i]
}

// text steps over a text and returns it with its quotes.
func (w *walker) text() []byte {
	start := w.i
	for i := w.i + 1; ; {
		n := bytes.IndexByte(w.b[i:], '"')
		if n < 0 {
			w.i = len(w.b)
			break
		}
		// A quote behind an odd number of backslashes is one of the text.
		i += n + 1
		slashes := 0
		for w.b[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			w.i = i
			break
		}
	}
	return w.b[start:w.i:w.i]
}

// unquoted is what is between the quotes, and whether that is the text: it has no escapes.
func unquoted(quoted []byte) (in []byte, plain bool) {
	in = quoted[1 : len(quoted)-1]
	return in, bytes.IndexByte(in, '\\') < 0
}

// trim takes white space away.
func trim(v []byte) []byte { return bytes.Trim(v, " \t\r\n") }
