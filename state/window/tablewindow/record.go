package tablewindow

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// What a window waits for. Due of an active one is when it was opened.
const (
	toClose = "close"
	toGo    = "go" // to be handed out: it is the first in line
)

// full is Due of an active window that has as many records as were announced.
var full = time.UnixMilli(1).UTC()

// settled is the state of a window that has ended, and whose blobs are yet to be deleted.
const settled window.State = "settled"

// Record is a window, or the books.
type Record struct {
	entry.Entry
	key   string
	of    string // in line, by the digest of its batch id; empty: not in line
	waits string // for the time Due: toClose, toGo; empty: for nothing
	blobs uint64 // ever put

	records, bytes, expect, lost, epoch uint64 // of Entry
	books                               []byte
}

// Blob is some records of a window.
type Blob struct {
	key   string
	names []byte // their digests and checksums
	data  []byte
}

// Spec is the table of windows.
func Spec() table.Spec[Record] {
	type r = Record
	return table.Spec[r]{Name: "window", Fields: []table.Field[r]{
		{Name: "key", At: func(r *r) any { return &r.key }},
		{Name: "batch", At: func(r *r) any { return &r.Batch }},
		{Name: "revision", At: func(r *r) any { return &r.Revision }},
		{Name: "state", At: func(r *r) any { return (*string)(&r.State) }},
		{Name: "records", At: func(r *r) any { return &r.records }},
		{Name: "bytes", At: func(r *r) any { return &r.bytes }},
		{Name: "expect", At: func(r *r) any { return &r.expect }},
		{Name: "lost", At: func(r *r) any { return &r.lost }},
		{Name: "opened", At: func(r *r) any { return &r.Opened }},
		{Name: "closed", At: func(r *r) any { return &r.Closed }},
		{Name: "why", At: func(r *r) any { return (*string)(&r.Why) }},
		{Name: "due", At: func(r *r) any { return &r.Due }},
		{Name: "owner", At: func(r *r) any { return &r.Owner }},
		{Name: "handed", At: func(r *r) any { return &r.Handed }},
		{Name: "tries", At: func(r *r) any { return &r.Tries }},
		{Name: "replays", At: func(r *r) any { return &r.Replays }},
		{Name: "failed", At: func(r *r) any { return &r.Failed }},
		{Name: "kind", At: func(r *r) any { return (*uint8)(&r.Kind) }},
		{Name: "cause", At: func(r *r) any { return &r.Cause }},
		{Name: "epoch", At: func(r *r) any { return &r.epoch }},
		{Name: "line", At: func(r *r) any { return &r.Line }},
		{Name: "line_of", At: func(r *r) any { return &r.of }},
		{Name: "waits", At: func(r *r) any { return &r.waits }},
		{Name: "blobs", At: func(r *r) any { return &r.blobs }},
		{Name: "books", At: func(r *r) any { return &r.books }},
	}, Orders: []table.Order{
		{Name: "revision", By: []string{"revision"}},
		{Name: "state", By: []string{"state", "revision"}},
		{Name: "line", By: []string{"line_of", "line"}},
		{Name: "waits", By: []string{"waits", "revision"}},
		{Name: "due", By: []string{"waits", "due"}},
	}}
}

// BlobSpec is the table of blobs. A key is the revision of the window and the number of the blob.
func BlobSpec() table.Spec[Blob] {
	return table.Spec[Blob]{Name: "window_blob", Fields: []table.Field[Blob]{
		{Name: "key", At: func(b *Blob) any { return &b.key }},
		{Name: "names", At: func(b *Blob) any { return &b.names }},
		{Name: "data", At: func(b *Blob) any { return &b.data }},
	}}
}

// changed are the fields that change of a window that is closed.
var changed = []string{"state", "records", "lost", "due", "owner", "handed", "tries", "replays", "failed", "kind", "cause", "epoch", "line", "line_of", "waits"}

// The active window of a batch id has the batch id's key, a closed one that of its revision.
func activeKey(batch string) string { return "a" + digest(batch) }

func closedKey(revision uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte("w"), revision))
}

func digest(batch string) string {
	d := blob.DigestOf([]byte(batch))
	return string(d[:])
}

// blobKey is the key of a blob; the first is 1.
func blobKey(revision, no uint64) string {
	return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, revision), no))
}

// blobNo is the number of a blob.
func blobNo(key string) uint64 { return binary.BigEndian.Uint64([]byte(key[8:])) }

// fill makes of what was read what the rules know.
func (r *Record) fill() *Record {
	r.ID = window.ID(r.Batch, r.Revision)
	r.Records, r.Bytes, r.Expect, r.Lost, r.Epoch = int64(r.records), int64(r.bytes), int64(r.expect), int64(r.lost), uint32(r.epoch)
	return r
}

// seal is the inverse of fill.
func (r *Record) seal() *Record {
	r.records, r.bytes, r.expect, r.lost, r.epoch = uint64(r.Records), uint64(r.Bytes), uint64(r.Expect), uint64(r.Lost), uint64(r.Epoch)
	return r
}

// waiting is the condition on what windows wait for.
func waiting(what string) table.Cond { return table.Cond{Field: "waits", Op: "=", Value: what} }

// in are the conditions on windows of a state.
func in(s window.State) []table.Cond {
	return []table.Cond{{Field: "state", Op: "=", Value: string(s)}}
}

// of are the conditions on blobs of a window, from one number on.
func of(revision, from uint64) []table.Cond {
	return []table.Cond{{Field: "key", Op: ">=", Value: blobKey(revision, from)}, {Field: "key", Op: "<=", Value: blobKey(revision, math.MaxUint64)}}
}

const booksKey = "books"

// books are what is counted of all windows.
type books struct {
	revision, line uint64 // given
	accepted       uint64
	row            tidemill.Count
	lost           uint64
	windows        [4]uint64 // by state
	records        [4]uint64
}

func (b *books) numbers() []*uint64 {
	all := []*uint64{&b.revision, &b.line, &b.accepted, &b.row.Delivered, &b.row.Skipped, &b.row.Dead, &b.lost}
	for i := range b.windows {
		all = append(all, &b.windows[i], &b.records[i])
	}
	return all
}

func (b *books) seal() *Record {
	r := &Record{key: booksKey}
	for _, n := range b.numbers() {
		r.books = binary.AppendUvarint(r.books, *n)
	}
	return r
}

// booksOf are the books that were read.
func booksOf(found map[string]*Record) (b books, err error) {
	if found[booksKey] == nil {
		return b, nil
	}
	r := wire.NewReader(found[booksKey].books)
	for _, n := range b.numbers() {
		*n = r.Uvarint()
	}
	if err := r.End(); err != nil {
		return b, fmt.Errorf("read the books of windows: %w", err)
	}
	return b, nil
}

// count adds a window to its state's count, or removes it.
func (b *books) count(r *Record, sign int64) {
	i := slices.Index(window.States(), r.State)
	b.windows[i] += uint64(sign)
	b.records[i] += uint64(sign * r.Records)
}
