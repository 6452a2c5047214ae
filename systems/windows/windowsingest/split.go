package windowsingest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/internal/jsonspan"
)

// raw is one record of a body, its bytes as they came. White space around it is not its own.
type raw struct {
	bytes []byte
	line  int // from 1, of lines and files; 0: it is no line
}

// errTooMany says that a body has more records than are allowed.
var errTooMany = errors.New("too many records")

const space = " \t\r\n"

// splitLines finds the records of lines, of which those that are empty are passed over.
// Whatever else is in a line is one: a line that is no record spoils no other.
func splitLines(b []byte, most int) (all []raw, err error) {
	for line := 1; len(b) > 0; line++ {
		var this []byte
		this, b, _ = bytes.Cut(b, newline)
		if this = bytes.Trim(this, space); len(this) == 0 {
			continue
		}
		if len(all) == most {
			return nil, errTooMany
		}
		all = append(all, raw{this[:len(this):len(this)], line})
	}
	return all, nil
}

var newline = []byte{'\n'}

// splitArray finds the elements of an array. It looks at no more than brackets, quotes and
// commas: b is JSON if there is no error and every element is JSON, which whoever decodes
// them finds out.
func splitArray(b []byte, most int) (all []raw, err error) {
	s := splitter{b: b}
	if s.peek() != '[' {
		return nil, s.wrong("want an array")
	}
	s.i++
	for more := s.peek() != ']'; more; {
		v := s.value()
		if len(v) == 0 {
			return nil, s.wrong("want a record")
		}
		if len(all) == most {
			return nil, errTooMany
		}
		all = append(all, raw{bytes: v})
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			more = false
		default:
			return nil, s.wrong("want a comma or the end of the array")
		}
	}
	s.i++
	if s.peek() != 0 || s.i < len(b) {
		return nil, s.wrong("there is something behind the array")
	}
	return all, nil
}

// splitter steps through an array.
type splitter struct {
	b []byte
	i int
}

// peek skips white space and returns the byte behind; 0 at the end.
func (s *splitter) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// wrong says what is wrong where the splitter is.
func (s *splitter) wrong(what string) error {
	if s.i >= len(s.b) {
		return errors.New("it ends too early")
	}
	return fmt.Errorf("%s at byte %d", what, s.i+1)
}

// value steps over a value and returns its bytes; none if there is no value, or no end of it.
func (s *splitter) value() []byte {
	c := s.peek() // at the value
	start, whole := s.i, true
	switch c {
	case '"':
		s.i, _ = jsonspan.Text(s.b, s.i)
	case '{', '[':
		s.i, whole = jsonspan.Nested(s.b, s.i)
	default:
		for s.i < len(s.b) && !ends(s.b[s.i]) {
			s.i++
		}
	}
	if !whole {
		return nil
	}
	return s.b[start:s.i:s.i]
}

// ends says whether a byte cannot be in a number or a word.
func ends(c byte) bool { return bytes.IndexByte([]byte(space+`,]}[{":`), c) >= 0 }

// isJSON says whether bytes are one JSON value, whatever texts are in it.
func isJSON(b []byte) bool {
	return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}
