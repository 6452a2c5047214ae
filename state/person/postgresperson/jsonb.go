package postgresperson

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// What jsonb can hold, with room to spare: its numbers have up to 131,072 digits before
// the point and 16,383 after it, and its parser goes as deep as the server's stack.
const (
	mostDigits = 1000
	deepest    = 200
)

// jsonb turns a JSON object into one that jsonb can hold, for readers by SQL; the truth is
// in the registers. NUL and bytes that are not text become U+FFFD; numbers beyond all
// bounds and values nested too deeply become text. An object that needs no change is
// returned as it is.
func jsonb(object []byte) []byte {
	if holdable(object) {
		return object
	}
	var out bytes.Buffer
	e := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true))
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if k := d.PeekKind(); (k == '{' || k == '[') && d.StackDepth() >= deepest {
			v, err := d.ReadValue()
			if err != nil || e.WriteToken(jsontext.String(text(string(v)))) != nil {
				return []byte("{}")
			}
			continue
		}
		t, err := d.ReadToken()
		if err != nil {
			break // the end: the object was checked when it was made
		}
		switch t.Kind() {
		case '"':
			t = jsontext.String(text(t.String()))
		case '0':
			if s := t.String(); !bounded(s) {
				t = jsontext.String(s)
			} else if e.WriteValue(jsontext.Value(s)) == nil {
				continue
			}
		}
		if e.WriteToken(t) != nil {
			return []byte("{}")
		}
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// text is s without what a PostgreSQL text cannot hold.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// bounded says whether a JSON number is one that numeric surely holds.
func bounded(number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.Replace(number, "E", "e", 1), "e")
	if len(mantissa) > mostDigits {
		return false
	}
	if exponent == "" {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && -mostDigits <= n && n <= mostDigits
}

// holdable says whether jsonb surely holds a JSON object unchanged: no escape by number, no
// exponent, no long number, nothing deep.
func holdable(b []byte) bool {
	inside, depth, digits := false, 0, 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inside && c == '\\':
			if i++; i < len(b) && b[i] == 'u' {
				return false
			}
		case c == '"':
			inside, digits = !inside, 0
		case inside:
		case '0' <= c && c <= '9':
			if digits++; digits > mostDigits {
				return false
			}
		case c == '.':
		case (c == 'e' || c == 'E') && digits > 0:
			return false
		case c == '{' || c == '[':
			if depth++; depth >= deepest {
				return false
			}
			digits = 0
		case c == '}' || c == ']':
			depth--
			digits = 0
		default:
			digits = 0
		}
	}
	return utf8.Valid(b)
}
