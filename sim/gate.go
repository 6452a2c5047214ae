// Package sim runs whole systems in a bubble of fake time, on backends in memory, while a
// seeded gate decides the order and the outcome of every outside effect: it comes late, fails,
// is applied although its answer is lost, or the process dies before or after it. A checker
// then proves that nothing was lost, doubled or attributed to the wrong person.
//
// The same seed gives the same run, step by step: replay one with
//
//	go test ./sim -run TestSeeds -seed=0x2a -v
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
)

// errDead is the error of an operation of a dead process. It had no effect.
var errDead = errors.New("sim: this process is dead")

// Class of a fault.
type Class string

// The classes of faults, each on or off in a seed.
const (
	Refuse Class = "refused"     // an error, nothing was done
	Lose   Class = "answer lost" // an error, but it was done
	Delay  Class = "delayed"     // it takes a while
	Stall  Class = "stalled"     // it takes longer than a lease
	Crash  Class = "crash"       // the process dies before it
	After  Class = "crash after" // the process dies after it was done
	Freeze Class = "frozen"      // the process stops and continues later, after another took over
	Stop   Class = "stopped"     // SIGTERM
	Outage Class = "outage"      // a store refuses everybody for a while
)

// Classes lists all of them.
var Classes = []Class{Refuse, Lose, Delay, Stall, Crash, After, Freeze, Stop, Outage}

// Gate lets one outside effect happen at a time.
type Gate struct {
	rnd    *rand.Rand
	rates  map[Class]float64    // by class; missing: off
	count  map[Class]int        // how often each fired
	calm   bool                 // faults are over
	outage map[string]time.Time // until when, by the name of the effect
	trace  []string
	record bool
	sum    uint64
	steps  int

	arrived chan struct{} // cap 1
	mu      sync.Mutex    // guards pending
	pending []*op
}

type op struct {
	proc    *process
	name    string
	key     string // the same in every run of the seed
	ready   time.Time
	delayed bool
	plain   bool                 // it takes its turn, without faults
	idle    func() time.Duration // see await; nil: it is never idle
	verdict chan Class           // "" is success
	done    chan struct{}
}

// process is one incarnation of the system.
type process struct {
	n       int
	dead    bool // guarded by Gate.mu
	gone    bool // dead, or told to stop; it changes only while nothing runs
	onDeath func()
	onStop  func()
	frozen  time.Time // guarded by Gate.mu
}

func newGate(seed uint64) *Gate {
	g := &Gate{rnd: rand.New(rand.NewPCG(seed, 0x9a7e)), rates: map[Class]float64{}, count: map[Class]int{}, outage: map[string]time.Time{}, arrived: make(chan struct{}, 1)}
	for _, c := range Classes { // a swarm: each seed has its own mix
		if g.rnd.IntN(2) == 0 {
			g.rates[c] = map[Class]float64{Refuse: .05, Lose: .04, Delay: .1, Stall: .004, Crash: .004, After: .004, Freeze: .003, Stop: .003, Outage: .003}[c] * (0.3 + 1.4*g.rnd.Float64())
		}
	}
	return g
}

// do is one outside effect of a process. name and content make its key: two that wait at
// the same time must differ, and neither may depend on which goroutine came first.
func (g *Gate) do(p *process, name, content string, apply func() error) error {
	o := newOp(p, name, content)
	if !g.enter(o) {
		return errDead
	}
	return g.happen(o, <-o.verdict, apply)
}

// turn waits for a turn without an effect, so that the gate decides which of several at one
// instant is first.
func (g *Gate) turn(p *process, name, content string) {
	o := newOp(p, name, content)
	if o.plain = true; g.enter(o) {
		_ = g.happen(o, <-o.verdict, func() error { return nil })
	}
}

// await is do for an effect that may have nothing to do for a while, and then costs no step.
// idle says how long to leave it alone, unless something else happens before; 0: its turn has
// come. It is called when nothing runs. The wait ends with ctx.
func (g *Gate) await(ctx context.Context, p *process, name, content string, idle func() time.Duration, apply func() error) error {
	o := newOp(p, name, content)
	o.idle = idle
	if !g.enter(o) {
		return errDead
	}
	select {
	case verdict := <-o.verdict:
		return g.happen(o, verdict, apply)
	case <-ctx.Done():
	}
	if g.withdraw(o) {
		return ctx.Err()
	}
	return g.happen(o, <-o.verdict, apply)
}

func newOp(p *process, name, content string) *op {
	return &op{proc: p, name: name, key: fmt.Sprintf("%d %s %s", p.n, name, content), ready: time.Now(), verdict: make(chan Class), done: make(chan struct{})}
}

// enter makes an effect wait for its turn. Effects of the dead do not.
func (g *Gate) enter(o *op) bool {
	g.mu.Lock()
	if o.proc.dead {
		g.mu.Unlock()
		return false
	}
	g.pending = append(g.pending, o)
	g.mu.Unlock()
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	return true
}

// withdraw takes a waiting effect back, unless its turn has come.
func (g *Gate) withdraw(o *op) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.pending, o)
	if i < 0 {
		return false
	}
	g.pending = slices.Delete(g.pending, i, i+1)
	return true
}

// happen gives an effect its outcome.
func (g *Gate) happen(o *op, verdict Class, apply func() error) error {
	name := o.name
	defer close(o.done)
	switch verdict {
	case Crash:
		return errDead
	case Refuse, Outage:
		return tidemill.Fail(tidemill.Transient, "sim: %s was refused", name)
	case Lose, After:
		if err := apply(); err != nil {
			return err
		}
		if verdict == After {
			return errDead
		}
		return tidemill.Fail(tidemill.Unknown, "sim: the answer of %s was lost", name)
	}
	return apply()
}

// stalls reports whether an effect is still running.
func (g *Gate) stalls() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.pending, func(o *op) bool { return o.delayed && o.idle == nil })
}

// run lets effects happen, one at a time, until over is true when nothing is pending.
func (g *Gate) run(over func() bool) {
	for {
		synctest.Wait()
		if over() {
			return
		}
		synctest.Wait() // over may have begun something
		twins, next := g.choose()
		if twins == nil {
			g.rest(next)
			continue
		}
		g.release(twins)
	}
}

// rest waits for a new effect, or for the instant at which one is ready. It does not matter
// which of them woke it: the caller looks again.
func (g *Gate) rest(until time.Time) {
	d := time.Hour
	if !until.IsZero() {
		d = time.Until(until)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.arrived:
	case <-t.C:
	}
}

// choose picks one of the ready effects, or says when the next one is ready. Effects with the
// same key cannot be told apart, so they go together, with the same outcome.
func (g *Gate) choose() (twins []*op, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortStableFunc(g.pending, func(a, b *op) int { return cmp.Compare(a.key, b.key) })
	now := time.Now()
	var ready []int
	for i, o := range g.pending {
		at := o.ready
		if o.proc.frozen.After(at) && !g.calm {
			at = o.proc.frozen
		}
		if !at.After(now) && o.idle != nil {
			switch d := o.idle(); {
			case d < 0: // until something happens
				continue
			case d > 0:
				at = now.Add(d)
			}
		}
		if !at.After(now) {
			ready = append(ready, i)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if len(ready) == 0 {
		return nil, next
	}
	key := g.pending[ready[g.rnd.IntN(len(ready))]].key
	for _, i := range ready {
		if g.pending[i].key == key {
			twins = append(twins, g.pending[i])
		}
	}
	g.pending = slices.DeleteFunc(g.pending, func(o *op) bool { return slices.Contains(twins, o) })
	return twins, next
}

// release decides an effect's outcome and waits until it has happened.
func (g *Gate) release(twins []*op) {
	o := twins[0]
	verdict := g.outcome(o)
	g.note(o, verdict)
	switch verdict {
	case Delay, Stall, Freeze:
		g.later(twins, verdict)
		return
	case Stop:
		o.proc.onStop()
		synctest.Wait() // until everybody knows
		verdict = ""
	case Outage:
		if until := g.outage[o.name]; !until.After(time.Now()) {
			g.outage[o.name] = time.Now().Add(time.Second + time.Duration(g.rnd.Int64N(int64(30*time.Second))))
		}
	}
	for _, o := range twins {
		o.verdict <- verdict
		<-o.done
		synctest.Wait()
	}
	if verdict == Crash || verdict == After {
		g.kill(o.proc)
	}
}

func (g *Gate) outcome(o *op) Class {
	roll := g.rnd.Float64() // always drawn, so that the calm does not shift later draws
	if g.calm || o.plain {
		return ""
	}
	if g.outage[o.name].After(time.Now()) {
		return Outage
	}
	for _, c := range Classes {
		if (c == Delay || c == Stall || c == Freeze) && o.delayed {
			continue
		}
		if roll -= g.rates[c]; roll < 0 {
			g.count[c]++
			return c
		}
	}
	return ""
}

// later delays an effect, or its whole process.
func (g *Gate) later(twins []*op, c Class) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var d time.Duration
	switch c {
	case Delay:
		d = time.Millisecond + time.Duration(g.rnd.Int64N(int64(2*time.Second)))
	case Stall:
		d = time.Duration(35+g.rnd.IntN(30)) * time.Second
	case Freeze:
		twins[0].proc.frozen = time.Now().Add(time.Duration(40+g.rnd.IntN(60)) * time.Second)
	}
	for _, o := range twins {
		o.delayed, o.ready = true, time.Now().Add(d)
	}
	g.pending = append(g.pending, twins...)
}

// kill ends a process: its waiting effects have none.
func (g *Gate) kill(p *process) {
	g.mu.Lock()
	p.dead = true
	var orphans []*op
	g.pending = slices.DeleteFunc(g.pending, func(o *op) bool {
		if o.proc == p {
			orphans = append(orphans, o)
		}
		return o.proc == p
	})
	g.mu.Unlock()
	p.onDeath()
	synctest.Wait()
	for _, o := range orphans {
		o.verdict <- Crash
		<-o.done
		synctest.Wait() // one after the other, as everything is
	}
}

func (g *Gate) isDead(p *process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.dead
}

func (g *Gate) note(o *op, c Class) {
	g.steps++
	h := fnv.New64a()
	line := fmt.Sprintf("%6d %12v %-12s %s", g.steps, time.Since(epoch), c, o.key)
	_, _ = fmt.Fprintf(h, "%x %s", g.sum, line)
	g.sum = h.Sum64()
	if g.record {
		g.trace = append(g.trace, line)
	}
}

// epoch is when every bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
