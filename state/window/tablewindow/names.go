package tablewindow

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/window/internal/blob"
)

// maxNames is how many names are in memory, about 11 bytes each. Beyond it those of the window that
// was put into last are, and no others.
const maxNames = 1 << 20

// names are where active windows may have their records, by the keys of the windows.
type names struct {
	mu    sync.Mutex // guards what follows
	of    map[string]*named
	count int
}

// named are the names of a window in its blobs up to the last: a table of slots, each with 32 bits of
// a digest and the number of a blob. Where a name's slot is taken it has the next one that is free.
type named struct {
	revision, last uint64
	slots          []uint64
	n              int // slots that are taken
}

// slot is where to begin to look for the bits of a digest.
func (n *named) slot(bits uint64) int { return int(bits * uint64(len(n.slots)) >> 32) }

func bitsOf(d blob.Digest) uint64 { return uint64(binary.BigEndian.Uint32(d[:])) }

// add notes that a blob has a name.
func (n *named) add(bits, no uint64) {
	if n.n >= len(n.slots)-len(n.slots)/8 {
		old := n.slots
		n.slots, n.n = make([]uint64, len(old)+len(old)/2+16), 0
		for _, s := range old {
			if s != 0 {
				n.add(s>>32, s&(1<<32-1))
			}
		}
	}
	i := n.slot(bits)
	for n.slots[i] != 0 {
		i = (i + 1) % len(n.slots)
	}
	n.slots[i] = bits<<32 | no
	n.n++
}

// find notes which blobs may have a name.
func (n *named) find(bits uint64, in map[uint64]bool) {
	if n.n == 0 {
		return
	}
	for i := n.slot(bits); n.slots[i] != 0; i = (i + 1) % len(n.slots) {
		if n.slots[i]>>32 == bits {
			in[n.slots[i]&(1<<32-1)] = true
		}
	}
}

// find says which blobs of its window may have names of a put. It reads the names of blobs that it
// does not know yet: they were put by others, before a restart, or long ago.
func (s *names) find(tx table.Reader[Blob], p *put) (keys []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.of[p.key]
	if n == nil || n.revision != p.r.Revision {
		s.forget(p.key)
		n = &named{revision: p.r.Revision}
		s.of[p.key] = n
	}
	var unknown []string
	for no := n.last + 1; no <= p.r.blobs; no++ {
		unknown = append(unknown, blobKey(n.revision, no))
	}
	found, err := tx.Get(unknown, "names")
	if err != nil {
		return nil, err
	}
	for _, key := range unknown {
		s.add(n, found[key])
	}
	in := map[uint64]bool{}
	for _, d := range p.Digest {
		n.find(bitsOf(d), in)
	}
	for _, no := range slices.Sorted(maps.Keys(in)) {
		keys = append(keys, blobKey(n.revision, no))
	}
	return keys, nil
}

// add notes the names of the next blob; nil: it is gone.
func (s *names) add(n *named, b *Blob) {
	s.count -= n.n
	n.last++
	if b != nil {
		for d := range blob.Names(b.names) {
			n.add(bitsOf(d), n.last)
		}
	}
	s.count += n.n
}

// added notes the blobs of a put that was committed, unless a later one has read them.
func (s *names) added(p *put) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.of[p.key]; n != nil && n.revision == p.r.Revision {
		for _, b := range p.rows {
			if blobNo(b.key) == n.last+1 {
				s.add(n, b)
			}
		}
	}
	for other := range s.of {
		if s.count > maxNames && other != p.key {
			s.forget(other)
		}
	}
}

// forget forgets the names of a window.
func (s *names) forget(key string) {
	if n := s.of[key]; n != nil {
		s.count -= n.n
		delete(s.of, key)
	}
}

// closed forgets the names of windows that are not active any more.
func (s *names) closed(keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		s.forget(key)
	}
}
