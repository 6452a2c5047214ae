package sqlitequeue

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"slices"

	"github.com/tidemill/tidemill/state/queue"
)

// group is jobs of a queue that go one after the other, the oldest first. They
// have one priority and tenant or, where keys are kept apart, one key too. A segment holds
// jobs of one group only, so an index finds each group in the file, and only the head of
// its backlog is in memory.
//
// Where order is strict, the jobs of a tenant's key are a chain: one ordered group with any
// priorities. Only its first job may be handed out.
type group struct {
	id       string // as in the file
	chain    bool
	priority uint8 // of all its jobs; each job of a chain has its own
	tenant   string
	key      string // empty where keys are not kept apart

	ready  []item   // read ahead from segments, in order
	back   itemHeap // handed out before, or come due
	cursor uint64   // its segments up to here were read
	end    uint64   // at or after the beginning of its newest segment

	// Of an ordered group.
	holder uint64 // the job that is handed out, or delayed after that: no other may go; 0: none
	unsure bool   // its late jobs have to be looked up before any may go
	lateTo after  // the file has more of its late jobs, after this one; zero: no more
	asked  bool   // it is among line.asking
	first  uint64 // the job for which it takes its turns

	leaf  *node // where it takes its turns; nil: nowhere
	index int   // among the groups of that leaf
}

// Kinds of groups, as in the file.
const (
	ofLeaf byte = iota
	ofChain
)

// strandOf writes the name of a group: its queue's number, its kind, its priority, the
// highest first, the length of its tenant, the tenant, the key. The groups of a queue are
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

// strandsOf is where the names of a queue's groups begin.
func strandsOf(no uint32) []byte { return binary.BigEndian.AppendUint32(nil, no) }

// readStrand is the inverse of strandOf. An invalid name gives a group without a tenant:
// its jobs are handed out anyway.
func readStrand(id []byte) *group {
	s := &group{id: string(id)}
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

// of names the group of a job.
func (a apart) of(b []byte, no uint32, priority uint8, tenant, key string) []byte {
	chain := a.ordered && key != ""
	if !chain && !a.keyed {
		key = ""
	}
	return strandOf(b, no, chain, priority, tenant, key)
}

// keyed is the group that a job with that key comes back to.
func (l *line) keyed(s *group, key []byte) *group {
	if !l.apart.keyed || s.chain || s.key != "" || len(key) == 0 {
		return s
	}
	return readStrand(strandOf(nil, l.no, false, s.priority, s.tenant, string(key)))
}

// strand returns the group of that name, and makes it in memory at the first call. mu is
// held.
func (l *line) strand(id []byte) *group {
	s := l.strands[string(id)]
	if s == nil {
		s = l.keep(readStrand(id))
	}
	return s
}

// keep adds a group, which may have been forgotten meanwhile, and returns the stored one.
// mu is held.
func (l *line) keep(s *group) *group {
	if is := l.strands[s.id]; is != nil {
		return is
	}
	l.strands[s.id] = s
	if l.unlisted { // the file may have more of it
		s.end = max(s.end, l.end)
		l.relists = true
	}
	s.unsure = s.chain && l.vague && l.late > 0 // jobs that we do not know may come first
	return s
}

// unread says that the file may have more.
func (s *group) unread() bool { return s.cursor < s.end }

// head is the first job in memory, or nil.
func (s *group) head() *item {
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

// oldest is the position of the first job, or an earlier one where that has to be read.
func (s *group) oldest() uint64 {
	if !s.shallow() {
		if it := s.head(); it != nil {
			return it.n
		}
	}
	return s.cursor + 1
}

// shallow says that the first job has to be read: those in memory may come after it.
func (s *group) shallow() bool {
	if !s.unread() || len(s.ready) > 0 {
		return false
	}
	it := s.head()
	return it == nil || s.chain || it.n > s.cursor
}

// pop removes the head. Seat the group afterwards. mu is held.
func (l *line) pop(s *group) (it item) {
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

// popReady removes up to n of the jobs that were read ahead. Copy and clear them. mu is
// held.
func (l *line) popReady(s *group, n int) []item {
	n = min(n, len(s.ready))
	some := s.ready[:n:n]
	if s.ready = s.ready[n:]; len(s.ready) == 0 {
		s.ready = nil // its memory is free when they are gone
	}
	l.ahead -= n
	return some
}

// push lets a job wait in its group, in its old place. mu is held.
func (l *line) push(it item) {
	if l.backs[it.n] != nil {
		return
	}
	if s := it.strand; !s.chain && s.key != "" && !l.apart.keyed { // keys are kept apart no longer
		it.strand = readStrand(strandOf(nil, l.no, false, s.priority, s.tenant, ""))
	}
	l.pushBack(it)
}

// pushBack lets a job wait in that group. mu is held.
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

// becomesLate lets a waiting job keep its place when it has left its segment. mu is held.
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

// unready removes a segment's job from those that were read ahead, if it is one of them, and
// from the counts. mu is held.
func (l *line) unready(it *item) {
	s := it.strand
	if at, found := slices.BinarySearchFunc(s.ready, it.n, func(r item, n uint64) int { return cmp.Compare(r.n, n) }); found {
		s.ready = slices.Delete(s.ready, at, at+1)
		l.ahead--
	}
	l.tally(s, it, -1)
}

// unwait removes a job that is not handed out from where it waits in memory. mu is held.
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

// seat lets a group take its turns where its head belongs, or nowhere. mu is held.
func (l *line) seat(s *group) {
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

// leafOf is where a group may take turns now; nil: nowhere.
func (l *line) leafOf(s *group) *node {
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

// forget drops a group from memory. It is found in the file again. mu is held, and its caller
// has the turn "handing", or the group takes no turns.
func (l *line) forget(s *group) {
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

// unseat removes a group from its turns. mu is held.
func (l *line) unseat(s *group) {
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

// strandHeap is a heap (container/heap) of the groups of a leaf, the oldest head first.
type strandHeap []*group

func (h strandHeap) Len() int           { return len(h) }
func (h strandHeap) Less(i, j int) bool { return h[i].oldest() < h[j].oldest() }
func (h strandHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *strandHeap) Push(x any) {
	s := x.(*group)
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
