package flow

import (
	"sync/atomic"
	"time"
)

// Where InFlight is not given, an engine holds twice what its lanes can work on at once,
// which keeps them busy. It holds more the faster the work is done: as much as was lately
// done within ahead. Otherwise a source is asked for little at a time, and lanes wait for
// each of its round trips: idle lanes finish twice their number before the source has
// answered. Where the source is slow, or work gives way to requests before each of its calls,
// that is as much as is done within some of its calls: fewer a call would make them more. Of slow
// work the engine holds no more than its lanes need, so that other instances get their share, and
// urgent messages wait behind as little as possible.
const (
	ahead = 25 * time.Millisecond  // urgent messages wait at most this long behind what is held, and behind calls
	calls = 4                      // a message needs two, and the next ones are asked for meanwhile
	far   = 250 * time.Millisecond // and no longer than about this, however slow they are
	few   = 1024                   // as many may be held however few lanes there are: a call of a source then costs little a message
	times = 10                     // of many lanes, this many times the least; more did not make it faster
	most  = 4096                   // and at most this many: leases are kept for all that is held

	// Pace is measured for at least this long, and where the source is slow for as long as some of its
	// calls take: ends come by the call.
	pace = 5 * time.Millisecond

	// Where work becomes slow, what lanes have for more than twice this time goes back to the
	// source: other instances may have time for it, and urgent messages do not wait behind it.
	patience = time.Second
)

// credit is how much an engine may hold.
type credit struct {
	wish atomic.Int64 // what pace asks for
	done atomic.Int64 // messages that came to their end, so far
	call atomic.Int64 // nanoseconds that the source takes to settle, on average of the last few

	// The receiver's own.
	ends lap // how fast messages end
	kept lap // and while lanes have more than they need
}

// lap is since when is measured how much is done, and how much was done by then.
type lap struct {
	since time.Time
	was   int64
}

// next ends the lap, and says how much was done in it, for each d.
func (l *lap) next(now time.Time, done int64, d time.Duration) float64 {
	took, did := now.Sub(l.since), done-l.was
	*l = lap{now, done}
	return float64(did) * float64(d) / float64(took)
}

// widen says how much is held where InFlight is not given.
func (p *Pipeline) widen() {
	p.least = 2 * p.Lanes * p.Batch
	p.InFlight = p.least
	if p.Drop == DropNone {
		p.InFlight = max(p.least, few, min(times*p.least, most))
	}
}

// widens says whether more may be held than lanes need.
func (p *Pipeline) widens() bool { return p.least < p.InFlight }

// settled notes how long the source took to settle. It is the settler's own.
func (c *credit) settled(took time.Duration) {
	const last = 4
	was := c.call.Load()
	c.call.Store(was + (int64(took)-was)/last)
}

// tune measures how fast messages end.
func (e *Engine) tune(now time.Time) {
	c := &e.credit
	slow := calls * time.Duration(c.call.Load())
	if !e.p.widens() || now.Sub(c.ends.since) < min(max(slow, pace), far) {
		return
	}
	wish := c.ends.next(now, c.done.Load(), min(ahead+slow, far))
	c.wish.Store(int64(min(wish, float64(e.p.InFlight))))
}

// grants is how many messages may be held now, given the number of active lanes.
func (e *Engine) grants() int64 {
	workers := e.workers.Load()
	share := e.p.threshold() * float64(workers) / float64(e.p.Lanes)
	least := e.p.least
	if e.p.Hold != nil {
		least = min(least, e.p.Hold())
	}
	n := max(int64(share*float64(least)), workers, min(e.credit.wish.Load(), int64(share*float64(e.p.InFlight))))
	return n + int64(e.reserve)
}

// anew lets the time of what lanes have begin anew, where they had no more than they need.
func (e *Engine) anew(now time.Time) {
	if c := &e.credit; e.p.widens() && e.waiting() <= 2*e.p.least {
		c.kept = lap{now, c.done.Load()}
	}
}

// surplus is how many of the messages that wait in lanes are too many at the pace of the last second.
func (e *Engine) surplus(now time.Time) int {
	c := &e.credit
	if !e.p.widens() || !e.returnable() || e.p.Lane != nil || now.Sub(c.kept.since) < patience {
		return 0
	}
	keep := max(e.p.least, int(c.kept.next(now, c.done.Load(), patience)))
	if waiting := e.waiting(); waiting > 2*keep {
		return waiting - keep
	}
	return 0
}

// shrink gives n messages that wait in lanes back to the source, of the lanes that have most. It
// keeps those that were handed out before: they have waited already.
func (e *Engine) shrink(n int) {
	back := e.shedding[:0]
	for range n {
		l := e.longest()
		t, ok := l.in.TryGet()
		if !ok {
			break
		}
		if t.Handed > 1 {
			l.in.TryPut(t) // it had a place
			continue
		}
		t.giveBack(true, 0)
		back = append(back, t)
	}
	e.finish(back)
	e.shedding = back
}
