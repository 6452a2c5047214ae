package blob

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// A Group is the records of one batch id in a Put, only the last of each name.
type Group struct {
	Batch  string
	Expect int
	Digest []Digest       // of each name
	First  []int          // the index of its first record
	Bytes  int            // of all blobs, about
	last   []int          // and of its last one
	at     map[Digest]int // where in these a name is
}

// Groups divides records by their batch ids, in the order in which those come.
func Groups(records []window.Record) []*Group {
	var all []*Group
	byBatch := map[string]*Group{}
	var g *Group
	var key []byte
	for i := range records {
		r := &records[i]
		if g == nil || g.Batch != r.Batch {
			if g = byBatch[r.Batch]; g == nil {
				g = &Group{Batch: r.Batch, at: map[Digest]int{}}
				if i == 0 { // mostly they are all of one
					g.at = make(map[Digest]int, len(records))
				}
				byBatch[r.Batch] = g
				all = append(all, g)
			}
		}
		if r.Expect > 0 {
			g.Expect = r.Expect
		}
		key = entry.AppendKey(key[:0], r)
		d := DigestOf(key)
		at, twice := g.at[d]
		if !twice {
			at = len(g.First)
			g.at[d] = at
			g.Digest, g.First, g.last = append(g.Digest, d), append(g.First, i), append(g.last, i)
		}
		g.last[at] = i
		g.Bytes += len(r.Body) + len(key) + len(d) + 3*SumBytes
	}
	return all
}

// A Blob is some records of a window.
type Blob struct {
	Records int
	Bytes   int    // of the bodies
	Names   []byte // of each record the digest of its name and its checksum
	Data    []byte
}

// nameBytes is the length of a name in Blob.Names.
const nameBytes = DigestBytes + SumBytes

// Names are the digests and checksums in names of a blob.
func Names(names []byte) iter.Seq2[Digest, uint64] {
	return func(yield func(Digest, uint64) bool) {
		for ; len(names) >= nameBytes; names = names[nameBytes:] {
			if !yield(Digest(names[:DigestBytes]), binary.LittleEndian.Uint64(names[DigestBytes:])) {
				return
			}
		}
	}
}

// Pack makes blobs, in new memory, of the names for which keep is true; nil: of all.
// Their Names follow each other in memory.
func (g *Group) Pack(records []window.Record, keep []bool) (blobs []Blob) {
	p := packers.Get().(*packer)
	defer p.free()
	names := make([]byte, 0, len(g.last)*nameBytes)
	p.traces = p.traces[:0]
	p.raw = slices.Grow(p.raw[:0], min(g.Bytes, maxBytes+maxBytes/4))
	var key []byte
	var b Blob
	from := 0
	flush := func() {
		if b.Records > 0 {
			b.Names, b.Data = names[from:len(names):len(names)], p.data(b.Records)
			blobs, p.raw, from, b = append(blobs, b), p.raw[:0], len(names), Blob{}
		}
	}
	for n, i := range g.last {
		if keep != nil && !keep[n] {
			continue
		}
		r := &records[i]
		key = entry.AppendKey(key[:0], r)
		sum := entry.Sum(key, r.Body)
		names = binary.LittleEndian.AppendUint64(append(names, g.Digest[n][:]...), sum)
		p.raw = frame(p.raw, key, r.Body, sum)
		p.trace(b.Records, r.Trace)
		b.Bytes += len(r.Body)
		if b.Records++; b.Records == MaxRecords || len(p.raw) >= maxBytes {
			flush()
		}
	}
	flush()
	return blobs
}

// Without makes a blob of the records in data that are not gone, as far as it can be read, and says
// how many bytes the bodies of those had that are.
func Without(data []byte, gone map[Digest]bool) (b Blob, less int) {
	p := packers.Get().(*packer)
	defer p.free()
	p.raw, p.traces = p.raw[:0], p.traces[:0]
	for _, r := range Read(data) {
		d := DigestOf(r.Key)
		if gone[d] {
			less += len(r.Body)
			continue
		}
		p.raw = frame(p.raw, r.Key, r.Body, r.sum)
		p.trace(b.Records, r.Trace)
		b.Names = binary.LittleEndian.AppendUint64(append(b.Names, d[:]...), r.sum)
		b.Records, b.Bytes = b.Records+1, b.Bytes+len(r.Body)
	}
	b.Data = p.data(b.Records)
	return b, less
}
