package window

import (
	"strconv"
	"strings"

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
