package sqlitequeue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// A record is a job as bytes: a checksum and what it is of. One column instead of twelve:
// to the writer every column costs about as much as 200 bytes.
//
//	crc32c | added | time | priority | lengths of tenant, ID, type, key | headers, their
//	lengths | tenant ID type | key | headers | payload
//
// Numbers are varints, times are milliseconds.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("it is not what was written (checksum)")

// appendRecord appends the record of m, added at that time.
func appendRecord(b []byte, m *tidemill.Message, added int64) []byte {
	start := len(b)
	own := 0 // the queue's own headers
	for _, f := range m.Header {
		if rules.OwnHeader(f) {
			own++
		}
	}
	when := added
	if !m.Time.IsZero() {
		when = m.Time.UnixMilli()
	}
	b = append(b, 0, 0, 0, 0)
	b = binary.AppendVarint(b, added)
	b = binary.AppendVarint(b, when)
	b = append(b, m.Priority)
	b = binary.AppendUvarint(b, uint64(len(m.Tenant)))
	b = binary.AppendUvarint(b, uint64(len(m.ID)))
	b = binary.AppendUvarint(b, uint64(len(m.Type)))
	b = binary.AppendUvarint(b, uint64(len(m.Key)))
	b = binary.AppendUvarint(b, uint64(len(m.Header)-own))
	for _, f := range m.Header {
		if own > 0 && rules.OwnHeader(f) {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(f.Name)))
		b = binary.AppendUvarint(b, uint64(len(f.Value)))
	}
	b = append(b, m.Tenant...)
	b = append(b, m.ID...)
	b = append(b, m.Type...)
	b = append(b, m.Key...)
	for _, f := range m.Header {
		if own > 0 && rules.OwnHeader(f) {
			continue
		}
		b = append(b, f.Name...)
		b = append(b, f.Value...)
	}
	b = append(b, m.Payload...)
	binary.LittleEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b
}

// recordSize is about the length of m's record, never less.
func recordSize(m *tidemill.Message) int {
	n := 64 + len(m.Tenant) + len(m.ID) + len(m.Type) + len(m.Key) + len(m.Payload)
	for _, f := range m.Header {
		n += 20 + len(f.Name) + len(f.Value)
	}
	return n
}

// readRecord fills m from a record and returns when the job was added. It copies key and
// payload, so that a message which is kept for its memory does not keep the whole segment;
// the header points to the record.
func readRecord(rec []byte, m *tidemill.Message) (added int64, err error) {
	if len(rec) < 4 || crc32.Checksum(rec[4:], castagnoli) != binary.LittleEndian.Uint32(rec) {
		return 0, errDamaged
	}
	r := reader{rec: rec[4:]}
	added = r.varint()
	m.Time = time.UnixMilli(r.varint()).UTC()
	if p := r.bytes(1); len(p) == 1 {
		m.Priority = p[0]
	}
	tenant, id, typ, key := r.length(), r.length(), r.length(), r.length()
	m.Header = m.Header[:0]
	lengths := r
	for range r.length() {
		r.length()
		r.length()
	}
	words := string(r.bytes(tenant + id + typ)) // one allocation for three
	if r.short {
		return 0, errDamaged
	}
	m.Tenant, m.ID, m.Type = words[:tenant], words[tenant:tenant+id], words[tenant+id:]
	m.Key = append(m.Key[:0], r.bytes(key)...)
	for range lengths.length() {
		m.Header = append(m.Header, tidemill.Field{Name: r.bytes(lengths.length()), Value: r.bytes(lengths.length())})
	}
	m.Payload = append(m.Payload[:0], r.rec...)
	if r.short {
		return 0, errDamaged
	}
	return added, nil
}

// head is the part of a job that decides when its turn comes.
type head struct {
	added       int64
	priority    uint8
	tenant, key string
}

// readHead reads the head of a record. It does not check the checksum: the hand-out does
// that.
func readHead(rec []byte) (h head, ok bool) {
	if len(rec) < 4 {
		return head{}, false
	}
	r := reader{rec: rec[4:]}
	h.added = r.varint()
	r.varint()
	if p := r.bytes(1); len(p) == 1 {
		h.priority = p[0]
	}
	tenant, id, typ, key := r.length(), r.length(), r.length(), r.length()
	for range r.length() {
		r.length()
		r.length()
	}
	h.tenant = string(r.bytes(tenant))
	r.bytes(id + typ)
	h.key = string(r.bytes(key))
	if r.short {
		return head{}, false
	}
	return h, true
}

// addedOf is when the job of a record was added; false: the record is not at hand, or short.
func addedOf(rec []byte) (added int64, ok bool) {
	if len(rec) < 4 {
		return 0, false
	}
	r := reader{rec: rec[4:]}
	added = r.varint()
	return added, !r.short
}

// may says whether a record may be that of a job which a filter chooses: all that costs little is
// looked at. What it cannot read may.
func may(f *queue.Filter, rec []byte) bool {
	if len(rec) < 4 || f.Tenant == "" && f.Type == "" && f.Before.IsZero() {
		return true
	}
	r := reader{rec: rec[4:]}
	added := r.varint()
	r.varint()
	r.bytes(1)
	tenant, id, typ := r.length(), r.length(), r.length()
	r.length()
	for range r.length() {
		r.length()
		r.length()
	}
	of := r.bytes(tenant)
	r.bytes(id)
	is := r.bytes(typ)
	return r.short || (f.Tenant == "" || string(of) == f.Tenant) && (f.Type == "" || string(is) == f.Type) &&
		(f.Before.IsZero() || time.UnixMilli(added).Before(f.Before))
}

// reader takes a record apart. It never reads past the end, but sets short.
type reader struct {
	rec   []byte
	short bool
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rec)
	return r.number(v, n)
}

func (r *reader) number(v int64, n int) int64 {
	if n <= 0 {
		r.short, r.rec = true, nil
		return 0
	}
	r.rec = r.rec[n:]
	return v
}

// length is a number of bytes or headers; more than are left is short.
func (r *reader) length() int {
	v, n := binary.Uvarint(r.rec)
	if n <= 0 || v > uint64(len(r.rec)) {
		r.short, r.rec = true, nil
		return 0
	}
	r.rec = r.rec[n:]
	return int(v)
}

// bytes takes n bytes, capped, so that appending cannot change what follows.
func (r *reader) bytes(n int) []byte {
	if n > len(r.rec) {
		r.short, r.rec = true, nil
		return nil
	}
	b := r.rec[:n:n]
	r.rec = r.rec[n:]
	return b
}

// A segment's blob is the sizes of its records, four bytes each, their checksum, and the
// records. A damaged record is one damaged job; damaged sizes are a damaged segment.
const (
	segmentJobs  = 64       // as many as fit the bits of queue_ended
	segmentBytes = 64 << 10 // a segment is closed above that: it is written and read whole
)

// appendSegment appends the blob of records.
func appendSegment(b []byte, records [][]byte) []byte {
	start := len(b)
	for _, r := range records {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r)))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	for _, r := range records {
		b = append(b, r...)
	}
	return b
}

// cutSegment returns the n records of a blob.
func cutSegment(blob []byte, n int) ([][]byte, error) {
	head := 4 * n
	if len(blob) < head+4 || crc32.Checksum(blob[:head], castagnoli) != binary.LittleEndian.Uint32(blob[head:]) {
		return nil, fmt.Errorf("a segment of %d jobs: %w", n, errDamaged)
	}
	records := make([][]byte, n)
	rest := blob[head+4:]
	for i := range records {
		size := int(binary.LittleEndian.Uint32(blob[4*i:]))
		if size > len(rest) { // cut off: the rest of it is damaged, the next ones are empty
			size = len(rest)
		}
		records[i] = rest[:size:size]
		rest = rest[size:]
	}
	return records, nil
}
