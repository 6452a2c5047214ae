package policy

import (
	"fmt"
	"time"
)

// Breaker says when a destination is left alone and how it is tried again. It opens after
// Fails failures in a row, or at a Rate of failures in a Window; either may be off. The
// zero value never opens by itself.
type Breaker struct {
	Fails  int           // failures in a row that open it; 0: not by this
	Rate   float64       // share of failures that opens it, above 0 to 1; 0: not by this
	Volume int           // with Rate: not before this many results in the window; 0: 20
	Window time.Duration // with Rate: judged over this time, in 10 buckets; 0: 10 s
	Open   time.Duration // the cool-down: nothing is tried for this long; 0: 30 s
	Jitter float64       // share of Open added at random, so that instances do not return together; 0: 0.1; below 0: none
	Probes int           // messages tried at once after the cool-down; 0: 1
	Closes int           // successes in a row that close it; 0: 1
}

// Check refuses invalid settings.
func (b Breaker) Check() error {
	switch {
	case b.Fails < 0, b.Volume < 0, b.Probes < 0, b.Closes < 0, b.Open < 0, b.Window < 0:
		return fmt.Errorf("breaker: a number below zero in %+v", b)
	case !(b.Rate >= 0 && b.Rate <= 1): // what is no number is not
		return fmt.Errorf("breaker: rate %v: want a share from 0 to 1", b.Rate)
	}
	return nil
}

// defaults fills in what is zero.
func (b Breaker) defaults() Breaker {
	set(&b.Volume, 20)
	set(&b.Window, 10*time.Second)
	set(&b.Open, 30*time.Second)
	set(&b.Jitter, 0.1)
	set(&b.Probes, 1)
	set(&b.Closes, 1)
	b.Jitter = max(b.Jitter, 0)
	return b
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// State of a circuit.
type State uint8

const (
	Closed   State = iota // all may pass
	Open                  // none may pass
	HalfOpen              // a few probes may, and decide
)

// String returns the state as it is written in metrics and answers.
func (s State) String() string { return [...]string{"closed", "open", "half-open"}[min(s, HalfOpen)] }

// A Circuit is the state of one Breaker. It is not safe for concurrent use.
//
//	          fails in a row, or rate           cool-down over
//	closed ────────────────────────────▶ open ─────────────────▶ half-open
//	   ▲                                   ▲                       │   │
//	   │                                   └──── one failure ──────┘   │
//	   └─────────────────────── successes in a row ────────────────────┘
type Circuit struct {
	b       Breaker
	state   State
	gen     uint64    // of the state: results of an older one are ignored
	until   time.Time // open: the cool-down's end
	hold    time.Time // nothing passes before, whatever the state: the destination asked for less
	inARow  int       // closed: failures; half-open: successes
	probing int       // half-open: permits in use
	buckets [windowBuckets]bucket
}

const windowBuckets = 10

type bucket struct {
	at         int64 // number of the bucket since the epoch
	ok, failed int
}

// Circuit makes a closed circuit.
func (b Breaker) Circuit() *Circuit { return &Circuit{b: b.defaults()} }

// Breaker returns the settings, defaults filled in.
func (c *Circuit) Breaker() Breaker { return c.b }

// A Pass is the permission to try N messages.
type Pass struct {
	N     int
	Probe bool   // they decide whether the circuit closes
	gen   uint64 // of the state it was granted in
}

// Enter asks to try n messages. It grants a pass for some of them, or for none, and says
// how long to wait before asking again: an open circuit grants none, a half-open one at
// most as many as it has free probes. Give every pass of at least one message back to
// Leave.
func (c *Circuit) Enter(now time.Time, n int) (Pass, time.Duration) {
	c.look(now)
	switch {
	case now.Before(c.hold):
		return Pass{}, c.hold.Sub(now)
	case c.state == Open:
		return Pass{}, c.until.Sub(now)
	case c.state == HalfOpen:
		n = min(n, c.b.Probes-c.probing)
		if n <= 0 {
			return Pass{}, max(c.b.Open/8, time.Millisecond) // a probe decides earlier, and wakes
		}
		c.probing += n
	}
	return Pass{N: n, Probe: c.state == HalfOpen, gen: c.gen}, 0
}

// Leave takes the results of a pass: how many of its messages the destination took, and how
// many failures are the destination's own; the other messages say nothing about it. It
// returns whether the state changed. Results of an older state change nothing.
func (c *Circuit) Leave(now time.Time, p Pass, ok, failed int, random float64) (changed bool) {
	if p.gen != c.gen {
		return false
	}
	switch c.state {
	case HalfOpen:
		c.probing -= p.N
		if failed > 0 {
			c.Trip(now, c.cool(random))
			return true
		}
		if c.inARow += ok; c.inARow >= c.b.Closes {
			c.Reset()
			return true
		}
	case Closed:
		c.count(now, ok, failed)
		if ok > 0 {
			c.inARow = 0
		} else if failed > 0 {
			c.inARow++
		}
		if failed > 0 && (c.b.Fails > 0 && c.inARow >= c.b.Fails || c.overRate(now)) {
			c.Trip(now, c.cool(random))
			return true
		}
	}
	return false
}

// Trip opens the circuit for a time, whatever its state: by hand, or because the
// destination refuses us altogether.
func (c *Circuit) Trip(now time.Time, d time.Duration) {
	c.turn(Open)
	c.until = now.Add(d)
}

// Reset closes the circuit and forgets what it counted.
func (c *Circuit) Reset() {
	c.turn(Closed)
	c.hold = time.Time{}
	c.buckets = [windowBuckets]bucket{}
}

// Hold lets nothing pass before until: the destination asked for less. It is not a failure
// and changes no state; a time earlier than the current hold is ignored.
func (c *Circuit) Hold(until time.Time) {
	if until.After(c.hold) {
		c.hold = until
	}
}

// State returns the state now, and until when nothing passes (the zero time: messages may
// pass).
func (c *Circuit) State(now time.Time) (State, time.Time) {
	c.look(now)
	var until time.Time
	if c.state == Open {
		until = c.until
	}
	if now.Before(c.hold) && c.hold.After(until) {
		until = c.hold
	}
	return c.state, until
}

// Permits is how many messages may be asked for now: -1 is any number.
func (c *Circuit) Permits(now time.Time) int {
	switch s, until := c.State(now); {
	case !until.IsZero():
		return 0
	case s == HalfOpen:
		return c.b.Probes - c.probing
	}
	return -1
}

// look makes an open circuit half-open when its time has passed.
func (c *Circuit) look(now time.Time) {
	if c.state == Open && !now.Before(c.until) {
		c.turn(HalfOpen)
	}
}

func (c *Circuit) turn(s State) {
	c.state, c.inARow, c.probing = s, 0, 0
	c.gen++
}

func (c *Circuit) cool(random float64) time.Duration {
	return c.b.Open + time.Duration(float64(c.b.Open)*c.b.Jitter*random)
}

func (c *Circuit) bucketNow(now time.Time) int64 {
	return now.UnixNano() / max(int64(c.b.Window)/windowBuckets, 1)
}

func (c *Circuit) count(now time.Time, ok, failed int) {
	if c.b.Rate == 0 {
		return
	}
	at := c.bucketNow(now)
	k := &c.buckets[uint64(at)%windowBuckets]
	if k.at != at {
		*k = bucket{at: at}
	}
	k.ok += ok
	k.failed += failed
}

// overRate is false where nothing is counted: Volume is at least 1.
func (c *Circuit) overRate(now time.Time) bool {
	at := c.bucketNow(now)
	ok, failed := 0, 0
	for i := range c.buckets {
		if k := &c.buckets[i]; k.at > at-windowBuckets && k.at <= at {
			ok, failed = ok+k.ok, failed+k.failed
		}
	}
	return ok+failed >= c.b.Volume && float64(failed) >= c.b.Rate*float64(ok+failed)
}
