package flow

import (
	"sync/atomic"
	"time"
)

// Where InFlight is not given, an engine holds twice what its lanes can work on at once,
// which keeps them busy. It holds more the faster the work is done: as much as was lately
// done within ahead. Otherwise a source is asked for little at a time, and lanes wait for
// each of its round trips: idle lanes finish twice their number before the source has
// answered. Of slow work the engine holds no more than its lanes need, so that other
// instances get their share, and urgent messages wait behind as little as possible.
const (
	ahead = 25 * time.Millisecond // urgent messages wait at most this long behind what is held
	few   = 1024                  // as many may be held however few lanes there are: a call of a source then costs little a message
	times = 10                    // of many lanes, this many times the least; more did not make it faster
	most  = 4096                  // and at most this many: leases are kept for all that is held
	pace  = 5 * time.Millisecond  // is measured for at least this long
)

// credit is how much an engine may hold.
type credit struct {
	wish atomic.Int64 // what pace asks for
	done atomic.Int64 // messages that came to their end, so far

	since time.Time // the receiver's own: when this was measured
	was   int64     // and how much was done by then
}

// widen says how much is held where InFlight is not given.
func (p *Pipeline) widen() {
	p.least = 2 * p.Lanes * p.Batch
	p.InFlight = p.least
	if p.Drop == DropNone {
		p.InFlight = max(p.least, few, min(times*p.least, most))
	}
}

// tune measures how fast messages end.
func (e *Engine) tune(now time.Time) {
	c := &e.credit
	took := now.Sub(c.since)
	if e.p.least == e.p.InFlight || took < pace {
		return
	}
	done := c.done.Load()
	wish := float64(done-c.was) * float64(ahead) / float64(took)
	c.since, c.was = now, done
	c.wish.Store(int64(min(wish, float64(e.p.InFlight))))
}

// grants is how many messages may be held now, given the number of active lanes.
func (e *Engine) grants() int64 {
	workers := e.workers.Load()
	share := e.p.threshold() * float64(workers) / float64(e.p.Lanes)
	n := max(int64(share*float64(e.p.least)), workers, min(e.credit.wish.Load(), int64(share*float64(e.p.InFlight))))
	return n + int64(e.reserve)
}
