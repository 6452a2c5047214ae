package flow

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tidemill/tidemill"
)

// maxSettle is the most ends that a source is told at once, so that its script or
// transaction stays short.
const maxSettle = 4096

// settler is the memory of the settler.
type settler struct {
	e     *Engine
	tasks []*Task
	acks  []tidemill.Settlement
	ends  []tidemill.Settlement
	again []tidemill.Settlement // ends to be sent again after an error
	loads []int64               // by lane
	clock alarm
}

// settle is the settler: it alone tells the source, counts fates and gives credit back. It
// returns when nothing more can come and everything is told, or when ctx ends.
func (e *Engine) settle(ctx context.Context) {
	d := &settler{e: e, loads: make([]int64, len(e.lanes)), clock: e.alarm(slotOut)}
	defer d.clock.stop()
	for {
		closing := e.closing.Load() // before taking
		if e.out.Len() == 0 && d.waitingAcks() == 0 {
			if closing {
				return
			}
			<-e.ending
			continue
		}
		if !closing {
			d.linger()
		}
		d.take()
		for len(d.tasks)+len(d.acks) > 0 {
			if !d.tell(ctx) {
				return
			}
		}
	}
}

// linger lets more ends come, unless none can: all credit is used and everything held has
// ended.
func (d *settler) linger() {
	e := d.e
	if e.p.Linger < 0 {
		return
	}
	over := d.clock.after(e.p.Linger)
	for e.done.Load() < e.grants() && !e.closing.Load() {
		select {
		case <-e.full:
		case <-over:
			return
		}
	}
	d.clock.stop()
}

func (d *settler) waitingAcks() int {
	if d.e.p.Acks == nil {
		return 0
	}
	return d.e.acked.ring.Len()
}

// take takes all ended messages, in the order of receipt; then acks.
func (d *settler) take() {
	e := d.e
	d.tasks = slices.Grow(d.tasks[:0], e.out.Len())
	for {
		room := d.tasks[len(d.tasks):cap(d.tasks)]
		n := e.out.TryGetN(room)
		if n == 0 {
			break
		}
		d.tasks = d.tasks[:len(d.tasks)+n]
	}
	e.done.Add(-int64(len(d.tasks)))
	slices.SortFunc(d.tasks, func(a, b *Task) int { return cmp.Compare(a.seq, b.seq) })
	if e.p.Acks != nil {
		d.acks = slices.Grow(d.acks[:0], e.acked.ring.Cap())[:e.acked.ring.Cap()]
		d.acks = d.acks[:e.acked.ring.TryGetN(d.acks)]
		signal(e.acked.room)
	}
}

var errUnanswered = errors.New("the source took the settlements without an answer to each")

// tell tells the source the first of the ends that were taken, repeats until it has
// answered each, and releases those. It returns false if ctx ended before.
func (d *settler) tell(ctx context.Context) bool {
	e := d.e
	ours := min(len(d.tasks), maxSettle)
	theirs := min(len(d.acks), maxSettle-ours)
	// An ack that came as soon as its message was handed out meets the message's own end,
	// Left, in this call. Sources promise that the ack wins.
	d.ends = append(d.ends[:0], d.acks[:theirs]...)
	for _, t := range d.tasks[:ours] {
		d.ends = append(d.ends, t.end) // Unanswered: the source answers in the copy
	}
	began := e.p.Now()
	err := e.p.Source.Settle(ctx, d.ends)
	e.credit.settled(e.p.Now().Sub(began))
	if err != nil {
		forget(d.ends[:theirs])
	}
	for wrong := 1; slices.ContainsFunc(d.ends, unanswered); wrong++ {
		if err == nil {
			err = errUnanswered
		}
		if ctx.Err() == nil {
			e.trouble("settle", err)
			d.clock.wait(ctx, e.p.Backoff.Wait(wrong, e.chance.out.Float64()))
		}
		if ctx.Err() != nil {
			e.stats.failedTo(err, e.p.Now())
			d.letGo(ours, theirs)
			return false
		}
		d.again = d.again[:0]
		for _, end := range d.ends {
			if unanswered(end) {
				d.again = append(d.again, end)
			}
		}
		err = e.p.Source.Settle(ctx, d.again)
		next := 0
		for i := range d.ends {
			if unanswered(d.ends[i]) {
				d.ends[i] = d.again[next] // a source may also correct how it really ended
				next++
			}
		}
	}
	d.letGo(ours, theirs)
	return true
}

// forget gives up unanswered ends from outside that wanted a message again. Whether they were
// counted is not known, and they name no hand-out by which the source could tell, so sending
// them again might count twice. Without them the message just comes again when its lease
// ends.
func forget(outside []tidemill.Settlement) {
	for i := range outside {
		if e := &outside[i]; unanswered(*e) && e.End == tidemill.Again && e.Mark == (tidemill.Mark{}) {
			e.Outcome = tidemill.Stale
		}
	}
}

func unanswered(s tidemill.Settlement) bool { return s.Outcome == tidemill.Unanswered }

// letGo counts the answers, and gives slots and credit back.
func (d *settler) letGo(ours, theirs int) {
	e := d.e
	e.stats.told(e.p.Now(), d.ends, theirs)
	if e.p.Settled != nil {
		e.p.Settled(d.ends)
	}
	if e.watcher != nil && e.watcher.On() {
		d.show(theirs)
	}
	e.acked.took(d.ends[:theirs])
	tasks := d.tasks[:ours]
	if e.tracer != nil {
		d.followed(tasks, d.ends[theirs:])
	}
	answered, done := 0, 0
	for i, t := range tasks {
		if t.lane != nil {
			d.loads[t.lane.n]++
		}
		if end := &d.ends[theirs+i]; !unanswered(*end) {
			answered++
			if end.End == tidemill.Done {
				done++
			}
		}
		clear(t.end.Next) // the emitted messages are free again
		clean(&t.Message) // now, not when the slot is needed again: there may be thousands
		t.row, t.span = nil, nil
	}
	for i, n := range d.loads {
		if n > 0 {
			e.lanes[i].load.Add(-n)
		}
	}
	clear(d.loads)
	for rest := tasks; len(rest) > 0; { // every slot has room
		rest = rest[e.free.TryPutN(rest):]
	}
	e.held.Add(-int64(answered))
	e.credit.done.Add(int64(done))
	d.tasks = d.tasks[ours:]
	d.acks = d.acks[theirs:]
	signal(e.knock)
}

// show shows the watcher the ends; the first of them came from outside.
func (d *settler) show(theirs int) {
	d.e.watcher.Ended(d.ends, func(i int) *tidemill.Message {
		if i < theirs {
			return nil
		}
		return &d.tasks[i-theirs].Message
	})
}
