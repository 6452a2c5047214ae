package sqlitequeue

import (
	"container/heap"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// line is one queue as this process sees it.
//
// Three turns are taken in this order, and never while mu is held: waiting (to be the one
// who waits for jobs), handing (to choose jobs and hand them out), ending (to change what
// is in the queue's segments).
type line struct {
	no      uint32
	name    string
	held    atomic.Int64 // jobs in the queue, and those on their way in
	waiting *semaphore.Weighted
	handing *semaphore.Weighted
	ending  *semaphore.Weighted
	wake    chan struct{} // cap 1: whoever waits for jobs shall look again

	mu     sync.Mutex
	end    uint64 // position of the newest job that is durable
	cursor uint64 // jobs up to here were read, or are late ones that are not due
	boot   uint64 // jobs up to here may have been handed out before this process began
	top    uint64 // the highest position that was handed out
	mark   uint64 // jobs up to here count as handed out once, should the process die
	epoch  uint32 // of the last hand-out
	epochs uint32 // epochs up to here are used up, should the process die

	ready []item  // read ahead, in order
	back  itemSet // to be handed out again, or come due: all of them before the cursor
	segs  map[uint64]*segment

	outs   map[uint64]*out
	grants map[*grant]struct{}
	expiry time.Time // no lease ends before; zero: none is out
	gate   gate

	late    int64               // rows in queue_late
	hot     map[uint64]struct{} // those of them that are in ready, in back or out
	seen    dueMark             // what came due up to here was looked at
	nextAt  int64               // when the next late job comes due; 0: never
	reading bool                // a page is being read: the cursor is in motion
}

// item is a job that waits for being handed out.
type item struct {
	n       uint64
	seg     *segment // that it is in; nil: it is late
	rec     []byte   // nil: to be read
	tries   int
	handed  int // how often it was handed out so far
	at      int64
	damaged bool
}

// segment is what is to be known of a segment while jobs of it are about.
type segment struct {
	first uint64
	n     int
	ended uint64 // bits of jobs that have left it, durably
	saved bool   // queue_ended has a row
	going uint64 // bits that leave in the stroke being written; whoever has the turn "ending"
}

func (s *segment) bit(n uint64) uint64 { return 1 << (n - s.first) }
func (s *segment) empty(ended uint64) bool {
	return bits.OnesCount64(ended) == s.n
}

// out is a job that is handed out.
type out struct {
	item
	id    string // to be sure when it is settled by its ID alone
	grant *grant
	busy  bool // its end is being written
}

// grant is the lease of what was handed out together.
type grant struct {
	epoch uint32
	owner *source // whose Keep renews it; nil: it was left
	until time.Time
	probe uint32 // the gate's turn that it counts in; 0: none
	jobs  []uint64
	open  int // of jobs, those that are still out under it
}

// gate holds deliveries back.
type gate struct {
	closed bool
	until  time.Time
	probes int
	out    int    // handed out since it closed, and still out
	turn   uint32 // one more at each change, so that those before it are not counted
}

// dueMark is a place in the order of queue_late by time.
type dueMark struct {
	at    int64
	place int64
}

func newLine(no uint32, name string, now time.Time) *line {
	return &line{
		no: no, name: name, wake: make(chan struct{}, 1),
		waiting: semaphore.NewWeighted(1), handing: semaphore.NewWeighted(1), ending: semaphore.NewWeighted(1),
		segs: map[uint64]*segment{}, outs: map[uint64]*out{}, grants: map[*grant]struct{}{}, hot: map[uint64]struct{}{},
		seen: dueMark{at: now.UnixMilli(), place: 1<<63 - 1}, // what is due now is found by position
	}
}

// measure counts what the queue holds, at the start.
func (l *line) measure(tx *sqlitedb.Tx) error {
	var pending int64
	if err := tx.QueryRow(pendingSQL, l.place(0), l.place(placeMask), l.no).Scan(&pending); err != nil {
		return err
	}
	l.held.Store(pending)
	return tx.QueryRow("SELECT count(*), coalesce(min(CASE WHEN at>? THEN at END),0) FROM queue_late WHERE queue=?", l.seen.at, l.no).Scan(&l.late, &l.nextAt)
}

// pendingSQL looks for what a queue holds: what its segments hold, less what has left
// them, and what is late.
const pendingSQL = `SELECT
	(SELECT coalesce(sum(n),0) FROM queue_segment WHERE pos BETWEEN ?1 AND ?2) -
	(SELECT coalesce(sum(gone),0) FROM queue_ended WHERE pos BETWEEN ?1 AND ?2) +
	(SELECT count(*) FROM queue_late WHERE queue=?3)`

// signal lets whoever waits for jobs look again.
func (l *line) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// expire takes back what is out under leases that have ended. mu is held.
func (l *line) expire(now time.Time) {
	if l.expiry.IsZero() || l.expiry.After(now) {
		return
	}
	l.expiry = time.Time{}
	for g := range l.grants { // in any order: back is ordered by position
		if g.until.After(now) {
			l.expires(g.until)
			continue
		}
		var busy []uint64
		for _, n := range g.jobs {
			switch o := l.outs[n]; {
			case o == nil || o.grant != g:
			case o.busy: // whoever writes its end calls expires if that fails
				busy = append(busy, n)
			default:
				l.release(o)
				o.rec = nil
				heap.Push(&l.back, o.item)
			}
		}
		g.jobs = busy
	}
}

// expires notes that a lease ends then.
func (l *line) expires(at time.Time) {
	if l.expiry.IsZero() || at.Before(l.expiry) {
		l.expiry = at
	}
}

// release takes a job from whoever holds it. mu is held.
func (l *line) release(o *out) {
	delete(l.outs, o.n)
	g := o.grant
	if g.probe != 0 && g.probe == l.gate.turn {
		l.gate.out--
		l.signal()
	}
	if g.open--; g.open == 0 {
		delete(l.grants, g)
	}
}

// lease hands items out to a source. mu is held.
func (l *line) lease(items []item, ids []*tidemill.Message, owner *source, now time.Time) *grant {
	l.epoch++
	g := &grant{epoch: l.epoch, owner: owner, until: now.Add(owner.lease), jobs: make([]uint64, len(items)), open: len(items)}
	if l.gate.closed {
		g.probe = l.gate.turn
		l.gate.out += len(items)
	}
	outs := make([]out, len(items)) // one allocation; they end at about the same time
	for i, it := range items {
		it.rec = nil
		it.handed++
		outs[i] = out{item: it, id: ids[i].ID, grant: g}
		l.outs[it.n] = &outs[i]
		g.jobs[i] = it.n
		l.top = max(l.top, it.n)
	}
	l.grants[g] = struct{}{}
	l.expires(g.until)
	return g
}

// leave moves jobs to a lease that nobody renews. mu is held.
func (l *line) leave(left map[*grant][]*out) {
	for g, os := range left { // in any order: each is on its own
		to := &grant{epoch: g.epoch, until: g.until, probe: g.probe, open: len(os)}
		for _, o := range os {
			o.grant = to
			to.jobs = append(to.jobs, o.n)
		}
		l.grants[to] = struct{}{}
		if g.open -= len(os); g.open == 0 {
			delete(l.grants, g)
		}
	}
}

// allowed is how many of n jobs the gate lets out now. mu is held.
func (l *line) allowed(n int, now time.Time) int {
	switch {
	case !l.gate.closed:
		return n
	case l.gate.until.After(now):
		return 0
	}
	return min(n, l.gate.probes-l.gate.out)
}

// next is when time alone will change something, if most jobs may be handed out now;
// zero: never. mu is held.
func (l *line) next(now time.Time, most int) time.Time {
	if l.gate.closed && l.gate.until.After(now) {
		return l.gate.until
	}
	at := l.expiry
	if l.nextAt > 0 && most > 0 {
		if due := time.UnixMilli(l.nextAt); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}

// came takes note of jobs that were added. Those that are due are handed over in memory
// while whoever hands out keeps up; else they are read when their turn comes.
func (l *line) came(p *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	upTo := p.base + uint64(len(p.jobs))
	if l.cursor == p.base && !l.reading && len(p.late) == 0 && len(l.ready) < aheadJobs && p.bytes < pageBytes {
		for _, pc := range p.pieces {
			seg := &segment{first: p.jobs[pc.from].n, n: pc.to - pc.from}
			l.segs[seg.first] = seg
			for _, j := range p.jobs[pc.from:pc.to] {
				l.ready = append(l.ready, item{n: j.n, seg: seg, rec: j.rec})
			}
		}
		l.cursor = upTo
	}
	for _, i := range p.late {
		l.late++
		l.comesAt(p.jobs[i].at)
	}
	l.end = max(l.end, upTo)
	l.signal()
}

// takeUp lets a late job wait to be handed out, unless it does already. mu is held.
func (l *line) takeUp(it item) {
	if _, hot := l.hot[it.n]; !hot {
		l.hot[it.n] = struct{}{}
		heap.Push(&l.back, it)
	}
}

// comesAt notes that a late job comes due then. mu is held.
func (l *line) comesAt(at int64) {
	if l.nextAt == 0 || at < l.nextAt {
		l.nextAt = at
	}
}

// putAt is the time that a job is put off to: in the future of what was looked at for
// jobs that come due, even where the clock went back. 0: at once.
func (l *line) putAt(at time.Time, now time.Time) int64 {
	if !at.After(now) {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(ceilMillis(at), l.seen.at+1)
}

func ceilMillis(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

// itemSet is a heap (container/heap): the oldest first.
type itemSet []item

func (s itemSet) Len() int           { return len(s) }
func (s itemSet) Less(i, j int) bool { return s[i].n < s[j].n }
func (s itemSet) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *itemSet) Push(x any)        { *s = append(*s, x.(item)) }
func (s *itemSet) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = item{}
	*s = (*s)[:last]
	return x
}
