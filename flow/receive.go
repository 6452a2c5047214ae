package flow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
)

// maxReceive is how many messages are asked for at once: large reads make sources fast, and
// beyond a thousand they gain no more.
const maxReceive = 1024

// receive is the receiver. The order of its steps matters: the drop policy sheds messages,
// the others are dealt to lanes, and only then are lanes woken.
func (e *Engine) receive(ctx context.Context) {
	var (
		stock = make([]*Task, 0, maxReceive) // credit at hand
		into  = make([]*tidemill.Message, 0, maxReceive)
		clock = e.alarm(slotIn)
		empty int // reads in a row that brought nothing
		wrong int // and that failed
	)
	for ctx.Err() == nil {
		reading, ok := e.reading.get(ctx, e)
		if !ok { // paused
			e.stats.idle()
			e.rest(ctx, &clock, 0)
			e.stats.busy(e.p.Now())
			continue
		}
		if wait := e.gate.shutFor(e.p.Now()); wait > 0 { // the breaker is open: alive
			e.stats.idle()
			e.rest(ctx, &clock, wait)
			e.stats.busy(e.p.Now())
			continue
		}
		ask, wait := e.ask(&stock)
		if wait > 0 { // for acks: alive
			e.stats.idle()
			e.rest(ctx, &clock, wait)
			e.stats.busy(e.p.Now())
			continue
		}
		if ask == 0 { // no credit: alive if lanes are
			if n := e.surplus(e.p.Now()); n > 0 {
				e.shrink(n)
			}
			e.rest(ctx, &clock, 0)
			continue
		}
		into = into[:0]
		for _, t := range stock[:ask] {
			into = append(into, &t.Message)
		}
		e.stats.idle()
		n, err := e.p.Source.Receive(reading, into)
		n = min(max(n, 0), ask)
		e.stats.busy(e.p.Now())
		if n > 0 {
			e.anew(e.p.Now())
			e.deal(stock[:n])
			stock = stock[:copy(stock, stock[n:])]
			empty = 0
		}
		if err == nil {
			wrong = 0
		}
		switch {
		case errors.Is(err, tidemill.ErrFlush):
			e.Flush()
		case err != nil && reading.Err() != nil: // told to stop or pause: no error
		case err != nil:
			e.trouble("receive", err)
			wrong++
			clock.wait(ctx, e.p.Backoff.Wait(wrong, e.chance.in.Float64()))
		case n == 0: // a source that does not wait must not make this loop spin
			empty++
			clock.wait(ctx, min(time.Duration(empty)*time.Millisecond, 100*time.Millisecond))
		}
	}
}

// ask tops up the stock and says how many messages to ask for; 0: none before a knock, or
// where wait is not 0 before wait has passed.
func (e *Engine) ask(stock *[]*Task) (ask int, wait time.Duration) {
	ask = maxReceive
	if permits := e.gate.permits(e.p.Now()); permits >= 0 {
		if e.held.Load() > 0 {
			return 0, 0 // a held message does the probing
		}
		ask = min(ask, permits)
	}
	if e.p.Acks != nil {
		room, wait := e.acked.window.room(e.p.Now())
		if room == 0 {
			return 0, wait
		}
		ask = min(ask, room)
	}
	e.tune(e.p.Now())
	ask = min(ask, int(e.grants()-e.held.Load()))
	if e.p.Ahead > 0 {
		room := e.p.Ahead - e.waiting()
		if room < (e.p.Ahead+1)/2 { // lanes knock when they are done; large reads are cheaper
			return 0, 0
		}
		ask = min(ask, room)
	}
	for len(*stock) < ask {
		t, ok := e.free.TryGet()
		if !ok { // few were made so far: held, in stock and free are together never more than may be held
			t = new(Task)
		}
		*stock = append(*stock, t)
	}
	return max(ask, 0), 0
}

// rest waits for a knock, or for d if that is not 0.
func (e *Engine) rest(ctx context.Context, clock *alarm, d time.Duration) {
	if d <= 0 {
		select {
		case <-e.knock:
		case <-ctx.Done():
		}
		return
	}
	select {
	case <-e.knock:
		clock.stop()
	case <-clock.after(d):
	case <-ctx.Done():
		clock.stop()
	}
}

// deal gives each message to a lane, or sheds it, and then wakes the lanes.
func (e *Engine) deal(tasks []*Task) {
	for _, t := range tasks {
		t.begin()
		t.seq, t.lane, t.run, t.probes = e.seq.Add(1), nil, nil, 0
	}
	if e.tracer != nil {
		e.follow(tasks)
	}
	e.held.Add(int64(len(tasks)))
	e.stats.received(len(tasks))
	if e.p.Acks != nil {
		e.acked.window.out(tasks)
	}
	tasks = e.shed(tasks)
	if e.turns != nil {
		e.turns.deal(e, tasks)
		tasks = nil
	}
	var l *lane
	for i, t := range tasks {
		if e.p.Lane != nil || i%e.p.Runs == 0 {
			l = e.pick(t)
		}
		t.lane = l
		l.load.Add(1)
		l.in.TryPut(t) // every slot has room
	}
	for _, l := range e.lanes {
		if l.in.Len() > 0 {
			signal(l.wake)
		}
	}
}

// pick finds the lane of a message.
func (e *Engine) pick(t *Task) *lane {
	if e.p.Lane != nil {
		return e.lanes[e.p.Lane(&t.Message)%uint64(len(e.lanes))]
	}
	lanes := e.lanes[:e.workers.Load()]
	best, least := lanes[0], lanes[0].load.Load()
	for _, l := range lanes[1:] {
		if least == 0 {
			break
		}
		if n := l.load.Load(); n < least {
			best, least = l, n
		}
	}
	return best
}

// shed applies the drop policy to the messages just received and returns those to be dealt.
func (e *Engine) shed(tasks []*Task) []*Task {
	if e.p.Drop == DropNone {
		return tasks
	}
	over := len(tasks) + e.waiting() - int(e.p.Threshold*float64(e.p.InFlight))
	if over <= 0 {
		return tasks
	}
	if e.p.Drop == DropNewest {
		keep := max(len(tasks)-over, 0)
		e.drop(tasks[keep:])
		return tasks[:keep]
	}
	old := e.shedding[:0]
	for ; over > 0; over-- {
		t, ok := e.longest().in.TryGet()
		if !ok { // more came at once than the buffer holds: drop the oldest of them
			break
		}
		old = append(old, t)
	}
	e.drop(old)
	e.drop(tasks[:over])
	e.shedding = old
	return tasks[over:]
}

// longest is the lane that most messages wait for.
func (e *Engine) longest() *lane {
	return slices.MaxFunc(e.lanes, func(a, b *lane) int { return cmp.Compare(a.in.Len(), b.in.Len()) })
}

// waiting is how many messages wait for a lane.
func (e *Engine) waiting() (n int) {
	for _, l := range e.lanes {
		n += l.in.Len()
	}
	return n
}

// drop leaves messages pending at their source.
func (e *Engine) drop(tasks []*Task) {
	for _, t := range tasks {
		t.ends(tidemill.Left)
	}
	e.stats.shed(len(tasks))
	e.finish(tasks)
}

// finish hands ended tasks to the settler.
func (e *Engine) finish(tasks []*Task) {
	if len(tasks) == 0 {
		return
	}
	if e.turns != nil {
		e.turns.pass(tasks)
	}
	if e.p.Acks != nil {
		e.acked.window.ended(tasks)
	}
	for rest := tasks; len(rest) > 0; { // every slot has room
		rest = rest[e.out.TryPutN(rest):]
	}
	if e.done.Add(int64(len(tasks))) >= e.grants() {
		signal(e.full)
	}
	signal(e.ending)
}

// A readPermit is the context of Receive: Pause ends it, and the next get after Resume
// makes a new one.
type readPermit struct {
	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	cancel context.CancelFunc
}

// get returns the context to receive with, or false while the engine is paused.
func (r *readPermit) get(ctx context.Context, e *Engine) (context.Context, bool) {
	r.mu.Lock()
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancel(ctx)
	}
	reading := r.ctx
	r.mu.Unlock()
	return reading, !e.paused() // in this order: a Pause from here on revokes what is returned
}

// revoke ends the context given out last.
func (r *readPermit) revoke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx != nil {
		r.cancel()
		r.ctx, r.cancel = nil, nil
	}
}
