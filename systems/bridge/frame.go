package bridge

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// payloadField is the field of an entry that is published.
const payloadField = "payload"

// appendMessage appends what is published of an entry:
//
//	{"message":{"payload":<data>},"redis":{"payload":{"id":"<entry id>"}}}
func appendMessage(dst []byte, m *tidemill.Message) []byte {
	dst = append(dst, `{"message":{"payload":`...)
	dst = appendData(dst, m)
	dst = append(dst, `},"redis":{"payload":{"id":`...)
	dst = appendText(dst, m.ID)
	return append(dst, `}}}`...)
}

// appendData appends the data of an entry as JSON. Its field payload is the data: byte for byte
// if it is valid JSON of any kind, else as a JSON string of its text. An entry without that
// field becomes an object of all its fields, in their order. A message without fields is its
// payload, and so is one that has nothing but its trace beside it.
func appendData(dst []byte, m *tidemill.Message) []byte {
	fields := queue.Sent(m)
	if onlyTraced(fields, m.Payload) {
		return appendValue(dst, m.Payload)
	}
	for i := range fields {
		if string(fields[i].Name) == payloadField {
			return appendValue(dst, fields[i].Value)
		}
	}
	dst = append(dst, '{')
	for i := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		f := &fields[i]
		dst = appendText(dst, f.Name)
		dst = append(dst, ':')
		if string(f.Name) == structField && valid(f.Value) {
			dst = append(dst, f.Value...)
			continue
		}
		dst = appendText(dst, f.Value)
	}
	return append(dst, '}')
}

// onlyTraced says that a message has no fields but those of a trace. The payload of an entry with a
// single field is that field. An entry of several has none: nil, or empty when it is replayed.
func onlyTraced(fields []tidemill.Field, payload []byte) bool {
	for i := range fields {
		f := &fields[i]
		if name := string(f.Name); name != tidemill.Traceparent && name != tidemill.Tracestate || string(f.Value) == string(payload) {
			return false
		}
	}
	return len(fields) == 0 || len(payload) > 0
}

// appendValue appends JSON bytes unchanged, and others as a string.
func appendValue(dst, value []byte) []byte {
	if !valid(value) {
		return appendText(dst, value)
	}
	return appendUnfolded(dst, value)
}

// appendText appends a JSON string. JSON cannot hold bytes that are not UTF-8: each of them
// becomes U+FFFD.
func appendText[T string | []byte](dst []byte, text T) []byte {
	if clean(text) {
		dst = append(dst, '"')
		dst = append(dst, text...)
		return append(dst, '"')
	}
	dst, _ = jsontext.AppendQuote(dst, text) // its error is about bytes that are not UTF-8
	return dst
}

// clean reports whether a text needs no escaping in a JSON string.
func clean[T string | []byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

// flatEnough is the largest size, in bytes, for the fast check, which recurses for each level
// of nesting.
const flatEnough = 64 << 10

// valid reports whether bytes are one JSON value. JSON is UTF-8 (RFC 8259, section 8.1): a
// strict receiver could never read, and so never acknowledge, anything else.
func valid(b []byte) bool {
	if len(b) == 0 || !utf8.Valid(b) {
		return false
	}
	if len(b) <= flatEnough {
		return gjson.ValidBytes(b)
	}
	return json.Valid(b)
}

// structField is a field of data that may hold JSON as a string.
const structField = "struct_data"

// appendUnfolded appends a JSON value. If it is an object with a string struct_data at the top
// that holds valid JSON, that JSON replaces the string. All else stays byte for byte.
func appendUnfolded(dst, value []byte) []byte {
	if !mayHoldStruct(value) {
		return append(dst, value...)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return append(dst, value...)
	}
	copied := 0
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			break
		}
		is := name.String() == structField
		raw, err := dec.ReadValue()
		if err != nil {
			break
		}
		if !is || raw.Kind() != '"' {
			continue
		}
		end := int(dec.InputOffset())
		inner, err := jsontext.AppendUnquote(nil, []byte(raw))
		if err != nil || !valid(inner) {
			continue
		}
		dst = append(dst, value[copied:end-len(raw)]...)
		dst = append(dst, inner...)
		copied = end
	}
	return append(dst, value[copied:]...)
}

// mayHoldStruct is false if the value surely has no such field: an escape may spell its name.
func mayHoldStruct(value []byte) bool {
	first := bytes.TrimLeft(value, " \t\r\n")
	return len(first) > 0 && first[0] == '{' && (bytes.Contains(value, []byte(structField)) || bytes.Contains(value, []byte(`\u`)))
}
