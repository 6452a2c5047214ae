package flow

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow/ring"
	"github.com/tidemill/tidemill/policy"
)

// A lane is one worker, with its own ring, batch and order. Everything in it happens in one
// goroutine.
type lane struct {
	e     *Engine
	n     int
	in    *ring.Ring[*Task]
	wake  chan struct{}
	load  atomic.Int64  // dealt to it and not settled
	flush atomic.Uint64 // messages received up to here are to be finished now
	last  atomic.Bool   // nothing more will come
	work  Work
	rand  *rand.Rand

	held     time.Duration // in all, in hold
	worked   time.Duration // the last batch took, without what it was held
	late     time.Duration // too late the last rest ended; below 0: there was none
	batch    []*Task       // what it holds, oldest first
	ahead    *Task         // the first of the next run
	since    time.Time     // the batch's first message came
	clock    alarm
	live     []*Task               // scratch of attempt and emit
	ended    []*Task               // scratch of release
	letters  []tidemill.DeadLetter // scratch of bury
	next     []*tidemill.Message   // scratch of emit
	failures [tidemill.Unknown + 1]uint64
	failure  string // the last failure that was not a skip
}

// run works until nothing more will come and nothing is held. ctx ends when that time is
// up.
func (l *lane) run(ctx context.Context) {
	defer l.clock.stop()
	l.park() // so that the first deal is taken whole
	for {
		last := l.last.Load() // before taking: a later message wakes the lane again
		l.fill()
		switch {
		case len(l.batch) == 0 && last:
			return
		case last && (ctx.Err() != nil || l.e.back.Load()):
			l.giveBack(ctx, l.batch, 0)
		case len(l.batch) > 0 && l.e.returns():
			l.giveBack(ctx, l.batch, 0)
		case l.due(last):
			if l.giveWay(ctx) {
				l.do(ctx)
			}
		default:
			l.park()
		}
	}
}

// fill takes messages from the ring, up to a batch.
func (l *lane) fill() {
	n := len(l.batch)
	if l.e.turns != nil {
		l.fillRun()
	} else {
		l.batch = l.batch[:n+l.in.TryGetN(l.batch[n:cap(l.batch)])]
	}
	if n == 0 && len(l.batch) > 0 && l.e.p.Age > 0 {
		l.since = l.e.p.Now()
	}
}

// fillRun takes those messages from the ring that belong to the run of the batch.
func (l *lane) fillRun() {
	for len(l.batch) < cap(l.batch) {
		t, ok := l.ahead, l.ahead != nil
		if l.ahead = nil; !ok {
			t, ok = l.in.TryGet()
		}
		switch {
		case !ok:
			return
		case len(l.batch) > 0 && t.run != l.batch[0].run:
			l.ahead = t
			return
		}
		l.batch = append(l.batch, t)
	}
}

// due says whether the batch is to be worked on now.
func (l *lane) due(last bool) bool {
	n := len(l.batch)
	switch {
	case n == 0:
		return false
	case l.flushed():
		return true
	case l.e.paused():
		return false
	}
	// A message that comes again has waited before. Where a process is killed over and
	// over, it must get through before the next time.
	again := l.batch[0].Handed > 1
	if r := l.batch[0].run; r != nil && r.closed.Load() { // no more will come to it, and others may wait for it
		return true
	}
	return n == cap(l.batch) || last || again || l.e.p.Age == 0 || l.e.p.Now().Sub(l.since) >= l.e.p.Age
}

func (l *lane) flushed() bool { return l.flush.Load() >= l.batch[0].seq }

// park waits. The reason for waking does not matter: run checks everything again, in one
// order.
func (l *lane) park() {
	if len(l.batch) == 0 || l.e.paused() {
		<-l.wake
		return
	}
	left := max(l.e.p.Age-l.e.p.Now().Sub(l.since), 0)
	select {
	case <-l.wake:
	case <-l.clock.after(left):
	}
}

// do works on the batch until each of its messages has ended. Most batches go round once.
// Messages that have to be tried again and cannot go back to the source go round until they
// end.
func (l *lane) do(ctx context.Context) {
	if l.e.turns != nil {
		l.batch[0].run.closed.Store(true)
	}
	began, held := l.e.p.Now(), l.held
	defer func() { l.worked = l.e.p.Now().Sub(began) - (l.held - held) }()
	l.screen(ctx)
	l.release(ctx)
	for len(l.batch) > 0 {
		todo, pass := l.admit(ctx)
		if len(todo) == 0 {
			return // all went back
		}
		l.attempt(ctx, todo)
		wait := l.judge(ctx, todo, pass)
		l.release(ctx)
		if wait > 0 && !l.hold(ctx, wait, false) {
			l.giveBack(ctx, l.batch, 0)
		}
	}
}

// admit waits for limit and breaker, and returns the messages that may be worked on now;
// none: all were given back.
func (l *lane) admit(ctx context.Context) ([]*Task, policy.Pass) {
	e := l.e
	n := l.together()
	for e.p.May != nil {
		may, wait := e.p.May(ctx, l.batch[:n])
		if may > 0 {
			n = min(may, n)
			break
		}
		if !l.hold(ctx, max(wait, time.Millisecond), false) {
			return l.giveBack(ctx, l.batch, 0), policy.Pass{}
		}
	}
	if e.p.Limiter.Rate > 0 && !(l.turn(ctx) && l.hold(ctx, e.gate.take(e.p.Now(), n), false)) {
		return l.giveBack(ctx, l.batch, 0), policy.Pass{}
	}
	for {
		wait := time.Hour
		if ctx.Err() == nil && !e.paused() && (!e.gate.narrow(e.p.Now()) || l.mayProbe() && l.turn(ctx)) {
			var pass policy.Pass
			if pass, wait = e.gate.enter(e.p.Now(), n); pass.N > 0 {
				return l.batch[:pass.N], pass
			}
			if e.returnable() {
				if e.gate.gater { // the source's gate decides when; another instance may know sooner that the destination is well
					wait = min(wait, paceAtLeast)
				}
				return l.giveBack(ctx, l.batch, wait+time.Duration(l.rand.Float64()*float64(wait)/8)), policy.Pass{}
			}
		}
		if !l.hold(ctx, wait, true) {
			return l.giveBack(ctx, l.batch, 0), policy.Pass{}
		}
	}
}

// giveWay rests where something is more urgent, and says whether the batch is to be worked on now. If
// not, because of a pause or a stop meanwhile, run looks what is to be done.
func (l *lane) giveWay(ctx context.Context) bool {
	if l.e.p.GiveWay == nil {
		return true
	}
	now := l.e.p.Now()
	rest := l.e.p.GiveWay(now, l.worked, l.late)
	if l.late = -1; rest <= 0 {
		return true
	}
	if l.hold(ctx, rest, false) {
		l.late = l.e.p.Now().Sub(now) - rest
	}
	return l.flushed() || !l.e.paused() && ctx.Err() == nil && !(l.last.Load() && l.e.back.Load())
}

// turn lets lanes ask for shared things (tokens, probes) one after the other, each at an
// instant of its own, so that the clock and not the scheduler decides who is first.
func (l *lane) turn(ctx context.Context) bool {
	l.clock.wait(ctx, 0)
	return ctx.Err() == nil
}

// mayProbe says whether the lane may ask to pass where only some may. Of messages in order
// only the oldest may: the others would wait for it once they have passed.
func (l *lane) mayProbe() bool { return l.e.turns == nil || l.e.turns.has(l.batch[0].run) }

// together is how many messages are worked on at once: all, but a message that was handed
// out suspiciously often is worked on alone.
func (l *lane) together() int {
	for i, t := range l.batch {
		if t.Handed-t.Tries > max(l.e.p.Handouts/2, 1) {
			return max(i, 1)
		}
	}
	return len(l.batch)
}

// hold waits with the messages in the lane. It returns false when it must wait no longer: at a
// stop or a pause, or when the batch is to be finished. With early it also returns when the lane
// was woken.
func (l *lane) hold(ctx context.Context, d time.Duration, early bool) bool {
	began := l.e.p.Now()
	end, woken := began.Add(d), false
	l.e.stats.idle()
	defer func() {
		now := l.e.p.Now()
		l.held += now.Sub(began)
		l.e.stats.busy(now)
	}()
	for {
		left := end.Sub(l.e.p.Now())
		switch {
		case ctx.Err() != nil || l.last.Load() || l.flushed() || l.e.returns():
			return false
		case woken && early || left <= 0:
			return true
		}
		select {
		case <-l.wake:
			woken = true
		case <-l.clock.after(left):
		case <-ctx.Done():
		}
	}
}

// attempt does the work once, and again in halves if it is rejected as a whole.
func (l *lane) attempt(ctx context.Context, todo []*Task) {
	err := l.safely(ctx, todo)
	l.e.stats.turn(l.e.p.Now())
	if err == nil {
		return
	}
	if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
		for _, f := range partly.Failed {
			if f.Index < 0 || f.Index >= len(todo) {
				err = tidemill.Fail(tidemill.Internal, "message %d of a batch of %d failed: %w", f.Index, len(todo), f.Err)
				for _, t := range todo {
					if t.Live() {
						t.Fail(err)
					}
				}
				return
			}
			if t := todo[f.Index]; t.Live() {
				t.Fail(f.Err)
			}
		}
		return
	}
	l.live = l.live[:0]
	for _, t := range todo {
		if t.Live() {
			l.live = append(l.live, t)
		}
	}
	if len(l.live) > 1 && ctx.Err() == nil && rejected(tidemill.KindOf(err)) {
		live := append([]*Task(nil), l.live...)
		l.attempt(ctx, live[:len(live)/2])
		l.attempt(ctx, live[len(live)/2:])
		return
	}
	for _, t := range l.live {
		t.Fail(err)
	}
}

func (l *lane) safely(ctx context.Context, todo []*Task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(l.e.p.Log, "work", p)
		}
	}()
	return l.work.Do(ctx, todo)
}

// giveBack ends tasks without counting a try and releases them.
func (l *lane) giveBack(ctx context.Context, tasks []*Task, after time.Duration) []*Task {
	for _, t := range tasks {
		t.giveBack(l.e.traits.Delays, after)
	}
	l.release(ctx)
	return nil
}
