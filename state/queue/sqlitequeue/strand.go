package sqlitequeue

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"slices"

	"github.com/tidemill/tidemill/state/queue"
)

// strand is jobs of a queue that go one after the other, the oldest first: the jobs of one
// priority and tenant or, where keys are kept apart, of one key of theirs. Segments hold
// jobs of one strand only, so each strand is found in the file by an index, and of its
// backlog no more is in memory than its head.
//
// Where order is strict, the jobs of a tenant's key are a chain: one strand whatever their
// priority, of which only the first may be out.
type strand struct {
	id       string // as it is in the file
	chain    bool
	priority uint8 // of all its jobs; of a chain each has its own
	tenant   string
	key      string // empty where keys are not kept apart

	ready  []item   // read ahead from segments, in order
	back   itemHeap // handed out before, or come due
	cursor uint64   // its segments up to here were read
	end    uint64   // where its newest segment begins, or after that

	// Of a chain.
	holder uint64 // the job that is out, or put off after it was: nobody else may go; 0: none
	unsure bool   // its late jobs have to be looked up before anybody may go
	lateTo after  // more of its late jobs are in the file, after this one; zero: no more
	asked  bool   // it is among line.asking
	first  uint64 // the job for which it takes its turns

	leaf  *node // where it takes its turns; nil: nowhere
	index int   // among the strands of that leaf
}

// Kinds of strands, as they are in the file.
const (
	ofLeaf byte = iota
	ofChain
)

// strandOf writes the name of a strand: its queue's number, its kind, its priority, the
// highest first, the length of its tenant, the tenant, the key. The strands of a queue are
// neighbours in the index.
func strandOf(b []byte, no uint32, chain bool, priority uint8, tenant, key string) []byte {
	b = binary.BigEndian.AppendUint32(b, no)
	if chain {
		b = append(b, ofChain, 0)
	} else {
		b = append(b, ofLeaf, ^priority)
	}
	b = binary.AppendUvarint(b, uint64(len(tenant)))
	return append(append(b, tenant...), key...)
}

// strandsOf is where the names of a queue's strands begin.
func strandsOf(no uint32) []byte { return binary.BigEndian.AppendUint32(nil, no) }

// readStrand is the inverse of strandOf. What is no name is nobody's strand: its jobs are
// handed out all the same.
func readStrand(id []byte) *strand {
	s := &strand{id: string(id)}
	if len(id) < 7 {
		return s
	}
	n, size := binary.Uvarint(id[6:])
	rest := id[6:]
	if size <= 0 || n > uint64(len(rest)-size) {
		return s
	}
	rest = rest[size:]
	s.tenant, s.key = string(rest[:n]), string(rest[n:])
	if s.chain = id[4] == ofChain; !s.chain {
		s.priority = ^id[5]
	}
	return s
}

// apart says how the jobs of a queue are kept apart.
type apart struct{ ordered, keyed bool }

func howApart(s *queue.Settings) apart { return apart{s.Ordered, s.Keyed()} }

// of says which strand a job belongs to.
func (a apart) of(b []byte, no uint32, priority uint8, tenant, key string) []byte {
	chain := a.ordered && key != ""
	if !chain && !a.keyed {
		key = ""
	}
	return strandOf(b, no, chain, priority, tenant, key)
}

// keyed is the strand that a job with that key comes back to.
func (l *line) keyed(s *strand, key []byte) *strand {
	if !l.apart.keyed || s.chain || s.key != "" || len(key) == 0 {
		return s
	}
	return readStrand(strandOf(nil, l.no, false, s.priority, s.tenant, string(key)))
}

// strand returns the strand of that name, which begins to exist in memory when it is named.
// mu is held.
func (l *line) strand(id []byte) *strand {
	s := l.strands[string(id)]
	if s == nil {
		s = l.keep(readStrand(id))
	}
	return s
}

// keep puts a strand, which may have been forgotten meanwhile, where it is found, and
// returns the one that is there. mu is held.
func (l *line) keep(s *strand) *strand {
	if is := l.strands[s.id]; is != nil {
		return is
	}
	l.strands[s.id] = s
	if l.unlisted { // the file may hold more of it
		s.end = max(s.end, l.end)
		l.relists = true
	}
	s.unsure = s.chain && l.vague && l.late > 0 // somebody may be before those that we know of
	return s
}

// unread says that there may be more in the file.
func (s *strand) unread() bool { return s.cursor < s.end }

// head is the first of those in memory, or nil.
func (s *strand) head() *item {
	switch {
	case len(s.ready) == 0 && len(s.back) == 0:
		return nil
	case len(s.ready) == 0:
		return s.back[0]
	case len(s.back) > 0 && s.back[0].after().less(s.ready[0].after()):
		return s.back[0]
	}
	return &s.ready[0]
}

// oldest is the position of the first job, or of one before it where that has to be read.
func (s *strand) oldest() uint64 {
	if !s.shallow() {
		if it := s.head(); it != nil {
			return it.n
		}
	}
	return s.cursor + 1
}

// shallow says that the first job has to be read: those in memory need not be before it.
func (s *strand) shallow() bool {
	if !s.unread() || len(s.ready) > 0 {
		return false
	}
	it := s.head()
	return it == nil || s.chain || it.n > s.cursor
}

// pop takes the head off. The strand is to be seated afterwards. mu is held.
func (l *line) pop(s *strand) (it item) {
	if h := s.head(); len(s.back) > 0 && h == s.back[0] {
		heap.Pop(&s.back)
		delete(l.backs, h.n)
		return *h
	}
	first := l.popReady(s, 1)
	it = first[0]
	clear(first)
	return it
}

// popReady takes up to n of those off that were read ahead. They are to be
// copied and cleared. mu is held.
func (l *line) popReady(s *strand, n int) []item {
	n = min(n, len(s.ready))
	some := s.ready[:n:n]
	if s.ready = s.ready[n:]; len(s.ready) == 0 {
		s.ready = nil // its memory is free when they are gone
	}
	l.ahead -= n
	return some
}

// push lets a job wait in its strand, in its old place. mu is held.
func (l *line) push(it item) {
	if l.backs[it.n] != nil {
		return
	}
	if s := it.strand; !s.chain && s.key != "" && !l.apart.keyed { // keys are kept apart no longer
		it.strand = readStrand(strandOf(nil, l.no, false, s.priority, s.tenant, ""))
	}
	l.pushBack(it)
}

// pushBack lets a job wait in that very strand. mu is held.
func (l *line) pushBack(it item) {
	s := l.keep(it.strand)
	p := &it
	p.strand = s
	if s.holder == p.n {
		s.holder = 0
	}
	l.backs[p.n] = p
	heap.Push(&s.back, p)
	l.tally(s, p, 1)
	l.seat(s)
	l.signal()
}

// becomesLate lets a job that waits keep its place when it has left its segment. mu is held.
func (l *line) becomesLate(it *item) {
	if w := l.backs[it.n]; w != nil {
		w.seg, w.rec = nil, nil
		l.hot[it.n] = struct{}{}
		return
	}
	l.unready(it)
	it.seg, it.rec = nil, nil
	l.hot[it.n] = struct{}{}
	l.pushBack(*it)
}

// unready takes a job of a segment from those that were read ahead, if it is among them, and
// is no longer counted. mu is held.
func (l *line) unready(it *item) {
	s := it.strand
	if at, found := slices.BinarySearchFunc(s.ready, it.n, func(r item, n uint64) int { return cmp.Compare(r.n, n) }); found {
		s.ready = slices.Delete(s.ready, at, at+1)
		l.ahead--
	}
	l.tally(s, it, -1)
}

// unwait takes a job that is not out from wherever it waits in memory. mu is held.
func (l *line) unwait(it *item) {
	s := it.strand
	if is := l.strands[s.id]; is != nil {
		s, it.strand = is, is
	}
	if p := l.backs[it.n]; p != nil {
		s = p.strand
		heap.Remove(&s.back, int(p.index))
		delete(l.backs, it.n)
		l.tally(s, p, -1)
	} else if it.seg != nil {
		l.unready(it)
	}
	if s.holder == it.n {
		s.holder = 0
	}
	if s.chain && s.first == it.n { // the next one waits for its own turn
		l.unseat(s)
	}
	l.seat(s)
}

// seat lets a strand take its turns where its head belongs, or nowhere. mu is held.
func (l *line) seat(s *strand) {
	leaf := l.leafOf(s)
	if s.leaf != leaf {
		l.unseat(s)
		if leaf != nil {
			s.leaf = leaf
			heap.Push(&leaf.strands, s)
			leaf.enter()
		}
	} else if leaf != nil && len(leaf.strands) > 1 {
		heap.Fix(&leaf.strands, s.index)
	}
	if s.leaf == nil && !s.asked && s.holder == 0 && len(s.ready)+len(s.back) == 0 && !s.unread() && !s.unsure {
		delete(l.strands, s.id)
	}
}

// leafOf is where a strand may take turns now; nil: nowhere.
func (l *line) leafOf(s *strand) *node {
	priority := s.priority
	if s.chain {
		if s.holder != 0 {
			return nil
		}
		it := s.head()
		if s.unsure || s.shallow() || it != nil && s.lateTo != (after{}) && s.lateTo.less(it.after()) {
			l.ask(s)
			return nil
		}
		if it == nil {
			if s.lateTo != (after{}) {
				l.ask(s)
			}
			return nil
		}
		if priority = it.priority; s.leaf != nil && s.first == it.n {
			return s.leaf
		}
		s.first = it.n
	} else if len(s.ready)+len(s.back) == 0 && !s.unread() {
		return nil
	} else if s.leaf != nil {
		return s.leaf
	}
	key := s.key
	if s.chain && !l.apart.keyed {
		key = ""
	}
	return l.level(priority).kid(s.tenant).kid(key)
}

// forget drops what is in memory of a strand. It is found in the file again. mu is held, and its
// caller has the turn "handing", or the strand takes no turns.
func (l *line) forget(s *strand) {
	if s.asked || len(s.back) > 0 {
		return
	}
	l.unseat(s)
	l.ahead -= len(s.ready)
	if len(s.ready) > 0 || s.unread() {
		l.unlisted, l.missed, l.relists = true, true, true
	}
	s.ready, l.vague = nil, true
	delete(l.strands, s.id)
}

// unseat takes a strand out of its turns. mu is held.
func (l *line) unseat(s *strand) {
	if s.leaf == nil {
		return
	}
	leaf := s.leaf
	heap.Remove(&leaf.strands, s.index)
	s.leaf = nil
	if len(leaf.strands) == 0 {
		leaf.exit()
	}
}

// strandHeap is a heap (container/heap) of the strands of a leaf, the oldest head first.
type strandHeap []*strand

func (h strandHeap) Len() int           { return len(h) }
func (h strandHeap) Less(i, j int) bool { return h[i].oldest() < h[j].oldest() }
func (h strandHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *strandHeap) Push(x any) {
	s := x.(*strand)
	s.index = len(*h)
	*h = append(*h, s)
}
func (h *strandHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
