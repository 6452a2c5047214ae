package sqlitewarehouse

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
)

// The index finds the row of an event by its project and event id. Event ids are random, so an
// ordinary index changes a page for every event: 4 KiB written twice, 30 µs, for an entry of 16
// bytes. Here entries are gathered in memory and written in the order of their hashes, a few
// with every insert, so that many share a page. Where each entry is:
//
//	pending ──write──▶ young ──rotate──▶ old ──merge──▶ warehouse_key
//	pending  an insert holds the event now; others wait for its end
//	young    stored, in memory only
//	old      the young of before, sorted, partly merged; forgotten when all of it is
//
// So a stored event is found in memory or in the table, and one that is not yet in the table
// has an id above warehouse_index.upto: after a crash those rows are read back. A hash finds a
// candidate, whose row is compared, so equal hashes of different events only cost time.
type index struct {
	hash hash
	size int // so many young become old
	step int // at least so many entries are read with an insert to fill the filter

	mu      sync.Mutex // guards what follows; held for work in memory only
	flights []*flight  // running inserts, oldest first
	pending map[uint64]*flight
	young   map[uint64]int64
	old     map[uint64]int64
	run     []entry // of old, sorted: those not merged yet
	upto    int64   // the highest id in old
	newest  int64   // the highest id in young
	owed    int     // how many of run the next merge writes
	merging bool

	filter  filter
	keys    int   // in the filter
	full    bool  // the filter has all events
	filling bool  // a caller reads entries for it
	filled  entry // so far
}

// hash of an event.
type hash func(project, id uuid.UUID) uint64

// entry says that an event with this hash is in the row of this id.
type entry struct {
	hash uint64
	id   int64
}

// flight is a running insert.
type flight struct {
	hashes []uint64
	known  []entry       // candidates found in memory
	look   []uint64      // hashes to be looked up in the table
	twins  bool          // the batch has some hash more than once
	done   chan struct{} // closed at its end
}

// hashBits keeps an entry small: SQLite stores integers of up to 48 bits in 6 bytes.
const hashBits = 48

// hasher hashes with a file's own seed.
func hasher(seed uint64) hash {
	return func(project, id uuid.UUID) uint64 {
		var b [40]byte
		binary.LittleEndian.PutUint64(b[:], seed)
		copy(b[8:], project[:])
		copy(b[24:], id[:])
		return xxhash.Sum64(b[:]) >> (64 - hashBits)
	}
}

// tuning is what tests change.
type tuning struct {
	hasher func(seed uint64) hash
	keys   int // the smallest filter is for
	step   int // see index
}

// The smallest filter has 2 MiB. 4,000 entries are read in some 2 ms.
var tuned = tuning{hasher, 1 << 20, 4000}

func newIndex(size int, hash hash, keys, step int) *index {
	return &index{hash: hash, size: size, step: step, filter: newFilter(keys),
		pending: map[uint64]*flight{}, young: map[uint64]int64{}, old: map[uint64]int64{}}
}

// begin reserves the hashes of f, all or none. It returns nil, or what to wait for before
// asking again. A waiting insert holds nothing, so there is no deadlock.
func (x *index) begin(f *flight) (wait <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.young) >= x.size && len(x.run) == 0 && !x.merging {
		if len(x.flights) > 0 { // their ids may be lower than the highest of young
			return x.flights[0].done
		}
		x.rotate()
	}
	for _, h := range f.hashes {
		if g := x.pending[h]; g != nil {
			return g.done
		}
	}
	for _, h := range f.hashes {
		if x.pending[h] == f {
			f.twins = true
			continue
		}
		x.pending[h] = f
		if id, ok := x.young[h]; ok {
			f.known = append(f.known, entry{h, id})
		}
		if id, ok := x.old[h]; ok {
			f.known = append(f.known, entry{h, id})
		}
		if !x.full || x.filter.has(h) {
			f.look = append(f.look, h)
		}
	}
	x.flights = append(x.flights, f)
	return nil
}

// rotate makes the young old. The old have all been merged.
func (x *index) rotate() {
	clear(x.old)
	x.young, x.old = x.old, x.young
	x.run = slices.Grow(x.run[:0], len(x.old))
	for h, id := range x.old {
		x.run = append(x.run, entry{h, id})
	}
	slices.SortFunc(x.run, byHash)
	x.upto, x.owed = x.newest, 0
}

func byHash(a, b entry) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.id, b.id)) }

// chunk is the next part of the old to be merged.
type chunk struct {
	entries []entry
	upto    int64 // not 0: with this chunk all events up to this id are in the table
}

// take returns the part of the old to be merged with the insert of n rows: 5 for every 4, so
// that the old are done before the young are as many.
func (x *index) take(n int) chunk {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.owed += n + n/4 + 1
	if x.merging || len(x.run) == 0 {
		return chunk{}
	}
	c := chunk{entries: x.run[:min(x.owed, len(x.run))]}
	if len(c.entries) == len(x.run) {
		c.upto = x.upto
	}
	x.merging = true
	return c
}

// end releases what f holds. If its write was done, the rows of b are stored and c is merged.
func (x *index) end(f *flight, c chunk, written bool, b *batch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range f.hashes {
		delete(x.pending, h)
	}
	if len(c.entries) > 0 {
		x.merging = false
		if written {
			x.run = x.run[len(c.entries):]
			x.owed = max(x.owed-len(c.entries), 0)
			if len(x.run) == 0 {
				clear(x.old)
			}
		}
	}
	if written {
		for _, e := range b.young {
			x.young[e.hash] = e.id
			x.addKey(e.hash) // the hashes of b.direct are in it already
		}
		x.newest = max(x.newest, b.newest)
		x.grow()
	}
	x.flights = slices.DeleteFunc(x.flights, func(g *flight) bool { return g == f })
	close(f.done)
}
