package record

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

// AppendKey appends the record's key: globalEventId of an event,
// globalEventId_mentionIdentifier of a mention. A mention without an identifier has the word
// null in its place, as in the keys of earlier producers.
func (r *Record) AppendKey(dst []byte) []byte {
	dst = strconv.AppendInt(dst, r.ID, 10)
	if r.Kind == Mention {
		dst = append(dst, '_')
		dst = r.appendText(dst, MentionIdentifier)
	}
	return dst
}

// AppendQualifier appends what tells records of one key apart: the sentenceId of a mention, as
// a document may mention an event in several sentences. It is empty for events, and for
// mentions without a sentence.
func (r *Record) AppendQualifier(dst []byte) []byte {
	if r.Kind == Mention {
		if n, ok := r.Int(SentenceID); ok {
			return strconv.AppendInt(dst, n, 10)
		}
	}
	return dst
}

// AppendQualifiedKey appends the key, and for a mention _ and its qualifier behind it. The
// qualifier is the part behind the last _, so that two different pairs of key and qualifier
// never look the same.
func (r *Record) AppendQualifiedKey(dst []byte) []byte {
	dst = r.AppendKey(dst)
	if r.Kind == Mention {
		dst = append(dst, '_')
		dst = r.AppendQualifier(dst)
	}
	return dst
}

// appendText appends a text, unescaped.
func (r *Record) appendText(dst []byte, f Field) []byte {
	v := r.values[f]
	if v == nil {
		return append(dst, "null"...)
	}
	if in, plain := unquoted(v); plain {
		return append(dst, in...)
	}
	dst, _ = jsontext.AppendUnquote(dst, v) // it was checked when it was read
	return dst
}

// Headers that carry the batch id.
const (
	BatchHeader    = "X-Batch-ID" // the usual one
	BatchHeaderToo = "batchId"    // read where the usual one is missing
)

// MaxBatchID is how many bytes a batch id may have.
const MaxBatchID = 255

// BatchID reads the batch id from headers: the one called name (empty: X-Batch-ID), else
// batchId, in any case; of several the last counts. A value that is a quoted JSON text is
// unquoted. The error is of kind validation.
func BatchID(h []tidemill.Field, name string) (string, error) {
	if name == "" {
		name = BatchHeader
	}
	value, found := last(h, name)
	if !found {
		value, found = last(h, BatchHeaderToo)
	}
	if !found {
		return "", tidemill.Fail(tidemill.Validation, "there is no batch id: neither a header %s nor %s", name, BatchHeaderToo)
	}
	value = bytes.TrimSpace(value)
	id := string(value)
	if bytes.HasPrefix(value, []byte{'"'}) {
		if err := json.Unmarshal(value, &id); err != nil {
			return "", tidemill.Fail(tidemill.Validation, "the batch id begins with a quote and is no JSON text")
		}
		id = strings.TrimSpace(id)
	}
	return id, CheckBatchID(id)
}

// CheckBatchID refuses, with kind validation, a text that cannot be a batch id: it has to be 1
// to 255 bytes of UTF-8 without control characters.
func CheckBatchID(id string) error {
	switch {
	case id == "":
		return tidemill.Fail(tidemill.Validation, "the batch id is empty")
	case len(id) > MaxBatchID:
		return tidemill.Fail(tidemill.Validation, "the batch id has %d bytes, more than %d", len(id), MaxBatchID)
	case !plain(id) && (!utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl)):
		return tidemill.Fail(tidemill.Validation, "the batch id has control characters, or is no UTF-8")
	}
	return nil
}

// plain says whether a text is printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func last(h []tidemill.Field, name string) (value []byte, ok bool) {
	for i := len(h) - 1; i >= 0; i-- {
		if len(h[i].Name) == len(name) && strings.EqualFold(string(h[i].Name), name) {
			return h[i].Value, true
		}
	}
	return nil, false
}
