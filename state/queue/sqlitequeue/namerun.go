package sqlitequeue

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sort"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// run is a sorted set of names that does not change: blocks in the database, and in memory
// where each begins and a filter.
type run struct {
	no     int64
	level  int   // how often it was merged
	newest int64 // upper bound of when the newest of its names was added
	count  int
	fences []uint64 // the first hash of each block
	filter filter
}

const (
	blockNames = 160 // names in a block: one page of 4 KB holds a block and its row
	runBits    = 24  // blocks in a run: 2^24, far more than needed
)

func (r *run) block(i int) int64 { return r.no<<runBits | int64(i) }

// find calls each with the names of that hash.
func (r *run) find(tx *sqlitedb.Tx, hash uint64, each func(named)) error {
	at := max(sort.Search(len(r.fences), func(i int) bool { return r.fences[i] >= hash })-1, 0)
	for ; at < len(r.fences) && r.fences[at] <= hash; at++ {
		var block []byte
		if err := tx.QueryRow("SELECT names FROM queue_name_block WHERE id=?", r.block(at)).Scan(&block); err != nil {
			return fmt.Errorf("read names: block %d of run %d: %w", at, r.no, err)
		}
		n := len(block) / namedBytes
		i := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint64(block[i*namedBytes:]) >= hash })
		for ; i < n && binary.BigEndian.Uint64(block[i*namedBytes:]) == hash; i++ {
			each(readNamed(block[i*namedBytes:]))
		}
	}
	return nil
}

// filter is a Bloom filter in lines of 64 bytes: a look costs one miss of the cache. With
// 16 bits and 8 probes a name about one in a thousand absent names passes.
type filter []uint64

const (
	lineWords  = 8
	filterBits = 16
	probes     = 8
)

func newFilter(names int) filter {
	lines := max((names*filterBits+511)/512, 1)
	return make(filter, lines*lineWords)
}

// line is the line of a hash; low and high halves of a product are two more hashes.
func (f filter) line(hash uint64) (line []uint64, probe uint64) {
	at, rest := bits.Mul64(hash*0xff51afd7ed558ccd, uint64(len(f)/lineWords))
	return f[at*lineWords : at*lineWords+lineWords], rest * 0xc4ceb9fe1a85ec53
}

func (f filter) add(hash uint64) {
	line, probe := f.line(hash)
	for i := range probes {
		bit := probe >> (i * 7) & 511
		line[bit>>6] |= 1 << (bit & 63)
		if i == 3 {
			probe = bits.RotateLeft64(probe*0x9e3779b97f4a7c15, 32)
		}
	}
}

func (f filter) maybe(hash uint64) bool {
	line, probe := f.line(hash)
	for i := range probes {
		bit := probe >> (i * 7) & 511
		if line[bit>>6]&(1<<(bit&63)) == 0 {
			return false
		}
		if i == 3 {
			probe = bits.RotateLeft64(probe*0x9e3779b97f4a7c15, 32)
		}
	}
	return true
}

func words(b []byte) []uint64 {
	w := make([]uint64, len(b)/8)
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return w
}

func wordBytes(w []uint64) []byte {
	b := make([]byte, 0, 8*len(w))
	for _, v := range w {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}
