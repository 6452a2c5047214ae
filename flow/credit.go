package flow

import (
	"sync/atomic"
	"time"
)

// Where InFlight is not given, an engine holds what keeps its lanes busy, twice what they
// can work on at once, and more the faster that is done: as much as was lately done within
// ahead. A source is asked for little at a time otherwise, and lanes wait for it, round trip
// for round trip: lanes that do nothing are done with twice their number before the source
// has answered. Of slow work no more is held than its lanes need, so that other instances
// get their share, and so that what is urgent waits behind as little as may be.
const (
	ahead = 25 * time.Millisecond // what is urgent waits so long at the most behind what is held
	times = 10                    // the least, at the most; more did not make it faster
	most  = 4096                  // and not more than that: leases are kept for all that is held
	pace  = 5 * time.Millisecond  // is measured for so long at the least
)

// credit is how much an engine may hold.
type credit struct {
	wish atomic.Int64 // what pace asks for
	done atomic.Int64 // messages that came to their end, so far

	since time.Time // the door in's own: when this was measured
	was   int64     // and what was done by then
}

// widen says how much is held where InFlight is not given.
func (p *Pipeline) widen() {
	p.least = 2 * p.Lanes * p.Batch
	p.InFlight = p.least
	if p.Drop == DropNone {
		p.InFlight = max(p.least, min(times*p.least, most))
	}
}

// tune measures how fast messages come to their end.
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

// grants is how many messages may be held now, by how many lanes get some.
func (e *Engine) grants() int64 {
	workers := e.workers.Load()
	share := e.p.threshold() * float64(workers) / float64(e.p.Lanes)
	n := max(int64(share*float64(e.p.least)), workers, min(e.credit.wish.Load(), int64(share*float64(e.p.InFlight))))
	return n + int64(e.reserve)
}
