// Package record holds the two records of the windows system, events and their mentions. Use it
// to read, name or send one. Decode checks the incoming bytes and finds their values. Values
// stay as they were written, so no number and no text changes on the way. AppendOut writes the
// outgoing form, with dates and places for a search index.
//
//	var r record.Record
//	if err := record.Decode(record.Event, raw, &r); err != nil { … }
//	key := r.AppendKey(nil)  // 1234567890
//	out := r.AppendOut(nil)  // {"globalEventId":1234567890,"elasticIndexDate":"2025-03-23",…}
//
// The names of an event and a mention, and their order, are those of the GDELT 2.0 files.
package record

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

// Kind of a record.
type Kind uint8

// The kinds.
const (
	Event   Kind = iota + 1 // something that happened, with 61 values
	Mention                 // one document that mentions it, with 15 values
)

// String returns the kind as it is written in messages, metrics and settings.
func (k Kind) String() string {
	switch k {
	case Event:
		return "event"
	case Mention:
		return "mention"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ParseKind is the inverse of Kind.String.
func ParseKind(s string) (Kind, error) {
	switch s {
	case "event":
		return Event, nil
	case "mention":
		return Mention, nil
	}
	return 0, fmt.Errorf("kind of record %q: want event or mention", s)
}

// Record is one event or mention that was read. Decode and Reset fill it, and it may be reused.
// It is not safe for concurrent use.
type Record struct {
	Kind Kind
	ID   int64 // globalEventId

	values [EventFields][]byte // JSON as it was written; nil: null
	extra  []Extra

	raw    []byte            // what quick has read
	member [EventFields]span // where ,"name":value is in raw, written just as it goes out
}

// span is a part of raw; to is 0 if there is none.
type span struct{ from, to int32 }

// Extra is a value that processing has added, in addition to the record's own.
type Extra struct {
	Name  string
	Value []byte // JSON
}

// Reset makes r an empty record of a kind. Its globalEventId has to be set.
func (r *Record) Reset(k Kind) {
	*r = Record{Kind: k, extra: r.extra[:0]}
}

// Value is the value as it was written, in JSON; nil is null. Do not change it.
func (r *Record) Value(f Field) []byte { return r.values[f] }

// Text is a text value, without quotes and escapes; not ok if it is null or not a text.
func (r *Record) Text(f Field) (s string, ok bool) {
	v := r.values[f]
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	if in, plain := unquoted(v); plain {
		return string(in), true
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// Int is an integer value; not ok if it is null or not an integer.
func (r *Record) Int(f Field) (n int64, ok bool) { return integer(r.values[f]) }

// Float is a numeric value; not ok if it is null or not a number.
func (r *Record) Float(f Field) (x float64, ok bool) {
	v := r.values[f]
	if len(v) == 0 || v[0] == '"' {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(v), 64)
	return x, err == nil
}

// Set sets a value, in JSON; nil and null remove it. It refuses, with kind validation, a value
// that the record may not have there. The record keeps v.
func (r *Record) Set(f Field, v []byte) error {
	if int(f) >= r.Kind.Fields() {
		return tidemill.Fail(tidemill.Validation, "%s: it has no value number %d", r.Kind, f)
	}
	if v != nil && !jsontext.Value(v).IsValid() {
		return tidemill.Fail(tidemill.Validation, "%s: the new value of %s is no JSON", r.Kind, r.Kind.Name(f))
	}
	v = trim(v)
	if len(v) > 0 && v[0] == 'n' {
		v = nil
	}
	if v != nil {
		if wrong := misfit(r.Kind.Type(f), v); wrong != "" {
			return tidemill.Fail(tidemill.Validation, "%s: %s %s", r.Kind, r.Kind.Name(f), wrong)
		}
	}
	if f == GlobalEventID {
		id, ok := integer(v)
		if !ok {
			return tidemill.Fail(tidemill.Validation, "%s: globalEventId cannot be taken away", r.Kind)
		}
		r.ID = id
	}
	r.values[f], r.member[f] = v, span{}
	return nil
}

// SetText sets a text value.
func (r *Record) SetText(f Field, s string) error {
	v, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return tidemill.Fail(tidemill.Validation, "%s: %s is no UTF-8", r.Kind, r.Kind.Name(f))
	}
	return r.Set(f, v)
}

// MaxExtra is how many values a record may be given in addition to its own.
const MaxExtra = 64

// Add adds a value, in JSON, which goes out behind the record's own, or replaces an added one
// of that name. It refuses, with kind validation, names that go out already. The record keeps
// v.
func (r *Record) Add(name string, v []byte) error {
	switch {
	case name == "" || len(name) > 100:
		return tidemill.Fail(tidemill.Validation, "%s: a value is added under a name of %d bytes: want 1 to 100", r.Kind, len(name))
	case r.Kind.goesOut(name):
		return tidemill.Fail(tidemill.Validation, "%s: %s is one of its own names, nothing else can be added under it", r.Kind, name)
	case !jsontext.Value(v).IsValid():
		return tidemill.Fail(tidemill.Validation, "%s: what is added as %s is no JSON", r.Kind, name)
	}
	for i := range r.extra {
		if r.extra[i].Name == name {
			r.extra[i].Value = v
			return nil
		}
	}
	if len(r.extra) == MaxExtra {
		return tidemill.Fail(tidemill.Validation, "%s: more than %d values are added", r.Kind, MaxExtra)
	}
	r.extra = append(r.extra, Extra{name, v})
	return nil
}

// CopyFrom makes r a copy of from. Both may be changed afterwards, independently; the bytes of
// values are shared.
func (r *Record) CopyFrom(from *Record) {
	extra := append(r.extra[:0], from.extra...)
	*r = *from
	r.extra = extra
}
