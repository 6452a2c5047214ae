package record

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

// MaxSize is how many bytes a record may have.
const MaxSize = 1 << 20

// maxProblems of one record are named.
const maxProblems = 5

// Decode reads a record of a kind: one JSON object with its names, in any order. Null counts as
// absent, other names are ignored, and globalEventId is required. The error, of kind
// validation, says what is wrong without quoting a value. Duplicate names of the record and
// text that is not UTF-8 are refused: readers would disagree about them. r keeps raw, and
// Decode does not change it.
func Decode(k Kind, raw []byte, r *Record) error {
	r.Reset(k)
	if k.columns() == nil {
		return tidemill.Fail(tidemill.Internal, "decode a record: %s is no kind of records", k)
	}
	if len(raw) > MaxSize {
		return tidemill.Fail(tidemill.Validation, "the %s is refused: it has %d bytes, more than %d", k, len(raw), MaxSize)
	}
	if r.quick(raw) {
		return nil
	}
	return r.thorough(k, raw)
}

// thorough reads any object, or says what is wrong.
func (r *Record) thorough(k Kind, raw []byte) error {
	r.Reset(k)
	if !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true)) {
		return tidemill.Fail(tidemill.Validation, "the %s is refused: it is no JSON: %s", k, syntax(raw))
	}
	w := walker{b: raw}
	if c := w.peek(); c != '{' {
		return tidemill.Fail(tidemill.Validation, "the %s is refused: it is %s, want one object", k, describe(c))
	}
	if wrong := r.members(&w); len(wrong) > 0 {
		return tidemill.Fail(tidemill.Validation, "the %s is refused: %s", k, strings.Join(wrong, "; "))
	}
	return nil
}

// members reads the object at w. It returns what is wrong.
func (r *Record) members(w *walker) (wrong []string) {
	columns, names := r.Kind.columns(), r.Kind.names()
	say := func(what string) {
		if len(wrong) < maxProblems {
			wrong = append(wrong, what)
		}
	}
	var seen uint64 // a bit for each field
	next := 0       // names usually come in the order of the columns
	for more := w.open(); more; more = w.more() {
		f := next
		if next >= len(columns) || !w.expect(columns[next].quoted) {
			field, ok := names[string(w.name())]
			if !ok {
				w.value()
				continue
			}
			f = int(field)
		}
		next = f + 1
		value := w.value()
		if seen&(1<<f) != 0 {
			say(columns[f].name + " comes twice")
			continue
		}
		seen |= 1 << f
		if value[0] == 'n' {
			continue
		}
		if what := misfit(columns[f].typ, value); what != "" {
			say(columns[f].name + " " + what)
			continue
		}
		r.values[f] = value
	}
	id, ok := integer(r.values[GlobalEventID])
	if !ok && len(wrong) == 0 {
		say("globalEventId is missing")
	}
	r.ID = id
	return wrong
}

// misfit says why a JSON value, which is not null, cannot have the type; empty: it can.
func misfit(t Type, v []byte) string {
	c := v[0]
	number := c == '-' || '0' <= c && c <= '9'
	switch {
	case t == Text && c == '"', t == Number && number:
		return ""
	case t == Integer && number:
		if _, ok := integer(v); ok {
			return ""
		}
		return "is a number that is no integer of 64 bits"
	}
	return "is " + describe(c) + ", want " + t.String() + " or null"
}

// integer reads a JSON integer, written without fraction and exponent.
func integer(v []byte) (n int64, ok bool) {
	digits := v
	if len(v) > 0 && v[0] == '-' {
		digits = v[1:]
	}
	if len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	if len(digits) == 19 { // it may be too large
		n, err := strconv.ParseInt(string(v), 10, 64)
		return n, err == nil
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(v) {
		n = -n
	}
	return n, true
}

// describe says what a JSON value is by its first byte.
func describe(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a text"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// syntax says why bytes are not one JSON value, without quoting them.
func syntax(raw []byte) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	err := d.SkipValue()
	if err == nil {
		return "there is something behind the object"
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return "it ends too early"
		}
		// The library may quote one character, which is harmless.
		return e.Err.Error() + " near byte " + strconv.FormatInt(e.ByteOffset+1, 10)
	}
	return "it is empty"
}
