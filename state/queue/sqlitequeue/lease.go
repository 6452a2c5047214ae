package sqlitequeue

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// leases is the jobs of a queue that are handed out, and under which lease each is. Every job
// in outs is counted in its lease, and against the limits; a lease without such a job is gone.
// It knows no waiting job: one that has to wait again is returned.
type leases struct {
	wake   waker // told when a limit or the gate lets more go
	outs   map[uint64]*out
	grants map[*grant]struct{}
	expiry time.Time // no lease ends before; zero: none is handed out
	epoch  uint32    // of the last hand-out
	gate   gate
	limits
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

// allows is how many of n jobs may be handed out now.
func (g *gate) allows(n int, now time.Time) int {
	switch {
	case !g.closed:
		return n
	case g.until.After(now):
		return 0
	}
	return min(n, g.probes-g.out)
}

// set closes the gate until then, or opens it.
func (g *gate) set(until time.Time, probes int) {
	*g = gate{closed: !until.IsZero(), until: until, probes: probes, turn: g.turn + 1}
}

// setLimits takes over settings: jobs that are handed out count for their limits from now on.
func (ls *leases) setLimits(s *queue.Settings) {
	if ls.limits.set(s); !ls.counts {
		return
	}
	for _, o := range ls.outs { // in any order: they are only counted
		if !o.counted {
			o.counted = true
			ls.bound(&o.item, 1)
		}
	}
}

// expire takes back jobs under leases that have ended, the first to end first.
func (ls *leases) expire(now time.Time) []*out {
	if ls.expiry.IsZero() || ls.expiry.After(now) {
		return nil
	}
	ls.expiry = time.Time{}
	var ended []*out
	for g := range ls.grants { // in any order: sorted below
		if g.until.After(now) {
			ls.noteExpiry(g.until)
			continue
		}
		var busy []uint64
		for _, n := range g.jobs {
			switch o := ls.outs[n]; {
			case o == nil || o.grant != g:
			case o.busy: // the writer of its end calls noteExpiry if that fails
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
		ls.release(o)
	}
	return ended
}

// noteExpiry notes that a lease ends then.
func (ls *leases) noteExpiry(at time.Time) {
	if ls.expiry.IsZero() || at.Before(ls.expiry) {
		ls.expiry = at
	}
}

// release takes a job from its holder.
func (ls *leases) release(o *out) {
	delete(ls.outs, o.n)
	g := o.grant
	if g.probe != 0 && g.probe == ls.gate.turn {
		ls.gate.out--
		ls.wake.signal()
	}
	if o.counted || ls.settings.Limit.AtOnce > 0 {
		ls.uncount(&o.item)
		ls.wake.signal()
	}
	if g.open--; g.open == 0 {
		delete(ls.grants, g)
	}
}

// lease hands items out to a source.
func (ls *leases) lease(items []item, ids []*tidemill.Message, owner *source, now time.Time) *grant {
	ls.epoch++
	g := &grant{epoch: ls.epoch, owner: owner, until: now.Add(owner.lease), jobs: make([]uint64, len(items)), open: len(items)}
	if ls.gate.closed {
		g.probe = ls.gate.turn
		ls.gate.out += len(items)
	}
	outs := make([]out, len(items)) // one allocation; they end at about the same time
	for i, it := range items {
		it.rec = nil
		it.handed++
		outs[i] = out{item: it, id: ids[i].ID, grant: g}
		ls.outs[it.n] = &outs[i]
		g.jobs[i] = it.n
	}
	ls.grants[g] = struct{}{}
	ls.noteExpiry(g.until)
	return g
}

// renew lets the leases of a source go on until then, except those that have ended.
func (ls *leases) renew(owner *source, now, until time.Time) {
	for g := range ls.grants { // each on its own: in any order
		if g.owner == owner && g.until.After(now) {
			g.until = until
		}
	}
}

// claim keeps a handed-out job from others while its end is written; nil: it is not handed out
// under that mark.
func (ls *leases) claim(m tidemill.Mark) *out {
	o := ls.outs[m.Lo]
	if o == nil || o.busy || o.grant.epoch != m.Epoch {
		return nil
	}
	o.busy = true
	return o
}

// claimNamed does the same for a job of an ID. held says that the job is handed out, to any.
func (ls *leases) claimNamed(n uint64, id string) (claimed *out, held bool) {
	o := ls.outs[n]
	if o == nil || o.busy || o.id != id {
		return nil, o != nil
	}
	o.busy = true
	return o, true
}

// unclaim gives back a claimed job.
func (ls *leases) unclaim(o *out) {
	if o.busy {
		o.busy = false
		ls.noteExpiry(o.grant.until)
	}
}

// leave moves jobs to a lease that is not renewed.
func (ls *leases) leave(left map[*grant][]*out) {
	for g, os := range left { // in any order: each is on its own
		to := &grant{epoch: g.epoch, until: g.until, probe: g.probe, open: len(os)}
		for _, o := range os {
			o.grant = to
			to.jobs = append(to.jobs, o.n)
		}
		ls.grants[to] = struct{}{}
		if g.open -= len(os); g.open == 0 {
			delete(ls.grants, g)
		}
	}
}
