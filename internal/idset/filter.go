package idset

import "math/bits"

// filter is a Bloom filter in lines of 64 bytes: a look costs one miss of the cache. With
// 16 bits and 8 probes an id about one in a thousand absent ids passes.
type filter []uint64

const (
	lineWords  = 8
	filterBits = 16
	probes     = 8
)

func newFilter(ids int) filter {
	lines := max((ids*filterBits+511)/512, 1)
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
