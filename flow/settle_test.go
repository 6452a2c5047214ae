package flow

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
)

// told is a source that writes down what it is told.
type told struct {
	still
	calls *[][]tidemill.Settlement
	errs  []error // of the first calls, which answer nothing
}

func (s told) Settle(_ context.Context, ends []tidemill.Settlement) error {
	n := len(*s.calls)
	*s.calls = append(*s.calls, append([]tidemill.Settlement(nil), ends...))
	if n < len(s.errs) {
		return s.errs[n]
	}
	for i := range ends {
		ends[i].Outcome = tidemill.Applied
	}
	return nil
}

// What a source is told in one call: acks first, then ends in the order of receipt, never
// more than it can take; and what is given back after that.
func TestWhatASourceIsToldAtOnce(t *testing.T) {
	now := gateStart
	for _, c := range []struct {
		tasks, acks int
		want        string // acks + ends of each call
	}{
		{1, 0, "[0+1]"}, {0, 3, "[3+0]"}, {2, 3, "[3+2]"}, {4096, 0, "[0+4096]"}, {4097, 0, "[0+4096 0+1]"},
		{5000, 100, "[0+4096 100+904]"}, {4000, 200, "[96+4000 104+0]"}, {0, 5000, "[4096+0 904+0]"},
	} {
		var calls [][]tidemill.Settlement
		e := bare(t, tidemill.Traits{}, &now, Pipeline{Source: told{still: still{tidemill.Traits{Parks: true}}, calls: &calls}, Lanes: 2, InFlight: 8000, Acks: acksNever})
		d := &settler{e: e, loads: make([]int64, 2), clock: e.alarm(slotOut), tasks: numbered(c.tasks)}
		for i, task := range d.tasks {
			task.lane = e.lanes[i%2]
			task.lane.load.Add(1)
			task.Payload, task.Key, task.row = []byte("x"), []byte("y"), []byte("z")
			task.Emit(&tidemill.Message{})
			task.Deliver()
		}
		e.held.Store(int64(c.tasks))
		all := d.tasks
		for i := range c.acks {
			d.acks = append(d.acks, tidemill.Settlement{ID: fmt.Sprint("ack ", i), Fate: tidemill.Delivered})
		}
		e.acked.awaited.Store(int64(c.acks) + 5)
		for len(d.tasks)+len(d.acks) > 0 {
			if !d.tell(t.Context()) {
				t.Fatal("it gave up")
			}
		}
		var got []string
		last := -1
		for _, call := range calls {
			acks := 0
			for _, end := range call {
				var n int
				if _, err := fmt.Sscanf(end.ID, "ack %d", &n); err == nil {
					acks++
				} else if _, err := fmt.Sscan(end.ID, &n); err != nil || n <= last {
					t.Errorf("%d is told after %d", n, last)
				} else {
					last = n
				}
			}
			got = append(got, fmt.Sprint(acks, "+", len(call)-acks))
		}
		same(t, fmt.Sprint(c.tasks, " ends and ", c.acks, " acks"), got, c.want)
		st := e.Stats()
		if st.InFlight != 0 || st.Lanes[0].Held != 0 || st.Lanes[1].Held != 0 || st.Awaited != 5 || int(st.Acked) != c.acks ||
			int(st.Settled.Delivered) != c.tasks+c.acks || e.free.Len() != c.tasks || int(e.credit.done.Load()) != c.tasks {
			t.Errorf("after %d ends and %d acks: %+v, %d free, %d done", c.tasks, c.acks, st, e.free.Len(), e.credit.done.Load())
		}
		for _, task := range all {
			if task.ID != "" || len(task.Payload) != 0 || task.row != nil || task.end.Next[:1][0] != nil {
				t.Fatalf("left in a slot: %+v", task)
			}
		}
		if len(e.knock) != 1 {
			t.Error("credit came back, and nobody was told")
		}
	}
}

// Credit for ends that are not done is given back, and does not count for the speed; an
// unanswered end counts for neither.
func TestWhatIsCountedAsDone(t *testing.T) {
	now := gateStart
	e := bare(t, tidemill.Traits{}, &now, Pipeline{InFlight: 10})
	d := &settler{e: e, loads: make([]int64, 1), tasks: numbered(3)}
	e.held.Store(3)
	d.ends = []tidemill.Settlement{{Outcome: tidemill.Applied, End: tidemill.Done}, {Outcome: tidemill.Applied, End: tidemill.Again}, {}}
	d.letGo(3, 0)
	if e.held.Load() != 1 || e.credit.done.Load() != 1 || e.free.Len() != 3 {
		t.Errorf("%d held, %d done, %d free", e.held.Load(), e.credit.done.Load(), e.free.Len())
	}
}

// tended is a source with leases and a gate that says how long each call may take.
type tended struct {
	still
	took *[]string
}

func (s tended) note(ctx context.Context, what string) error {
	end, _ := ctx.Deadline()
	*s.took = append(*s.took, fmt.Sprint(what, " ", time.Until(end)))
	return nil
}

func (s tended) Keep(ctx context.Context) error { return s.note(ctx, "keep") }

func (s tended) Gate(ctx context.Context, _ time.Time, _ int) error { return s.note(ctx, "gate") }

// No call for leases or the gate takes longer than half of what leases are kept for, nor
// more than five seconds.
func TestHowLongLeasesAndGateMayTake(t *testing.T) {
	for keep, want := range map[time.Duration]string{
		0:                "[gate 5s]",
		4 * time.Second:  "[gate 2s keep 2s keep 2s keep 2s keep 2s]",
		9 * time.Second:  "[gate 4.5s keep 4.5s keep 4.5s]",
		10 * time.Second: "[gate 5s keep 5s]",
		18 * time.Second: "[gate 5s keep 5s]",
	} {
		synctest.Test(t, func(t *testing.T) {
			var took []string
			e, err := New(Pipeline{Name: "p", Source: tended{still{tidemill.Traits{Parks: true, Keep: keep}}, &took}, Work: func(Env) Work { return doNothing{} }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan error)
			go func() { over <- e.Run(ctx) }()
			e.Trip(time.Hour)
			time.Sleep(19 * time.Second)
			stop()
			if err := <-over; err != nil {
				t.Error(err)
			}
			same(t, fmt.Sprint("kept each ", keep), took, want)
		})
	}
}

// The stop is not told of an acknowledgement while others are still awaited.
func TestWhenNoAckIsAwaitedAnyMore(t *testing.T) {
	now := gateStart
	e := bare(t, tidemill.Traits{}, &now, Pipeline{Acks: acksNever})
	applied, stale := tidemill.Settlement{Outcome: tidemill.Applied}, tidemill.Settlement{Outcome: tidemill.Stale}
	e.acked.awaited.Store(3)
	for i, c := range []struct {
		ends []tidemill.Settlement
		left int64
		idle int
	}{
		{[]tidemill.Settlement{applied, stale}, 2, 0},
		{nil, 2, 0},
		{[]tidemill.Settlement{applied, applied}, 0, 1},
		{[]tidemill.Settlement{stale}, 0, 0},
		{[]tidemill.Settlement{applied}, -1, 1}, // of what was left by another instance
	} {
		e.acked.took(c.ends)
		if e.acked.awaited.Load() != c.left || len(e.acked.idle) != c.idle {
			t.Errorf("step %d: %d are awaited, woken %d times", i, e.acked.awaited.Load(), len(e.acked.idle))
		}
		for len(e.acked.idle) > 0 {
			<-e.acked.idle
		}
	}
	same(t, "shown as awaited", e.Stats().Awaited, 0)
}
