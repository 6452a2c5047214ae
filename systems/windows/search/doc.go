package search

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

// Doc makes a document of a record: its id is made of the key, its day of the field Schema.Day,
// which is cut out; all other bytes stay as received. Errors are of kind Validation: payload is
// not a JSON object, or has no day. Body may share memory with payload.
func (s *Schema) Doc(key, payload []byte) (Doc, error) {
	if len(key) == 0 {
		return Doc{}, tidemill.Fail(tidemill.Validation, "make a document of %s: the record has no key", s.Name)
	}
	day, body, err := cut(payload, s.Day)
	if err != nil {
		return Doc{}, tidemill.Fail(tidemill.Validation, "make a document of %s: %w", s.Name, err)
	}
	if !ValidDay(day) {
		return Doc{}, tidemill.Fail(tidemill.Validation, "make a document of %s: %s is %.20q; the day of its index has to be YYYY-MM-DD", s.Name, s.Day, day)
	}
	return Doc{Schema: s.Name, Day: day, ID: ID(key), Body: body}, nil
}

// tag is how many bytes of an id its hash needs: a tilde and 32 hexadecimal digits.
const tag = 1 + 32

// ID makes a document's id of a record's key: the key itself if it fits, else as much of it as
// fits and a hash of all of it. The same key always has the same id.
func ID(key []byte) string {
	if len(key) <= MaxID && len(key) > 0 && validText(string(key)) {
		return string(key)
	}
	sum := sha256.Sum256(key)
	prefix := strings.Map(func(r rune) rune {
		if r == 0 {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(string(key[:min(len(key), MaxID)]), string(utf8.RuneError)))
	for end := min(len(prefix), MaxID-tag); ; end-- {
		if end == len(prefix) || utf8.RuneStart(prefix[end]) {
			return prefix[:end] + "~" + hex.EncodeToString(sum[:16])
		}
	}
}

// validText reports whether s is UTF-8 without NUL, which all backends store unchanged.
func validText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// cut removes the member of that name from a JSON object. Its value is empty if it is missing,
// null or not a text.
func cut(object []byte, name string) (value string, rest []byte, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object)) // a Buffer is read in place
	if dec.PeekKind() != '{' {
		return "", nil, errors.New("the record is no JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return "", nil, notJSON(err)
	}
	from, to := -1, -1          // of what is cut out
	before := dec.InputOffset() // where the member before it ends
	first, after := true, false
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return "", nil, notJSON(err)
		}
		end := dec.InputOffset()
		if after { // the member behind it: the comma goes too
			after, to = false, start(object, to)
		}
		if token.String() != name {
			if err := dec.SkipValue(); err != nil {
				return "", nil, notJSON(err)
			}
			before, first = dec.InputOffset(), false
			continue
		}
		v, err := dec.ReadValue()
		if err != nil {
			return "", nil, notJSON(err)
		}
		if v.Kind() == '"' {
			plain, err := jsontext.AppendUnquote(nil, v)
			if err != nil {
				return "", nil, notJSON(err)
			}
			value = string(plain)
		}
		from, to, after = int(before), int(dec.InputOffset()), true
		if !first { // the comma behind the member before it stays for what follows
			from = bytes.IndexByte(object[before:end], ',') + int(before) + 1
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return "", nil, notJSON(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return "", nil, errors.New("the record has something behind its JSON object")
	}
	if from < 0 {
		return "", object, nil
	}
	if after { // it was the last: the comma before it goes
		from = int(before)
	}
	return value, append(append(make([]byte, 0, len(object)-(to-from)), object[:from]...), object[to:]...), nil
}

// start is where the member behind a comma begins, white space included.
func start(object []byte, at int) int { return at + bytes.IndexByte(object[at:], ',') + 1 }

// notJSON leaves out the decoder's position, which quotes parts of the record.
func notJSON(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return errors.New("the record has a name twice")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the record is cut short")
	}
	return errors.New("the record is not JSON in UTF-8")
}
