package flow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow/ring"
)

// ErrTooManyErrors is what Run returns (wrapped) after Pipeline.Fatal errors in a row.
var ErrTooManyErrors = errors.New("too many errors in a row")

// ErrGrace is why the context of work ends: the time after a stop is over.
var ErrGrace = errors.New("the grace after the stop is over")

// An Engine is one pipeline, ready to run. Its methods may be called from anywhere.
type Engine struct {
	p      Pipeline
	traits tidemill.Traits
	holds  bool // retries wait in their lane: the source cannot delay, or not in order
	lanes  []*lane
	life   lifecycle
	gate   gate
	stats  stats
	turns  *turns // nil: no stage has an order over lanes

	free    *ring.Ring[*Task] // credit: slots that came back
	out     *ring.Ring[*Task] // ended, for the settler
	knock   chan struct{}     // wakes the receiver
	ending  chan struct{}     // wakes the settler
	full    chan struct{}     // tells the settler that nothing more can come
	tending chan struct{}     // wakes the goroutine that renews leases and tells the source's gate

	shedding []*Task       // scratch of the receiver
	reserve  int           // slots beyond InFlight, for messages that the drop policy judges
	seq      atomic.Uint64 // of the last message received
	held     atomic.Int64  // received and not settled
	done     atomic.Int64  // in out, and not taken by the settler
	workers  atomic.Int64  // lanes that get messages
	credit   credit        // how much of it there is
	acked    acks
	closing  atomic.Bool // nothing more comes to the settler

	back atomic.Bool // stopped while paused: lanes hand back what they hold

	chance  struct{ in, out, acks, tend *rand.Rand } // one for each goroutine
	reading readPermit
	shut    context.CancelCauseFunc // stops the receiver; set by Run before anything starts
	watcher Watcher                 // nil: nobody
	tracer  tidemill.Tracer         // nil: nothing is followed
}

// A Watcher is shown what messages came to, while it is On. On is asked for each batch, and has to be
// quick.
type Watcher interface {
	On() bool
	// Ended is shown settlements with the source's answers, and the message of each; nil: its end
	// came from outside. It is called from one goroutine and keeps nothing of what it is given.
	Ended(ends []tidemill.Settlement, of func(i int) *tidemill.Message)
}

// Watch has a watcher shown what messages come to. It is called before Run.
func (e *Engine) Watch(w Watcher) { e.watcher = w }

// New checks a pipeline and makes its engine. It refuses what cannot work, and says how to
// correct it.
func New(p Pipeline) (*Engine, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	e := &Engine{
		p: p, traits: p.Source.Traits(),
		knock: make(chan struct{}, 1), ending: make(chan struct{}, 1),
		full: make(chan struct{}, 1), tending: make(chan struct{}, 1),
	}
	e.holds = !e.traits.Delays || p.Lane != nil && !e.traits.Ordered
	if p.Drop != DropNone {
		e.reserve = min(p.InFlight, maxReceive)
	}
	total := p.InFlight + e.reserve
	e.free, e.out = ring.New[*Task](total), ring.New[*Task](total)
	slab := make([]Task, min(p.Prepared, p.InFlight))
	for i := range slab {
		e.free.TryPut(&slab[i])
	}
	e.workers.Store(int64(p.Lanes))
	e.gate.init(p)
	if p.Acks != nil {
		e.acked.init(e.traits)
	}
	order := new(turns)
	for i := range p.Lanes {
		l := &lane{e: e, n: i, late: -1, in: ring.New[*Task](total), wake: make(chan struct{}, 1),
			rand:  rand.New(rand.NewPCG(p.Rand.Uint64(), p.Rand.Uint64())),
			clock: alarm{slot: i, of: p.Lanes + slots, now: p.Now},
			batch: make([]*Task, 0, p.Batch), live: make([]*Task, 0, p.Batch)}
		env := Env{Pipeline: p.Name, Lane: i, Batch: p.Batch, Now: p.Now, Rand: l.rand, Rules: p.Rules,
			Log: p.Log, Observe: e.observe, slots: p.Lanes + slots, turns: order}
		if e.holds {
			env.Order = p.Lane
		}
		if l.work = p.Work(env); l.work == nil {
			return nil, fmt.Errorf("pipeline %s: Work made nothing", p.Name)
		}
		if unwrap(l.work, func(w Work) bool { s, ok := w.(interface{ hasOrder() bool }); return ok && s.hasOrder() }) {
			if p.Lane != nil || p.Runs > 1 {
				return nil, fmt.Errorf("pipeline %s: a stage with InOrder deals messages by itself: leave Lane and Runs out", p.Name)
			}
			e.turns = order
		}
		if p.Retry.Tries != 0 && repeatsInPlace(l.work) {
			return nil, fmt.Errorf("pipeline %s: retry by redelivery and a stage that retries in place: tries would multiply, choose one", p.Name)
		}
		e.lanes = append(e.lanes, l)
	}
	for _, r := range []**rand.Rand{&e.chance.in, &e.chance.out, &e.chance.acks, &e.chance.tend} {
		*r = rand.New(rand.NewPCG(p.Rand.Uint64(), p.Rand.Uint64()))
	}
	return e, nil
}

// observe notes progress of a stage, and tells Observe.
func (e *Engine) observe(stage string, messages int, took time.Duration, err error) {
	e.stats.turn(e.p.Now())
	if e.p.Observe != nil {
		e.p.Observe(stage, messages, took, err)
	}
}

// repeatsInPlace looks through wrappers for steps with a retry.
func repeatsInPlace(w Work) bool {
	return unwrap(w, func(w Work) bool { s, ok := w.(interface{ repeatsInPlace() bool }); return ok && s.repeatsInPlace() })
}

// unwrap says whether is holds for a work or for one that it wraps.
func unwrap(w Work, is func(Work) bool) bool {
	for w != nil {
		if is(w) {
			return true
		}
		u, ok := w.(interface{ Unwrap() Work })
		if !ok {
			return false
		}
		w = u.Unwrap()
	}
	return false
}

// Name is the pipeline's name.
func (e *Engine) Name() string { return e.p.Name }

// Run runs the pipeline until ctx ends and returns when everything held is settled or
// handed back. A stop goes in this order, each step with its own time: the receiver stops,
// lanes finish what they hold (Grace), acks from outside are awaited (AckGrace), the rest
// goes back to the source without counting a try, the settler tells the source (Telling).
// Run returns nil after a stop by ctx, ErrTooManyErrors after one by Fatal, and an error
// when the source could not be told of every end: those messages come again.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.life.start(); err != nil {
		return fmt.Errorf("pipeline %s: %w", e.p.Name, err)
	}
	return e.run(ctx)
}

func (e *Engine) run(ctx context.Context) error {
	endpoints, shut := context.WithCancelCause(ctx)
	defer shut(nil)
	e.shut = shut
	late, expire := context.WithCancelCause(context.WithoutCancel(ctx))
	defer expire(nil)
	listen, deafen := context.WithCancel(context.WithoutCancel(ctx))
	defer deafen()
	tell, quit := context.WithCancel(context.WithoutCancel(ctx))
	defer quit()
	tend, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()

	var tender, out, acks, lanes sync.WaitGroup
	tender.Go(func() { e.tend(tend) })
	out.Go(func() { e.settle(tell) })
	if e.p.Acks != nil {
		acks.Go(func() { e.listen(listen) })
	}
	for _, l := range e.lanes {
		lanes.Go(func() { l.run(late) })
	}
	e.receive(endpoints)

	e.back.Store(e.paused())
	e.life.stopping()
	for _, l := range e.lanes {
		l.last.Store(true)
		signal(l.wake)
	}
	stopping := e.alarm(slotStop)
	defer time.AfterFunc(stopping.round(e.p.Grace), func() { expire(ErrGrace) }).Stop()
	lanes.Wait()
	e.awaitAcks(max(e.p.AckGrace, 0))
	deafen()
	acks.Wait()
	e.closing.Store(true)
	signal(e.ending)
	signal(e.full) // the settler lingers no more, whether it saw this or not
	defer time.AfterFunc(stopping.round(e.p.Telling), quit).Stop()
	out.Wait()
	leave()
	tender.Wait()
	e.life.stopped()

	var err error
	if n := e.held.Load(); n > 0 {
		err = fmt.Errorf("pipeline %s: the source could not be told how %d messages ended: %w; they come again", e.p.Name, n, e.stats.last())
	}
	if cause := context.Cause(endpoints); errors.Is(cause, ErrTooManyErrors) {
		err = errors.Join(fmt.Errorf("pipeline %s: %w", e.p.Name, cause), err)
	}
	return err
}

// State is where the engine is in its life.
func (e *Engine) State() State { return e.life.now() }

// Pause stops receiving and lets each lane finish only what it works on. Waiting messages go
// back to the source, for other instances, without counting a try, and no lease is renewed
// any more. Where that would break the order, or the source could not bring them back, they
// stay held and their leases are kept until Resume. Acks from outside are still taken.
func (e *Engine) Pause() error {
	if err := e.life.pause(); err != nil {
		return fmt.Errorf("pause pipeline %s: %w", e.p.Name, err)
	}
	e.reading.revoke()
	e.wakeAll()
	return nil
}

// Resume goes on after Pause.
func (e *Engine) Resume() error {
	if err := e.life.resume(); err != nil {
		return fmt.Errorf("resume pipeline %s: %w", e.p.Name, err)
	}
	e.wakeAll()
	return nil
}

// Flush asks the lanes to finish what they hold now, without waiting for full batches. It
// returns at once.
func (e *Engine) Flush() {
	seq := e.seq.Load()
	for _, l := range e.lanes {
		l.flush.Store(seq)
		signal(l.wake)
	}
}

// Workers changes how many lanes get messages, from 1 to Pipeline.Lanes, and the credit
// with them. It is refused for a pipeline that keeps order: its lanes are fixed.
func (e *Engine) Workers(n int) error {
	switch {
	case e.p.Lane != nil:
		return fmt.Errorf("pipeline %s keeps order: its number of lanes is fixed", e.p.Name)
	case n < 1 || n > e.p.Lanes:
		return fmt.Errorf("pipeline %s: %d workers: want 1 to %d", e.p.Name, n, e.p.Lanes)
	}
	e.workers.Store(int64(n))
	signal(e.knock)
	return nil
}

func (e *Engine) wakeAll() {
	for _, l := range e.lanes {
		signal(l.wake)
	}
	signal(e.knock)
}

func (e *Engine) paused() bool { return e.life.now() == Paused }

// returns says that messages waiting in lanes go back to the source, because of a pause.
func (e *Engine) returns() bool { return e.paused() && e.returnable() }

// returnable says that messages may go back to the source before they are worked on.
func (e *Engine) returnable() bool { return !e.holds && e.turns == nil }
