package entry

import (
	"bytes"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// CheckPut is Check for all records of a Put; kept must have room for the answers.
func CheckPut(records []window.Record, kept []window.Kept) error {
	if kept != nil && len(kept) != len(records) {
		return tidemill.Fail(tidemill.Internal, "put %d records: room for %d answers", len(records), len(kept))
	}
	bytes := 0
	for i := range records {
		if err := window.Check(&records[i]); err != nil {
			return err
		}
		bytes += len(records[i].Body)
	}
	if len(records) > window.MaxPut || bytes > window.MaxPutBytes {
		return tidemill.Fail(tidemill.Validation, "put %d records of %d bytes: at most %d of %d bytes at once", len(records), bytes, window.MaxPut, window.MaxPutBytes)
	}
	return nil
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
func AppendKey(b []byte, r *window.Record) []byte {
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
func ReadKey(key []byte, r *window.Record) bool {
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
