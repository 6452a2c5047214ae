package rules

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/state/internal/register"
)

// ErrDamaged says that stored registers cannot be read.
var ErrDamaged = errors.New("the stored registers of properties are damaged")

// AppendBinary appends the stored form, or nothing where rs is empty. Equal registers have
// equal bytes.
func (rs Registers) AppendBinary(b []byte) []byte {
	if len(rs) == 0 {
		return b
	}
	e := register.Begin(b, len(rs))
	for i := range rs {
		e.Register(&rs[i], false)
	}
	return e.End()
}

// Decode reads what AppendBinary wrote; anything else is ErrDamaged. The result points
// into b, which must not change any more.
func Decode(b []byte) (Registers, error) {
	d, n := register.Open(b)
	rs := make(Registers, n)
	for i := range rs {
		d.Bad(d.Register(&rs[i]))
	}
	if err := d.End(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return rs, nil
}

// AppendJSON appends the values as one JSON object, for people who read the store by SQL. A
// value that is not JSON is written as text, and bytes of a key that are not UTF-8 as
// U+FFFD, so that the whole stays readable.
func (rs Registers) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	more := false
	for i := range rs {
		v, ok := rs[i].Value()
		if !ok {
			continue
		}
		if more {
			b = append(b, ',')
		}
		more = true
		b = append(appendText(b, rs[i].Key), ':')
		if jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			b = append(b, v...)
		} else {
			b = appendText(b, string(v))
		}
	}
	return append(b, '}')
}

func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	b, _ = jsontext.AppendQuote(b, s) // fails only for bytes that are not UTF-8
	return b
}
