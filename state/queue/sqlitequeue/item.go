package sqlitequeue

// after is a position in an ordered group.
type after struct {
	due int64
	n   uint64
}

// firstDue is when the first of an ordered group joined it, once it was handed out: before
// all others.
const firstDue = 1

// item is a job that waits to be handed out, or is handed out.
type item struct {
	n        uint64
	seg      *segment // its segment; nil: it is late
	group    *group
	rec      []byte // nil: to be read
	past     *past  // of a late job whose record is read, or that is handed out; nil: none
	at       int64
	due      int64 // in an ordered group: when it joined; else 0
	tries    int32
	handed   int32 // how often it was handed out so far
	index    int32 // in group.back
	priority uint8 // in an ordered group
	damaged  bool
	counted  bool // handed out, and counts for the bounds of its tenant
	keyed    bool // and of its key
}

// past is a job's failed tries.
type past struct {
	failures []byte
	cause    []byte // of the last one
}

// failures are those of its past.
func (it *item) failures() []byte {
	if it.past == nil {
		return nil
	}
	return it.past.failures
}

func (it *item) after() after { return after{it.due, it.n} }

func (a after) less(b after) bool { return a.due < b.due || a.due == b.due && a.n < b.n }

// itemHeap is a heap (container/heap) of waiting jobs, the first to go first. Each knows
// its index.
type itemHeap []*item

func (h itemHeap) Len() int           { return len(h) }
func (h itemHeap) Less(i, j int) bool { return h[i].after().less(h[j].after()) }
func (h itemHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j)
}
func (h *itemHeap) Push(x any) {
	it := x.(*item)
	it.index = int32(len(*h))
	*h = append(*h, it)
}
func (h *itemHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
