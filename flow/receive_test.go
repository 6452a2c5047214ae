package flow

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

func acksNever(ctx context.Context, _ []tidemill.Settlement) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// numbered are tasks that were received, with numbers from 1.
func numbered(n int) (l []*Task) {
	for i := range n {
		t := NewTask(tidemill.Message{ID: fmt.Sprint(i + 1)})
		t.seq = uint64(i + 1)
		l = append(l, t)
	}
	return l
}

// How many messages are asked for at once, and where none are, how long to wait.
func TestHowManyAreAskedFor(t *testing.T) {
	probing := policy.Breaker{Fails: 1, Open: time.Second, Jitter: -1, Probes: 3}
	half := func(e *Engine, now *time.Time) {
		e.gate.trip(*now, time.Second, "")
		*now = now.Add(time.Second)
	}
	wait := func(n int) func(*Engine, *time.Time) {
		return func(e *Engine, _ *time.Time) { e.lanes[0].in.TryPutN(numbered(n)) }
	}
	for _, c := range []struct {
		why    string
		p      Pipeline
		before func(*Engine, *time.Time)
		ask    int
		wait   time.Duration
	}{
		{"all there is room for", Pipeline{InFlight: 10}, nil, 10, 0},
		{"no more than what is held leaves", Pipeline{InFlight: 10}, func(e *Engine, _ *time.Time) { e.held.Store(4) }, 6, 0},
		{"nothing where all is held", Pipeline{InFlight: 10}, func(e *Engine, _ *time.Time) { e.held.Store(10) }, 0, 0},
		{"nothing where more is held than now may be", Pipeline{InFlight: 10}, func(e *Engine, _ *time.Time) { e.held.Store(12) }, 0, 0},
		{"no more than reads well", Pipeline{InFlight: 5000}, nil, 1024, 0},
		{"and what the drop policy is to judge", Pipeline{InFlight: 10, Drop: DropNewest}, nil, 20, 0},
		{"of which reads are bounded too", Pipeline{InFlight: 5000, Drop: DropNewest}, func(e *Engine, _ *time.Time) { e.held.Store(6000) }, 24, 0},
		{"probes", Pipeline{InFlight: 10, Breaker: probing}, half, 3, 0},
		{"no probes where something is held", Pipeline{InFlight: 10, Breaker: probing}, func(e *Engine, now *time.Time) { half(e, now); e.held.Store(1) }, 0, 0},
		{"no probes where all are out", Pipeline{InFlight: 10, Breaker: probing}, func(e *Engine, now *time.Time) { half(e, now); e.gate.enter(*now, 3) }, 0, 0},
		{"what may be out for acks", Pipeline{InFlight: 500, Acks: acksNever}, nil, 64, 0},
		{"less what is out", Pipeline{InFlight: 500, Acks: acksNever}, func(e *Engine, _ *time.Time) { e.acked.window.out(numbered(60)) }, 4, 0},
		{"acks are waited for", Pipeline{InFlight: 500, Acks: acksNever}, func(e *Engine, _ *time.Time) { e.acked.window.out(numbered(64)) }, 0, lately},
		{"ahead of the lanes", Pipeline{InFlight: 900, Ahead: 20}, nil, 20, 0},
		{"ahead, less what waits", Pipeline{InFlight: 900, Ahead: 20}, wait(10), 10, 0},
		{"ahead, in large reads", Pipeline{InFlight: 900, Ahead: 20}, wait(11), 0, 0},
		{"ahead, an odd number", Pipeline{InFlight: 900, Ahead: 5}, wait(2), 3, 0},
		{"ahead, an odd number, in large reads", Pipeline{InFlight: 900, Ahead: 5}, wait(3), 0, 0},
		{"ahead by one", Pipeline{InFlight: 900, Ahead: 1}, nil, 1, 0},
	} {
		now := gateStart
		e := bare(t, tidemill.Traits{}, &now, c.p)
		if c.before != nil {
			c.before(e, &now)
		}
		var stock []*Task
		ask, wait := e.ask(&stock)
		if ask != c.ask || wait != c.wait || len(stock) < ask || slices.Contains(stock, nil) {
			t.Errorf("%s: asked for %d with slots for %d, wait %v; want %d, %v", c.why, ask, len(stock), wait, c.ask, c.wait)
		}
	}
}

// Slots that came back, and those prepared, are used before any is made.
func TestSlotsAreUsedAgain(t *testing.T) {
	now := gateStart
	for prepared, want := range map[int]int{0: 0, 4: 4, 99: 10} {
		e := bare(t, tidemill.Traits{}, &now, Pipeline{InFlight: 10, Prepared: prepared})
		same(t, fmt.Sprint("free of ", prepared), e.free.Len(), want)
		var stock []*Task
		e.ask(&stock)
		same(t, "left of them", e.free.Len(), 0)
	}
	e := bare(t, tidemill.Traits{}, &now, Pipeline{InFlight: 10})
	stock := numbered(3)
	e.free.TryPutN(numbered(7))
	if ask, _ := e.ask(&stock); ask != 10 || len(stock) != 10 || e.free.Len() != 0 {
		t.Errorf("asked for %d with %d at hand and %d free", ask, len(stock), e.free.Len())
	}
}

// What gives way where more came than there is room for.
func TestWhatIsShed(t *testing.T) {
	now := gateStart
	for _, c := range []struct {
		why       string
		drop      Drop
		threshold float64
		waits     [3]int // in lanes
		came      int
		dealt     int // of what came
		left      [3]int
		dropped   string // the ids of what came (c) and what waited (by lane)
	}{
		{"nothing, if so told", DropNone, .1, [3]int{5}, 8, 8, [3]int{5}, "[]"},
		{"nothing, while there is room", DropNewest, .5, [3]int{2}, 3, 3, [3]int{2}, "[]"},
		{"the newest", DropNewest, .5, [3]int{2}, 6, 3, [3]int{2}, "[c4 c5 c6]"},
		{"all that came", DropNewest, .5, [3]int{9}, 2, 0, [3]int{9}, "[c1 c2]"},
		{"the oldest of the fullest lane", DropOldest, .5, [3]int{1, 3, 2}, 2, 2, [3]int{1, 1, 1}, "[1-1 1-2 2-1]"},
		{"then the oldest of what came", DropOldest, .5, [3]int{1, 1, 0}, 8, 5, [3]int{}, "[0-1 1-1 c1 c2 c3]"},
	} {
		e := bare(t, tidemill.Traits{}, &now, Pipeline{Lanes: 3, InFlight: 10, Drop: c.drop, Threshold: c.threshold})
		for i, n := range c.waits {
			for j := range n {
				e.lanes[i].in.TryPut(NewTask(tidemill.Message{ID: fmt.Sprint(i, "-", j+1)}))
			}
		}
		var came []*Task
		for i := range c.came {
			came = append(came, NewTask(tidemill.Message{ID: fmt.Sprint("c", i+1)}))
		}
		rest := e.shed(came)
		dropped := []string{}
		for {
			task, ok := e.out.TryGet()
			if !ok {
				break
			}
			if dropped = append(dropped, task.ID); task.end.End != tidemill.Left {
				t.Errorf("%s: %s ends as %+v", c.why, task.ID, task.end)
			}
		}
		slices.Sort(dropped)
		var left [3]int
		for i, l := range e.lanes {
			left[i] = l.in.Len()
		}
		if fmt.Sprint(dropped) != c.dropped || left != c.left || len(rest) != c.dealt || int(e.Stats().Shed) != len(dropped) {
			t.Errorf("%s: dropped %v of which %d are counted, %v wait, %d are dealt; want %+v", c.why, dropped, e.Stats().Shed, left, len(rest), c)
		}
	}
}

// The emptiest lane of those that get messages; the first where several are.
func TestTheLaneOfAMessage(t *testing.T) {
	now := gateStart
	e := bare(t, tidemill.Traits{}, &now, Pipeline{Lanes: 4})
	for _, c := range []struct {
		loads   [4]int64
		workers int64
		want    int
	}{
		{[4]int64{0, 0, 0, 0}, 4, 0}, {[4]int64{3, 1, 2, 1}, 4, 1}, {[4]int64{3, 1, 2, 0}, 4, 3}, {[4]int64{3, 1, 2, 0}, 3, 1}, {[4]int64{3, 1, 2, 0}, 1, 0},
	} {
		e.workers.Store(c.workers)
		for i, n := range c.loads {
			e.lanes[i].load.Store(n)
		}
		same(t, fmt.Sprint(c.loads, " of ", c.workers), e.pick(NewTask(tidemill.Message{})).n, c.want)
	}
	e = bare(t, tidemill.Traits{}, &now, Pipeline{Lanes: 4, Lane: func(m *tidemill.Message) uint64 { return uint64(len(m.ID)) }})
	same(t, "by its number", e.pick(NewTask(tidemill.Message{ID: "123456"})).n, 2)
}

// Messages that came together go to lanes in runs, which are woken once all are dealt.
func TestHowMessagesAreDealt(t *testing.T) {
	now := gateStart
	for runs, want := range map[int]string{1: "[3 2]", 2: "[3 2]", 3: "[3 2]", 4: "[4 1]"} {
		e := bare(t, tidemill.Traits{}, &now, Pipeline{Lanes: 2, InFlight: 10, Runs: runs})
		tasks := numbered(5)
		tasks[3].Fail(errBare)
		tasks[3].probes, tasks[3].run = 7, &run{}
		e.deal(tasks)
		var loads []int64
		for _, l := range e.lanes {
			loads = append(loads, l.load.Load())
			if int64(l.in.Len()) != l.load.Load() || len(l.wake) != 1 {
				t.Errorf("runs of %d: %d are in the ring of a lane that was dealt %d, it is woken %d times", runs, l.in.Len(), l.load.Load(), len(l.wake))
			}
		}
		same(t, fmt.Sprint("runs of ", runs), loads, want)
		if st := e.Stats(); st.Received != 5 || st.InFlight != 5 || st.Buffered != 5 || e.seq.Load() != 5 {
			t.Errorf("%+v", st)
		}
		if x := tasks[3]; !x.Live() || x.seq != 4 || x.probes != 0 || x.run != nil || x.lane == nil {
			t.Errorf("a slot that was used before: %+v", x)
		}
	}
}

// A lane that got nothing is not woken.
func TestALaneWithoutMessagesSleeps(t *testing.T) {
	now := gateStart
	e := bare(t, tidemill.Traits{}, &now, Pipeline{Lanes: 2, InFlight: 10})
	e.deal(numbered(1))
	same(t, "woken", fmt.Sprint(len(e.lanes[0].wake), len(e.lanes[1].wake)), "1 0")
}

// How much may be held: what lanes need, and more the faster it is done.
func TestHowMuchMayBeHeld(t *testing.T) {
	now := gateStart
	for _, c := range []struct {
		why    string
		p      Pipeline
		least  int
		most   int
		grants int64
	}{
		{"twice what lanes work on", Pipeline{Lanes: 10}, 20, 1024, 20},
		{"of one lane as many as of ten", Pipeline{}, 2, 1024, 2},
		{"of many ten times that is enough", Pipeline{Lanes: 12, Batch: 10}, 240, 2400, 240},
		{"bounded", Pipeline{Lanes: 100, Batch: 10}, 2000, 4096, 2000},
		{"but never less than lanes need", Pipeline{Lanes: 300, Batch: 10}, 6000, 6000, 6000},
		{"as given", Pipeline{Lanes: 10, InFlight: 30}, 30, 30, 30},
		{"as given, and fewer for now", Pipeline{Lanes: 10, InFlight: 30, Hold: func() int { return 20 }}, 30, 30, 20},
		{"never more than given", Pipeline{Lanes: 10, InFlight: 30, Hold: func() int { return 40 }}, 30, 30, 30},
		{"never fewer than lanes", Pipeline{Lanes: 10, InFlight: 30, Hold: func() int { return -1 }}, 30, 30, 10},
		{"a share of those", Pipeline{Lanes: 10, InFlight: 30, Hold: func() int { return 24 }, Threshold: .5}, 30, 30, 12},
		{"a share", Pipeline{Lanes: 10, InFlight: 30, Threshold: .5}, 30, 30, 15},
		{"each lane has one", Pipeline{Lanes: 10, InFlight: 10, Threshold: .5}, 10, 10, 10},
		{"with a drop policy no more than lanes need, and what it judges", Pipeline{Lanes: 10, Drop: DropOldest, Threshold: .5}, 20, 20, 40},
	} {
		e := bare(t, tidemill.Traits{}, &now, c.p)
		if e.p.least != c.least || e.p.InFlight != c.most || e.grants() != c.grants {
			t.Errorf("%s: %d to %d, now %d; want %+v", c.why, e.p.least, e.p.InFlight, e.grants(), c)
		}
	}
	e := bare(t, tidemill.Traits{}, &now, Pipeline{Lanes: 10})
	e.tune(now)
	for _, c := range []struct {
		after time.Duration
		done  int64
		want  int64
	}{
		{pace - 1, 30, 20}, // too early to say
		{1, 10, 200},       // 40 in 5 ms are 200 in 25
		{5 * time.Millisecond, 20, 100},
		{10 * time.Millisecond, 20, 50},
		{5 * time.Millisecond, 1, 20},
		{5 * time.Millisecond, 200, 1000},
		{5 * time.Millisecond, 1000, 1024},
	} {
		now = now.Add(c.after)
		e.credit.done.Add(c.done)
		e.tune(now)
		same(t, fmt.Sprintf("%d more in %v", c.done, c.after), e.grants(), c.want)
	}
	for _, c := range []struct{ call, lap, ahead time.Duration }{
		{10 * time.Millisecond, 40 * time.Millisecond, 65 * time.Millisecond},
		{time.Hour, 250 * time.Millisecond, 250 * time.Millisecond},
		{0, 5 * time.Millisecond, 25 * time.Millisecond},
	} {
		before := e.grants()
		for range 200 {
			e.credit.settled(c.call)
		}
		same(t, "the average of calls", time.Duration(e.credit.call.Load()).Round(time.Microsecond), c.call)
		e.credit.call.Store(int64(c.call))
		e.credit.done.Add(2 * int64(c.lap/time.Millisecond))
		e.tune(now.Add(c.lap - 1))
		same(t, fmt.Sprintf("too early to say for a source that takes %v", c.call), e.grants(), before)
		now = now.Add(c.lap)
		e.tune(now)
		same(t, fmt.Sprintf("2 a millisecond, and a source that takes %v", c.call), e.grants(), int64(2*c.ahead/time.Millisecond))
	}
	e.credit.wish.Store(1024)
	e.workers.Store(5)
	same(t, "half the lanes, fast", e.grants(), 512)
	e.credit.wish.Store(0)
	same(t, "half the lanes, slow", e.grants(), 10)
	e = bare(t, tidemill.Traits{}, &now, Pipeline{Lanes: 10, InFlight: 30})
	e.credit.done.Add(1000)
	e.tune(now)
	same(t, "of a number that is given nothing is measured", e.credit.wish.Load(), 0)
}

// What ended otherwise than by being left waits for no ack, and makes room.
func TestWhatWaitsForNoAckMakesRoom(t *testing.T) {
	now := gateStart
	e := bare(t, tidemill.Traits{}, &now, Pipeline{InFlight: 500, Acks: acksNever})
	tasks := numbered(64)
	e.deal(tasks)
	for i, task := range tasks {
		if task.Deliver(); i < 10 {
			task.Defer()
		}
	}
	e.finish(tasks)
	room, _ := e.acked.window.room(now)
	same(t, "room", room, 54)
}

// A wait ends when its time is up, after a knock, or with the context; one for no time ends
// after a knock alone.
func TestRests(t *testing.T) {
	for _, c := range []struct {
		d, knock, end time.Duration // 0: never
		want          time.Duration
	}{
		{time.Minute, 0, 0, time.Minute}, {1, 0, time.Hour, 0}, {time.Minute, time.Second, 0, time.Second}, {time.Minute, 0, time.Second, time.Second},
		{0, time.Second, 0, time.Second}, {0, 0, time.Second, time.Second}, {-time.Second, time.Hour, 0, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			now := gateStart
			e := bare(t, tidemill.Traits{}, &now, Pipeline{})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.end > 0 {
				time.AfterFunc(c.end, stop)
			}
			if c.knock > 0 {
				time.AfterFunc(c.knock, func() { signal(e.knock) })
			}
			clock, begin := e.alarm(slotIn), time.Now()
			e.rest(ctx, &clock, c.d)
			same(t, fmt.Sprintf("%+v", c), time.Since(begin).Round(time.Microsecond), c.want)
		})
	}
}

// A lane works on one run at a time, however little it is and whatever waits behind it.
func TestRunsAreNotMixed(t *testing.T) {
	now := gateStart
	l := bare(t, tidemill.Traits{}, &now, Pipeline{Batch: 4, InFlight: 20}).lanes[0]
	l.e.turns = new(turns)
	tasks := numbered(8)
	for i, r := range []int{0, 1, 1, 2, 3, 3, 3, 3} {
		if tasks[i].run = new(run); i > 0 && r == []int{0, 1, 1, 2, 3, 3, 3, 3}[i-1] {
			tasks[i].run = tasks[i-1].run
		}
	}
	l.in.TryPutN(tasks)
	var got []string
	for range 5 {
		l.fill()
		line := ""
		for _, task := range l.batch {
			line += task.ID
		}
		got, l.batch = append(got, line), l.batch[:0]
	}
	same(t, "batches", got, "[1 23 4 5678 ]")
}
