package sqlitequeue

import (
	"encoding/binary"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// group is jobs of a queue that go one after the other, the oldest first. They
// have one priority and tenant or, where keys are kept apart, one key too. A segment holds
// jobs of one group only, so an index finds each group in the file, and only the head of
// its backlog is in memory.
//
// Where order is strict, the jobs of a tenant's key are one ordered group with any priorities. Only
// its first job may be handed out.
type group struct {
	id       string // as in the file
	ordered  bool
	priority uint8 // of all its jobs; each job of an ordered group has its own
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
	asked  bool   // it is among waitingSet.asking
	first  uint64 // the job for which it takes its turns

	peek peek // the first of its jobs that was not read ahead

	leaf  *node // where it takes its turns; nil: nowhere
	index int   // among the groups of that leaf
}

// peek is where a job is, and when it was added; zero: that is not known.
type peek struct {
	n     uint64
	added int64
}

// Kinds of groups, as in the file.
const (
	ofLeaf byte = iota
	ofOrdered
)

// groupName writes the name of a group, as in the columns strand: its queue's number, its kind, its
// priority, the highest first, the length of its tenant, the tenant, the key. The groups of a queue
// are neighbours in the index.
func groupName(b []byte, no uint32, ordered bool, priority uint8, tenant, key string) []byte {
	b = binary.BigEndian.AppendUint32(b, no)
	if ordered {
		b = append(b, ofOrdered, 0)
	} else {
		b = append(b, ofLeaf, ^priority)
	}
	b = binary.AppendUvarint(b, uint64(len(tenant)))
	return append(append(b, tenant...), key...)
}

// groupsFrom is where the names of a queue's groups begin.
func groupsFrom(no uint32) []byte { return binary.BigEndian.AppendUint32(nil, no) }

// readGroup is the inverse of groupName. An invalid name gives a group without a tenant:
// its jobs are handed out anyway.
func readGroup(id []byte) *group {
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
	if s.ordered = id[4] == ofOrdered; !s.ordered {
		s.priority = ^id[5]
	}
	return s
}

// apart says how the jobs of a queue are kept apart.
type apart struct {
	no      uint32 // of the queue
	ordered bool
	keyed   bool
}

func howApart(no uint32, s *queue.Settings) apart { return apart{no, s.Ordered, rules.Keyed(s)} }

// of names the group of a job.
func (a apart) of(b []byte, priority uint8, tenant, key string) []byte {
	ordered := a.ordered && key != ""
	if !ordered && !a.keyed {
		key = ""
	}
	return groupName(b, a.no, ordered, priority, tenant, key)
}

// withKey is the group that a job with that key comes back to.
func (a apart) withKey(s *group, key []byte) *group {
	if !a.keyed || s.ordered || s.key != "" || len(key) == 0 {
		return s
	}
	return readGroup(groupName(nil, a.no, false, s.priority, s.tenant, string(key)))
}

// back is the group that a job of a group comes back to.
func (a apart) back(s *group) *group {
	if s.ordered || s.key == "" || a.keyed {
		return s
	}
	return readGroup(groupName(nil, a.no, false, s.priority, s.tenant, "")) // keys are kept apart no longer
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

// behind says whether a job of an ordered group has to wait for another.
func (s *group) behind(n uint64) bool {
	if s.holder != 0 {
		return s.holder != n
	}
	h := s.head()
	return h == nil || h.n != n
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
	return it == nil || s.ordered || it.n > s.cursor
}

// groupHeap is a heap (container/heap) of the groups of a leaf, the oldest head first.
type groupHeap []*group

func (h groupHeap) Len() int           { return len(h) }
func (h groupHeap) Less(i, j int) bool { return h[i].oldest() < h[j].oldest() }
func (h groupHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *groupHeap) Push(x any) {
	s := x.(*group)
	s.index = len(*h)
	*h = append(*h, s)
}
func (h *groupHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
