package kafkasource

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxAhead is how many offsets behind its watermark a partition's hand-outs may go at most:
// a bit for each is 2 KiB, which takes 2.7 of the 4 KiB that a broker by default allows for
// a commit's metadata.
const maxAhead = 1 << 14

// state of a record in a partition's window.
type state uint8

const (
	unread state = iota // not handed out so far
	out                 // handed out and not settled
	off                 // to come again at its time
	left                // the same, but a late settlement may still end it
	done                // settled, or not a record at all
)

// A slot is the state of one offset.
type slot struct {
	rec    *kgo.Record
	due    time.Time
	epoch  uint32 // of the hand-out
	tries  int32
	handed int32 // by us
	state  state
}

// A partition is everything about one partition, from its assignment until it is taken
// away; then it is discarded as a whole. The order of offsets:
//
//	base … mark … top … next
//	     ended   │    │     └ read so far
//	             │    └ handed out, or found to be no record, so far
//	             └ the oldest that has not ended: what is committed
//
// Between mark and edge the window has a slot for each.
type partition struct {
	id    int32
	epoch uint32
	row   row // books; records that ended ahead of the mark are among them
	ahead int64

	mark, top, next, edge int64
	committed             int64 // the mark that the brokers are known to have
	first                 int64 // the mark when the partition was assigned
	handed                int64 // records below it may have been handed out before that

	window  []slot // a power of two of them, by offset
	waiting []*kgo.Record
	out     int // how many are handed out and not settled

	version, saved uint64 // of what a commit holds: now, and as the brokers are known to have it
	doubts         []doubt
	leaving        bool      // it is being taken away: nothing is handed out
	gone           bool      // it was taken away
	lost           time.Time // gone with doubts: when
	gap            bool      // something ended without a settlement, and is to be committed
}

// A doubt is a commit that was sent and not answered: it may have arrived.
type doubt struct {
	offset  int64
	text    string
	version uint64
}

// maxDoubts bounds what is remembered of commits that were not answered: the newest.
const maxDoubts = 16

// sends notes a commit in flight; false: the same is in doubt already.
func (p *partition) sends(d doubt) bool {
	if slices.Contains(p.doubts, d) {
		return false
	}
	if len(p.doubts) == maxDoubts {
		p.doubts = p.doubts[1:]
	}
	p.doubts = append(p.doubts, d)
	return true
}

// finds reports what the group has committed, once nothing of an older generation can arrive
// any more: if that is one of the doubts, its ends are durable.
func (p *partition) finds(c committed) {
	for _, d := range p.doubts {
		if d.offset == c.offset && d.text == c.text {
			p.saved = max(p.saved, d.version)
		}
	}
	p.doubts = nil
}

func newPartition(id int32, epoch uint32, r row, ahead int64) *partition {
	p := &partition{id: id, epoch: epoch, row: r, ahead: ahead, version: 1,
		mark: r.mark, top: r.mark, next: r.mark, edge: r.mark, committed: r.mark, first: r.mark, handed: r.Handed}
	for _, a := range r.ahead {
		for o := a.from; o < a.to; o++ {
			p.slot(o).state = done
		}
	}
	for _, t := range r.tries {
		for o := t.from; o < t.to; o++ {
			p.slot(o).tries = t.tries
		}
	}
	return p
}

// slot is the slot of an offset from mark on; it is made if need be.
func (p *partition) slot(o int64) *slot {
	if need := o - p.mark + 1; need > int64(len(p.window)) {
		n := max(int64(len(p.window)), 64)
		for n < need {
			n *= 2
		}
		bigger := make([]slot, n)
		for i := p.mark; i < p.edge; i++ {
			bigger[i&(n-1)] = p.window[i&int64(len(p.window)-1)]
		}
		p.window = bigger
	}
	p.edge = max(p.edge, o+1)
	return &p.window[o&int64(len(p.window)-1)]
}

// held is the slot of a hand-out that has not ended, or nil.
func (p *partition) held(o int64, epoch uint32) *slot {
	if o < p.mark || o >= p.top {
		return nil
	}
	if s := p.slot(o); s.epoch == epoch && (s.state == out || s.state == left) {
		return s
	}
	return nil
}

// push takes the next record that was read, in order.
func (p *partition) push(r *kgo.Record) {
	if r.Offset < p.next {
		return // the client read it twice
	}
	p.next = r.Offset + 1
	switch {
	case r.Attrs.IsControl(): // the end of a transaction is not a message
	case r.Offset < p.edge && p.slot(r.Offset).state == done: // settled before we came
	default:
		p.waiting = append(p.waiting, r)
	}
}

// pass skips offsets without a record: offsets that reading skipped are gaps left by
// transactions and compaction.
func (p *partition) pass() {
	to := p.next
	if len(p.waiting) > 0 {
		to = p.waiting[0].Offset
	}
	for p.top < to {
		if p.top == p.mark && p.top >= p.edge { // nothing is held behind: however many
			p.row.Void += uint64(to - p.top)
			p.mark, p.top, p.edge = to, to, to
			p.version++
			p.gap = true
			return
		}
		if p.top >= p.mark+p.ahead {
			return
		}
		if s := p.slot(p.top); s.state != done {
			s.state = done
			p.row.Void++
			p.version++
			p.gap = true
		}
		p.top++
		p.advance()
	}
}

// advance moves the mark up to the oldest that has not ended.
func (p *partition) advance() {
	for p.mark < p.top {
		s := &p.window[p.mark&int64(len(p.window)-1)]
		if s.state != done {
			return
		}
		*s = slot{}
		p.mark++
		p.version++
	}
	p.edge = max(p.edge, p.mark)
}

// full says that hand-outs have to wait for the oldest record to end.
func (p *partition) full() bool {
	return len(p.waiting) > 0 && p.waiting[0].Offset >= p.committed+p.ahead
}

// take hands out the next record that was read, or returns false without one.
func (p *partition) take() (*slot, bool) {
	if p.leaving || len(p.waiting) == 0 || p.full() {
		return nil, false
	}
	p.pass()
	if p.waiting[0].Offset != p.top {
		return nil, false
	}
	s := p.slot(p.top)
	s.rec = p.waiting[0]
	p.waiting[0] = nil
	p.waiting = p.waiting[1:]
	p.top++
	p.hand(s, p.epoch)
	return s, true
}

// hand counts a hand-out.
func (p *partition) hand(s *slot, epoch uint32) {
	s.state, s.epoch = out, epoch
	s.handed++
	p.out++
}

// putOff ends a hand-out without ending its record.
func (p *partition) putOff(s *slot, as state, at time.Time) {
	if s.state == out {
		p.out--
	}
	s.state, s.due = as, at
}

// end ends a record.
func (p *partition) end(s *slot) {
	if s.state == out {
		p.out--
	}
	s.state, s.rec = done, nil
	p.version++
	p.advance()
	p.pass()
}

// handouts is how often a record was handed out, as far as known.
func (p *partition) handouts(o int64, s *slot) int {
	n := int(s.handed)
	switch {
	case o >= p.handed:
	case o == p.first:
		n += max(1, int(p.row.Starts)-1)
	default:
		n++
	}
	return n
}
