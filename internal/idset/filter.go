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

// maybe looks at half of the probes at once: a branch for each would mostly be guessed wrong, and
// what comes next would wait for the line instead of fetching its own.
func (f filter) maybe(hash uint64) bool {
	line, probe := f.line(hash)
	_ = line[lineWords-1]
	has := func(i int) uint64 {
		bit := probe >> (i * 7)
		return line[bit>>6&(lineWords-1)] >> (bit & 63)
	}
	if has(0)&has(1)&has(2)&has(3)&1 == 0 {
		return false
	}
	probe = bits.RotateLeft64(probe*0x9e3779b97f4a7c15, 32)
	return has(4)&has(5)&has(6)&has(7)&1 != 0
}
