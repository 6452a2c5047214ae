package rediswindow

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/klauspost/compress/s2"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// A blob is a head and records. The head is the number of records (three bytes), their form
// (one), and their uncompressed length (four), the lowest byte first; scripts read it. A
// record is key and body with their lengths before them, and the checksum of both.
const (
	blobHead    = 8
	blobRecords = 500       // of one blob at most
	blobBytes   = 256 << 10 // size at which another is begun
	sumBytes    = 8
	packFrom    = 1 << 10 // shorter blobs are kept plain
)

// The forms of records.
const (
	plain  = 0
	packed = 1 // compressed: records of one kind are then a fifth as long
)

// digest stands for a record's name.
type digest [16]byte

func digestOf(key []byte) (d digest) {
	whole := sha256.Sum256(key)
	copy(d[:], whole[:])
	return d
}

// packing is memory for blobs being made.
type packing struct {
	raw   []byte // framed records
	small []byte // the compressed ones
}

// blob makes a blob of the framed records in p.raw, in new memory.
func (p *packing) blob(records int) []byte {
	form, body := byte(plain), p.raw
	if len(p.raw) >= packFrom {
		if n := s2.MaxEncodedLen(len(p.raw)); cap(p.small) < n {
			p.small = make([]byte, n)
		}
		if small := s2.Encode(p.small[:cap(p.small)], p.raw); len(small) < len(p.raw)-len(p.raw)/8 {
			form, body = packed, small
		}
	}
	blob := make([]byte, blobHead, blobHead+len(body))
	blob[0], blob[1], blob[2], blob[3] = byte(records), byte(records>>8), byte(records>>16), form
	binary.LittleEndian.PutUint32(blob[4:], uint32(len(p.raw)))
	return append(blob, body...)
}

// unpack returns the number of records of a blob, and the framed records; nil if the blob
// is damaged.
func unpack(blob string) (n int, raw []byte) {
	if len(blob) < blobHead {
		return 0, nil
	}
	b := []byte(blob) // a copy, which the records are parts of
	n = int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	length := int(binary.LittleEndian.Uint32(b[4:]))
	switch rest := b[blobHead:]; b[3] {
	case plain:
		return n, rest
	case packed:
		if l, err := s2.DecodedLen(rest); err != nil || l != length || l > blobMost {
			return n, nil
		}
		raw, err := s2.Decode(nil, rest)
		if err != nil {
			return n, nil
		}
		return n, raw
	}
	return n, nil
}

// blobMost is the largest length of a blob's records: one Put, with names.
const blobMost = 1 << 30

// frame appends a record to a blob.
func frame(b, key, body []byte, sum uint64) []byte {
	b = wire.AppendString(b, key)
	b = wire.AppendString(b, body)
	return binary.LittleEndian.AppendUint64(b, sum)
}

// stored is a record that was read.
type stored struct {
	key, body []byte // parts of the blob
	damaged   bool
}

// unframe reads the records of a blob as far as it is undamaged. A missing record has no
// parts.
func unframe(blob string) []stored {
	n, b := unpack(blob)
	rs := make([]stored, 0, min(n, len(b)/sumBytes))
	for len(b) > 0 && len(rs) < n {
		var r stored
		var ok bool
		if r.key, b, ok = cut(b); !ok {
			break
		}
		if r.body, b, ok = cut(b); !ok || len(b) < sumBytes {
			break
		}
		r.damaged = binary.LittleEndian.Uint64(b) != entry.Sum(r.key, r.body)
		b = b[sumBytes:]
		rs = append(rs, r)
	}
	return rs
}

// cut takes what AppendString wrote from the front.
func cut(b []byte) (part, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	return b[k : k+int(n) : k+int(n)], b[k+int(n):], true
}

// record is the record as it is shown. Its body lies beside those of its blob, since a
// reader of one record reads them all; keeping one keeps up to blobBytes.
func (r *stored) record(batch string) window.Record {
	out := window.Record{Batch: batch, Body: r.body}
	if !entry.ReadKey(r.key, &out) {
		out.ID, out.Damaged = string(r.key), window.Mixed
	}
	if r.damaged {
		out.Damaged = window.Mixed
	}
	return out
}

// text makes an argument of bytes that do not change.
func text(b []byte) string { return rueidis.BinaryString(b) }
