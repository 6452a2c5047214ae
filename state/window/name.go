package window

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill"
)

// The largest names, in bytes, and the most that one Put takes: others wait meanwhile.
const (
	MaxBatch    = 1024
	MaxKind     = 64
	MaxPut      = 100_000   // records
	MaxPutBytes = 256 << 20 // of their bodies
)

// Check refuses a record that could not be kept: kind validation. Every backend calls it
// for all records before it keeps any.
func Check(r *Record) error {
	switch {
	case r.Batch == "" || len(r.Batch) > MaxBatch:
		return tidemill.Fail(tidemill.Validation, "record %q: its batch id has %d bytes, want 1 to %d", r.ID, len(r.Batch), MaxBatch)
	case r.Kind == "" || len(r.Kind) > MaxKind || strings.IndexByte(r.Kind, 0) >= 0:
		return tidemill.Fail(tidemill.Validation, "record %q of batch %q: its kind %q is not a word of 1 to %d bytes", r.ID, r.Batch, r.Kind, MaxKind)
	case r.ID == "":
		return tidemill.Fail(tidemill.Validation, "a record of batch %q: give it an id", r.Batch)
	case r.Expect < 0:
		return tidemill.Fail(tidemill.Validation, "record %q of batch %q: %d records to be expected make no sense", r.ID, r.Batch, r.Expect)
	}
	return nil
}

// CheckPut is Check for all records of a Put; kept must have room for the answers.
func CheckPut(records []Record, kept []Kept) error {
	if kept != nil && len(kept) != len(records) {
		return tidemill.Fail(tidemill.Internal, "put %d records: room for %d answers", len(records), len(kept))
	}
	bytes := 0
	for i := range records {
		if err := Check(&records[i]); err != nil {
			return err
		}
		bytes += len(records[i].Body)
	}
	if len(records) > MaxPut || bytes > MaxPutBytes {
		return tidemill.Fail(tidemill.Validation, "put %d records of %d bytes: at most %d of %d bytes at once", len(records), bytes, MaxPut, MaxPutBytes)
	}
	return nil
}

// ID names a window: the batch id, a slash, the revision.
func ID(batch string, revision uint64) string {
	return batch + "/" + strconv.FormatUint(revision, 10)
}

// ParseID is the inverse of ID.
func ParseID(id string) (batch string, revision uint64, ok bool) {
	at := strings.LastIndexByte(id, '/')
	if at <= 0 {
		return batch, revision, false
	}
	revision, err := strconv.ParseUint(id[at+1:], 10, 64)
	return id[:at], revision, err == nil && ID(id[:at], revision) == id
}

// Within a key, a zero byte of an id is escaped by the byte after it; the end of the id is a
// zero byte with another one. So keys sort as kinds, ids and qualifiers do, and records whose
// ids are neighbours lie beside each other.
const (
	zeroEscaped = 0xff
	idEnd       = 0x01
)

// AppendKey writes what names a record within its window, as backends keep it: unlike for
// unlike names, in the order of kind, id, qualifier.
func AppendKey(b []byte, r *Record) []byte {
	b = append(b, r.Kind...)
	b = append(b, 0)
	rest := r.ID
	for {
		at := strings.IndexByte(rest, 0)
		if at < 0 {
			break
		}
		b = append(append(b, rest[:at]...), 0, zeroEscaped)
		rest = rest[at+1:]
	}
	b = append(append(b, rest...), 0, idEnd)
	return append(b, r.Qualifier...)
}

// Sum is the checksum of a record as backends keep it.
func Sum(key, body []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(len(key)))
	_, _ = d.Write(key) // never fails
	_, _ = d.Write(body)
	return d.Sum64()
}

// ReadKey is the inverse of AppendKey, and says whether the key was one. It copies.
func ReadKey(key []byte, r *Record) bool {
	at := bytes.IndexByte(key, 0)
	if at < 0 {
		return false
	}
	kind, rest := key[:at], key[at+1:]
	var id []byte
	for {
		at := bytes.IndexByte(rest, 0)
		if at < 0 || at+1 == len(rest) {
			return false
		}
		mark := rest[at+1]
		id, rest = append(id, rest[:at]...), rest[at+2:]
		if mark == idEnd {
			break
		}
		if mark != zeroEscaped {
			return false
		}
		id = append(id, 0)
	}
	r.Kind, r.ID, r.Qualifier = string(kind), string(id), string(rest)
	return true
}
