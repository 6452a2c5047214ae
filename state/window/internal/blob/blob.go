// Package blob keeps many records of a window as one value, compressed: a backend has a value to
// write, read and delete for hundreds of records.
package blob

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/s2"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// A blob's data are a head and records. The head is the number of records (three bytes), their form
// (one), and their uncompressed length (four), the lowest byte first; scripts read it. A
// record is key and body with their lengths before them, and the checksum of both. Behind the records
// are the traces of those that have one: the number of the record, from 0, and the trace with its
// length before it.
const (
	head       = 8
	MaxRecords = 500       // of one blob at most
	maxBytes   = 256 << 10 // size at which another is begun
	SumBytes   = 8
	packFrom   = 1 << 10 // shorter blobs are kept plain
)

// The forms of records.
const (
	plain  = 0
	Packed = 1 // compressed: records of one kind are then a fifth as long
)

// Digest stands for a record's name.
type Digest [DigestBytes]byte

// DigestBytes is the length of a Digest.
const DigestBytes = 16

// DigestOf is the digest of a key, or of a batch id.
func DigestOf(key []byte) (d Digest) {
	whole := sha256.Sum256(key)
	copy(d[:], whole[:])
	return d
}

// packer is memory for blobs being made.
type packer struct {
	raw    []byte // framed records
	small  []byte // the compressed ones
	traces []byte // of the records in raw
}

var packers = sync.Pool{New: func() any { return new(packer) }}

// trace notes the trace of record n of a blob.
func (p *packer) trace(n int, trace string) {
	if trace != "" {
		p.traces = wire.AppendString(binary.AppendUvarint(p.traces, uint64(n)), trace)
	}
}

// free keeps memory for others, unless a large record has made it large.
func (p *packer) free() {
	if cap(p.raw) <= 4*maxBytes {
		packers.Put(p)
	}
}

// data makes the data of the framed records in p.raw, in new memory.
func (p *packer) data(records int) []byte {
	p.raw, p.traces = append(p.raw, p.traces...), p.traces[:0]
	form, body := byte(plain), p.raw
	if len(p.raw) >= packFrom {
		if n := s2.MaxEncodedLen(len(p.raw)); cap(p.small) < n {
			p.small = make([]byte, n)
		}
		if small := s2.Encode(p.small[:cap(p.small)], p.raw); len(small) < len(p.raw)-len(p.raw)/8 {
			form, body = Packed, small
		}
	}
	blob := make([]byte, head, head+len(body))
	blob[0], blob[1], blob[2], blob[3] = byte(records), byte(records>>8), byte(records>>16), form
	binary.LittleEndian.PutUint32(blob[4:], uint32(len(p.raw)))
	return append(blob, body...)
}

// unpack returns the number of records of a blob, and the framed records; nil if the blob
// is damaged.
func unpack(b []byte) (n int, raw []byte) {
	if len(b) < head {
		return 0, nil
	}
	n = int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	length := int(binary.LittleEndian.Uint32(b[4:]))
	switch rest := b[head:]; b[3] {
	case plain:
		return n, rest
	case Packed:
		if l, err := s2.DecodedLen(rest); err != nil || l != length || l > mostBytes {
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

// mostBytes is the largest length of a blob's records: one Put, with names.
const mostBytes = 1 << 30

// frame appends a record to a blob.
func frame(b, key, body []byte, sum uint64) []byte {
	b = wire.AppendString(b, key)
	b = wire.AppendString(b, body)
	return binary.LittleEndian.AppendUint64(b, sum)
}

// Stored is a record that was read.
type Stored struct {
	Key, Body []byte // parts of the blob
	Trace     string
	sum       uint64
}

// Damaged says that it is not what was put.
func (r *Stored) Damaged() bool { return r.sum != entry.Sum(r.Key, r.Body) }

// Read reads the records of a blob as far as it is undamaged. They are parts of data, or of new
// memory.
func Read(data []byte) []Stored {
	n, b := unpack(data)
	rs := make([]Stored, 0, min(n, len(b)/SumBytes))
	for len(b) > 0 && len(rs) < n {
		var r Stored
		var ok bool
		if r.Key, b, ok = cut(b); !ok {
			break
		}
		if r.Body, b, ok = cut(b); !ok || len(b) < SumBytes {
			break
		}
		r.sum = binary.LittleEndian.Uint64(b)
		b = b[SumBytes:]
		rs = append(rs, r)
	}
	if len(rs) == n {
		readTraces(rs, b)
	}
	return rs
}

// readTraces gives records the traces behind them.
func readTraces(rs []Stored, b []byte) {
	for len(b) > 0 {
		i, k := binary.Uvarint(b)
		if k <= 0 || i >= uint64(len(rs)) {
			return
		}
		trace, rest, ok := cut(b[k:])
		if !ok {
			return
		}
		if b = rest; i > 0 && rs[i-1].Trace == string(trace) {
			rs[i].Trace = rs[i-1].Trace // as most have that came together
		} else {
			rs[i].Trace = string(trace)
		}
	}
}

// cut takes what AppendString wrote from the front.
func cut(b []byte) (part, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	return b[k : k+int(n) : k+int(n)], b[k+int(n):], true
}

// Record is the record as it is shown. Its body lies beside those of its blob, since a
// reader of one record reads them all; keeping one keeps up to maxBytes.
func (r *Stored) Record(batch string) window.Record {
	out := window.Record{Batch: batch, Body: r.Body, Trace: r.Trace}
	if !entry.ReadKey(r.Key, &out) {
		out.ID, out.Damaged = string(r.Key), window.Mixed
	}
	if r.Damaged() {
		out.Damaged = window.Mixed
	}
	return out
}
