package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// A Pipeline is a source and the work done on it. Name, Source and Work are required, and
// Dead unless the source parks its own dead messages; every other zero value is a useful
// default.
type Pipeline struct {
	Name   string
	Source tidemill.Source
	Work   func(Env) Work                 // called once for each lane: Steps.Lane, or a wrapper around it
	Lane   func(*tidemill.Message) uint64 // messages with the same number are worked on in order (ByKey); nil: no order, the emptiest lane
	Emits  tidemill.Sink                  // where emitted messages go if the source does not forward
	Dead   tidemill.DeadLetters           // nil only where the source parks

	// Acks waits for ends that come from outside and returns how many it put into into.
	// They go through the same settler as all others. It is called from one goroutine, also
	// while the pipeline is paused, and must return when ctx ends; then it is called until
	// it returns none, to take acks that came in before. While acks come, no more messages
	// are handed out than they keep up with (window.go); where none come, nothing waits for
	// them.
	Acks func(ctx context.Context, into []tidemill.Settlement) (int, error)

	Lanes    int        // workers; 0: 1
	Batch    int        // most messages worked on at once; 0: 1
	InFlight int        // most messages held at once; 0: 2 × Lanes × Batch, and more while messages are done within moments (credit.go)
	Hold     func() int // how many of InFlight may be held now, asked very often; nil: all
	Runs     int        // messages received together that go to one lane, where no order is needed; 0: 1, each to the emptiest
	Ahead    int        // no messages are asked for while this many wait for a lane; 0: only InFlight bounds what is read ahead
	Prepared int        // memory for this many messages is made at the start, not when they first come; at most InFlight

	Age      time.Duration // a batch that is not full waits this long for more; 0: not at all
	Linger   time.Duration // ends are collected for this long before they are settled; 0: 500 µs, below 0: not at all
	Grace    time.Duration // lanes may go on this long after a stop; 0: 30 s, below 0: not at all
	AckGrace time.Duration // then acks from outside are awaited for this long; 0: 500 ms, below 0: not at all
	Telling  time.Duration // then settling may take this long; 0: 5 s

	Rules    policy.Table   // what a kind of failure means; missing rows: policy.Default
	Retry    policy.Retry   // by redelivery; the zero value: none
	Backoff  policy.Retry   // waits after errors of source, dead letters and Emits, which are repeated until they succeed; zero: 100 ms doubling to 5 s
	Breaker  policy.Breaker // one for all lanes; the zero value never opens by itself
	Limiter  policy.Limiter // one for all lanes; the zero value: no limit
	PauseFor time.Duration  // rule Pause: nothing is tried for this long; 0: 1 min

	// May is asked before each attempt how many of a batch, from its front, may be worked on
	// now; where none may, it returns how long to wait before asking again. It handles its
	// own errors. Nil: all may.
	May func(ctx context.Context, batch []*Task) (n int, wait time.Duration)

	// GiveWay is asked before each batch how long its lane is to rest, because something that is more
	// urgent than all work wants the machine now; 0: not at all. worked is how long the lane's last
	// batch took, without what it waited for limits and breakers; late is how much too late the lane's
	// last rest ended, below 0 where it had none since GiveWay was asked before. Nil: no lane rests.
	GiveWay func(now time.Time, worked, late time.Duration) time.Duration

	// Handouts is how often a message may be handed out without a failed try. Above it the
	// message is dead before it is decoded, because it seems to kill the process that works
	// on it. From half of it on the message is worked on alone. 0: 100; below 0: no limit.
	Handouts int

	Drop      Drop    // what is dropped when the buffer is full
	Threshold float64 // the share of InFlight at which the buffer is full, above 0 to 1; 0: 1

	// Fatal is how many errors in a row (of source, dead letters and Emits) end the
	// pipeline: Run stops in order and returns ErrTooManyErrors. Only a settled message
	// ends the row. 0: never.
	Fatal int

	Log  *slog.Logger     // nil: discarded
	Now  func() time.Time // nil: time.Now
	Rand *rand.Rand       // seeds those of the lanes, in New; nil: seeded at random

	least int // most messages held at once where they are not done fast

	// Observe is told of every call of a stage. Lanes call it concurrently.
	Observe func(stage string, messages int, took time.Duration, err error)
	// Settled is told of every settlement with the source's answer. It is called from one
	// goroutine and keeps nothing of ends.
	Settled func(ends []tidemill.Settlement)
}

// Drop says what is dropped when the buffer is full and a message came. A dropped message
// is left: it stays pending at its source, which hands it out again.
type Drop uint8

const (
	DropNone   Drop = iota // nothing: receiving waits
	DropOldest             // the oldest that wait for a lane
	DropNewest             // the newest
)

var dropNames = [...]string{"none", "oldest", "newest"}

// String returns the policy as it is written in configuration.
func (d Drop) String() string {
	if int(d) < len(dropNames) {
		return dropNames[d]
	}
	return fmt.Sprintf("drop(%d)", uint8(d))
}

// MarshalText writes the name.
func (d Drop) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText takes a name.
func (d *Drop) UnmarshalText(b []byte) error {
	for i, n := range dropNames {
		if n == string(b) {
			*d = Drop(i)
			return nil
		}
	}
	return fmt.Errorf("drop policy %q: want one of %q", b, dropNames)
}

// Env is what a lane lends to its work. The zero value is usable in tests of Work.
type Env struct {
	Pipeline string
	Lane     int              // number of the lane, from 0
	Batch    int              // no batch is larger
	Log      *slog.Logger     // nil: discarded
	Now      func() time.Time // nil: time.Now
	Rand     *rand.Rand       // the lane's own; nil: waits have no jitter
	Rules    policy.Table     // nil: policy.Default

	// Order is the pipeline's Lane where the lane must keep order by itself: no message
	// passes an older one of the same number that will be worked on again.
	Order func(*tidemill.Message) uint64

	Observe func(stage string, messages int, took time.Duration, err error)

	slots int    // how many goroutines have alarms
	turns *turns // nil: outside an engine
}

// ByKey is a Pipeline.Lane that keeps the messages of one key in order. It spreads messages
// without a key by their ID.
func ByKey(m *tidemill.Message) uint64 {
	if len(m.Key) == 0 {
		return hash(m.ID)
	}
	return hash(m.Key)
}

func hash[T string | []byte](s T) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a: the same in every process
	h := uint64(offset)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime
	}
	return h ^ h>>32 // the low bits alone are badly spread
}

// unlimited is Handouts without a limit.
const unlimited = math.MaxInt

// check fills in the defaults and refuses what cannot work.
func (p *Pipeline) check() error {
	if p.Name == "" {
		return errors.New("pipeline: it needs a name; dead letters and metrics carry it")
	}
	if p.Source == nil || p.Work == nil {
		return fmt.Errorf("pipeline %s: it needs a Source and Work", p.Name)
	}
	if p.Lanes < 0 || p.Batch < 0 || p.InFlight < 0 || p.Runs < 0 || p.Ahead < 0 || p.Prepared < 0 || p.Age < 0 || p.Fatal < 0 || p.Telling < 0 || p.PauseFor < 0 {
		return fmt.Errorf("pipeline %s: Lanes, Batch, InFlight, Runs, Ahead, Prepared, Age, Fatal, Telling and PauseFor cannot be below zero", p.Name)
	}
	or(&p.Lanes, 1)
	or(&p.Batch, 1)
	if p.Hold != nil && (p.InFlight == 0 || p.Drop != DropNone) {
		return fmt.Errorf("pipeline %s: Hold says how many of InFlight may be held, and the rest waits at the source: give InFlight, and no Drop", p.Name)
	}
	if p.least = p.InFlight; p.InFlight == 0 {
		p.widen()
	}
	or(&p.Runs, 1)
	or(&p.Linger, 500*time.Microsecond)
	or(&p.Grace, 30*time.Second)
	or(&p.AckGrace, 500*time.Millisecond)
	or(&p.Telling, 5*time.Second)
	or(&p.PauseFor, time.Minute)
	if or(&p.Handouts, 100); p.Handouts < 0 {
		p.Handouts = unlimited
	}
	or(&p.Threshold, 1)
	or(&p.Backoff, policy.Retry{Tries: -1, Base: 100 * time.Millisecond, Factor: 2, Max: 5 * time.Second, Jitter: policy.Equal})
	p.Rules = p.Rules.Complete()
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.Rand == nil {
		p.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	for _, c := range []interface{ Check() error }{p.Retry, p.Backoff, p.Breaker, p.Limiter} {
		if err := c.Check(); err != nil {
			return fmt.Errorf("pipeline %s: %w", p.Name, err)
		}
	}
	t := p.Source.Traits()
	var problem string
	switch _, keeps := p.Source.(tidemill.Keeper); {
	case p.Drop > DropNewest:
		problem = "no such drop policy"
	case p.Threshold < 0 || p.Threshold > 1:
		problem = "the threshold is a share of InFlight, above 0 to 1"
	case p.Backoff.Base <= 0:
		problem = "Backoff needs a Base, or errors would be repeated without rest"
	case p.InFlight < p.Lanes:
		problem = "InFlight below Lanes: some lanes would never have work"
	case p.Age > 0 && float64(p.InFlight)*p.threshold() < float64(p.Lanes*p.Batch):
		problem = "InFlight (× Threshold) below Lanes × Batch: batches would wait for Age and never be full"
	case p.Dead == nil && !t.Parks:
		problem = "nowhere to put the dead: give it dead letters, the source does not park"
	case p.Retry.Tries != 0 && !t.Delays:
		problem = "retry by redelivery, but the source cannot delay: give the stage a retry"
	case p.Retry.Tries != 0 && p.Lane != nil && !t.Ordered:
		problem = "retry by redelivery and order, but the source does not hold back a key: give the stage a retry"
	case t.Keep > 0 && !keeps:
		problem = "the source's leases run out, but it has no Keep"
	}
	if problem != "" {
		return fmt.Errorf("pipeline %s: %s", p.Name, problem)
	}
	return nil
}

// threshold returns the share of the buffer that may be filled, where there is a limit.
func (p *Pipeline) threshold() float64 {
	if p.Drop == DropNone {
		return p.Threshold
	}
	return 1
}

func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
