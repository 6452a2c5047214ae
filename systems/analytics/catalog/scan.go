package catalog

import "bytes"

// scanner walks over the pairs of a JSON object without looking into their values. It accepts
// every JSON object, and may accept other bytes: events were checked before they were stored.
type scanner struct {
	b   []byte
	i   int
	bad bool // it is not an object
}

// open stands before the first pair; false if b does not begin as an object.
func open(b []byte) (scanner, bool) {
	s := scanner{b: b}
	s.space()
	if s.i == len(b) || b[s.i] != '{' {
		return s, false
	}
	s.i++
	return s, true
}

// next returns the name, without its quotes, and the value of the next pair, both as written;
// false after the last pair, or if the object is bad.
func (s *scanner) next() (name, value []byte, ok bool) {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == ',' {
		s.i++
		s.space()
	}
	if s.i < len(s.b) && s.b[s.i] == '}' {
		return nil, nil, false
	}
	start := s.i
	if !s.text() {
		return s.fail()
	}
	name = s.b[start+1 : s.i-1]
	s.space()
	if s.i == len(s.b) || s.b[s.i] != ':' {
		return s.fail()
	}
	s.i++
	s.space()
	start = s.i
	if !s.value() {
		return s.fail()
	}
	return name, s.b[start:s.i], true
}

func (s *scanner) fail() (name, value []byte, ok bool) {
	s.bad = true
	return nil, nil, false
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// text steps over a string.
func (s *scanner) text() bool {
	if s.i == len(s.b) || s.b[s.i] != '"' {
		return false
	}
	s.i++
	for {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			return false
		}
		escapes := 0
		for escapes < n && s.b[s.i+n-1-escapes] == '\\' {
			escapes++
		}
		if s.i += n + 1; escapes%2 == 0 {
			return true
		}
	}
}

// value steps over a value of at least one byte.
func (s *scanner) value() bool {
	if s.i == len(s.b) {
		return false
	}
	switch s.b[s.i] {
	case '"':
		return s.text()
	case '{', '[':
		return s.nested()
	}
	start := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', '}', ' ', '\t', '\n', '\r':
			return s.i > start
		}
		s.i++
	}
	return false
}

// nested steps over an object or an array.
func (s *scanner) nested() bool {
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			if !s.text() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.i++
				return true
			}
		}
		s.i++
	}
	return false
}
