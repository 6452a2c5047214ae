package analyticsingest

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/systems/analytics/event"
)

// scanner walks over JSON and finds where its members and elements lie. The zero value is
// ready to use, again and again.
type scanner struct {
	decoder jsontext.Decoder
	buffer  bytes.Buffer
	name    []byte
}

// lenient keeps bytes as received: names may come twice and text need not be UTF-8.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// open begins with raw, which stays as it is.
func (s *scanner) open(raw []byte) *jsontext.Decoder {
	s.buffer = *bytes.NewBuffer(raw)
	s.decoder.Reset(&s.buffer, lenient...)
	return &s.decoder
}

// each calls visit with the members of an object, names without quotes and values as
// parts of raw, until it returns false. Anything that is no object has none.
func (s *scanner) each(raw []byte, visit func(name, value []byte) (more bool)) {
	d := s.open(raw)
	if d.PeekKind() != '{' {
		return
	}
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for d.PeekKind() == '"' {
		quoted, err := d.ReadValue()
		if err != nil {
			return
		}
		s.name = unquote(s.name[:0], quoted)
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		end := int(d.InputOffset())
		if !visit(s.name, raw[end-len(value):end:end]) {
			return
		}
	}
}

// unquote appends what a JSON text stands for.
func unquote(b []byte, text []byte) []byte {
	if in := text[1 : len(text)-1]; bytes.IndexByte(in, '\\') < 0 {
		return append(b, in...)
	}
	b, _ = jsontext.AppendUnquote(b, text) // the error is about bytes that are no UTF-8
	return b
}

// timeOf reads a time that only helps to correct others: one that cannot be read is none.
func timeOf(value jsontext.Value) time.Time {
	s := string(value)
	if value.Kind() == '"' {
		s = string(unquote(nil, value))
	}
	t, err := event.ParseTime(s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// deeper says whether objects and arrays are nested deeper than limit in a JSON value.
func deeper(raw []byte, limit int) bool {
	if bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) <= limit {
		return false
	}
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}
