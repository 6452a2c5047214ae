package sqlitewarehouse

import "math/bits"

// filter is a Bloom filter over the hashes of all events. A hash that it does not have is not
// in the table, so a new event costs no look-up (4 µs: a reader's page cache is empty after
// every commit). Each hash has four bits in one word. With 16 bits a key, one in seventy new
// events is looked up for nothing; with 8, one in ten.
type filter struct {
	words []uint64
	shift int
}

// Sizes of a filter.
const (
	filterBits = 16       // a key, in a new filter
	filterMost = 64 << 20 // bytes: at 32 million events it stops growing and gets coarser
)

// newFilter makes one for that many keys.
func newFilter(keys int) filter {
	words := min(max((keys*filterBits+63)/64, 1), filterMost/8)
	n := bits.Len(uint(words - 1)) // rounded up to a power of two
	return filter{make([]uint64, 1<<n), 64 - n}
}

// keys is how many keys it is sized for.
func (f filter) keys() int { return len(f.words) * 64 / filterBits }

func (f filter) most() bool { return len(f.words)*8 >= filterMost }

func (f filter) of(h uint64) (word *uint64, mask uint64) {
	h *= 0x9e3779b97f4a7c15 // 2^64 over the golden ratio: its high bits depend on all of h
	return &f.words[h>>f.shift], 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) | 1<<(h>>18&63)
}

func (f filter) add(h uint64) {
	word, mask := f.of(h)
	*word |= mask
}

func (f filter) has(h uint64) bool {
	word, mask := f.of(h)
	return *word&mask == mask
}

// The filter is in memory. After a start it is filled from the table gradually, some entries
// with every insert, and used when it has them all. A larger one is begun when it has more than
// its size.

// fill returns after which entry, and how many, the caller of an insert of n rows has to read
// to fill the filter: four times what the table grows by. 0: nothing is left to do, or another
// caller does it.
func (x *index) fill(n int) (after entry, want int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.full || x.filling {
		return entry{}, 0
	}
	x.filling = true
	return x.filled, max(x.step, 4*n)
}

// fillEnd adds what was read of the wanted entries; err: the read failed and has to be
// repeated.
func (x *index) fillEnd(read []entry, want int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.filling = false
	if err != nil {
		return
	}
	for _, e := range read {
		x.addKey(e.hash)
	}
	if len(read) < want {
		x.full = true
	} else {
		x.filled = read[len(read)-1]
	}
}

// addKey puts a hash into the filter.
func (x *index) addKey(h uint64) {
	x.filter.add(h)
	x.keys++
}

// grow begins a larger filter when this one is full and has more than its size. Entries in
// memory go in at once, those in the table as they are read.
func (x *index) grow() {
	if !x.full || x.keys <= x.filter.keys() || x.filter.most() {
		return
	}
	x.filter, x.keys, x.full, x.filled = newFilter(2*x.keys), 0, false, entry{}
	for h := range x.young {
		x.addKey(h)
	}
	for h := range x.old {
		x.addKey(h)
	}
}
