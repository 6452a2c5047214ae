package sqlitequeue

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// segment is the state of a segment while jobs of it are in memory.
type segment struct {
	first uint64
	n     int
	ended uint64 // bits of jobs that have left it, durably
	saved bool   // queue_ended has a row
	going uint64 // bits that leave in the transaction being written; guarded by the turn "ending"
}

func (s *segment) bit(n uint64) uint64 { return 1 << (n - s.first) }
func (s *segment) empty(ended uint64) bool {
	return bits.OnesCount64(ended) == s.n
}

// out is a job that is handed out.
type out struct {
	item
	id    string // checked when it is settled by its ID alone
	grant *grant
	busy  bool // its end is being written
}

// grant is the lease of jobs that were handed out together.
type grant struct {
	epoch uint32
	owner *source // its Keep renews it; nil: it was left
	until time.Time
	probe uint32 // the gate's turn that it counts in; 0: none
	jobs  []uint64
	open  int // number of jobs still handed out under it
}

// gate holds deliveries back.
type gate struct {
	closed bool
	until  time.Time
	probes int
	out    int    // handed out since it closed, and not ended
	turn   uint32 // one more at each change, so that earlier hand-outs are not counted
}

// expire takes back jobs under leases that have ended. mu is held.
func (l *line) expire(now time.Time) {
	if l.expiry.IsZero() || l.expiry.After(now) {
		return
	}
	l.expiry = time.Time{}
	var ended []*out
	for g := range l.grants { // in any order: sorted below
		if g.until.After(now) {
			l.expires(g.until)
			continue
		}
		var busy []uint64
		for _, n := range g.jobs {
			switch o := l.outs[n]; {
			case o == nil || o.grant != g:
			case o.busy: // the writer of its end calls expires if that fails
				busy = append(busy, n)
			default:
				ended = append(ended, o)
			}
		}
		g.jobs = busy
	}
	slices.SortFunc(ended, func(a, b *out) int {
		return cmp.Or(a.grant.until.Compare(b.grant.until), cmp.Compare(a.n, b.n))
	})
	for _, o := range ended {
		l.release(o)
		if o.past = nil; o.strand.chain {
			o.due = firstDue
		}
		l.push(o.item)
	}
}

// expires notes that a lease ends then.
func (l *line) expires(at time.Time) {
	if l.expiry.IsZero() || at.Before(l.expiry) {
		l.expiry = at
	}
}

// release takes a job from its holder. mu is held.
func (l *line) release(o *out) {
	delete(l.outs, o.n)
	g := o.grant
	if g.probe != 0 && g.probe == l.gate.turn {
		l.gate.out--
		l.signal()
	}
	if o.counted || l.settings.Limit.AtOnce > 0 {
		l.uncount(&o.item)
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
	}
	l.grants[g] = struct{}{}
	l.expires(g.until)
	return g
}

// leave moves jobs to a lease that is not renewed. mu is held.
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
	case l.settings.Paused:
		return 0
	case !l.gate.closed:
		return n
	case l.gate.until.After(now):
		return 0
	}
	return min(n, l.gate.probes-l.gate.out)
}
