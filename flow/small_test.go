package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

// A system can be paused as often as one likes.
func TestASystemIsPausedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		sys := flow.NewSystem(flow.SystemParts{Name: "sys", Loops: []flow.Loop{{Name: "l", Every: time.Minute, Do: func(context.Context) error { runs++; return nil }}}})
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- sys.Run(ctx) }()
		synctest.Wait()
		for i := range 3 {
			if err := sys.Pause(); err != nil {
				t.Error(err)
			}
			rest(time.Hour)
			equal(t, "runs while paused", runs, i)
			if err := sys.Resume(); err != nil {
				t.Error(err)
			}
			rest(30 * time.Second)
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

func TestAnOrderRefusesRuns(t *testing.T) {
	for runs, taken := range map[int]bool{0: true, 1: true, 2: false} {
		_, err := flow.New(flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}), Runs: runs, Work: new(claims).steps(always, always, 0).Lane})
		if (err == nil) != taken {
			t.Errorf("runs of %d: %v", runs, err)
		}
	}
}

// A stop lingers for nothing, and says of a single message that it could not be told.
func TestAStopDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 4, Linger: time.Hour, Work: nothing.work})
		rest(time.Second)
		begin := time.Now()
		if err := stop(); err != nil || time.Since(begin) > time.Second {
			t.Errorf("the stop took %v: %v", time.Since(begin), err)
		}
		s.balance(t)

		s = newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		for range 1000 {
			s.tell = append(s.tell, errDown)
		}
		_, stop = start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work})
		rest(time.Second)
		if err := stop(); err == nil || !strings.Contains(err.Error(), "1 messages") {
			t.Errorf("Run: %v", err)
		}
	})
}

// A stage that is through has moved on, whatever the next one does.
func TestAStageThatIsThroughHasTurned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(context.Context, []*item) error { time.Sleep(10 * time.Minute); return nil }
		steps := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{{Name: "a", Do: wait}, {Name: "b", Do: wait}}}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}).add(messages(1)...), InFlight: 1, Work: steps.Lane})
		rest(15 * time.Minute)
		equal(t, "turned before", time.Since(e.Stats().Turned).Round(time.Second), "5m0s")
		rest(time.Hour)
		_ = stop()
	})
}

// listening is where acks come from, one call after the other.
type listening struct {
	calls chan func([]tidemill.Settlement) int
	late  []string // what comes in after the stop, one at a time
}

func (l *listening) receive(ctx context.Context, into []tidemill.Settlement) (int, error) {
	select {
	case call := <-l.calls:
		return call(into), nil
	case <-ctx.Done():
		if len(l.late) == 0 {
			return 0, ctx.Err()
		}
		into[0].ID, into[0].Fate, l.late = l.late[0], tidemill.Delivered, l.late[1:]
		return 1, nil
	}
}

var deferring = each(func(_ context.Context, t *flow.Task) error { t.Defer(); return nil })

// What came in before a stop is taken after it, to the last one; and of an ack nothing is left
// for the next.
func TestAcksOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(6)...)
		l := &listening{calls: make(chan func([]tidemill.Settlement) int), late: []string{"4", "5", "6"}}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 6, AckGrace: time.Second, Acks: l.receive, Work: deferring.work})
		rest(time.Second)
		l.calls <- func(into []tidemill.Settlement) int {
			into[0] = tidemill.Settlement{ID: "1", Mark: tidemill.Mark{Lo: 1, Epoch: 1}, Fate: tidemill.Skipped, Cause: "why", Records: tidemill.Count{Skipped: 1}}
			return 1
		}
		rest(time.Second)
		l.calls <- func(into []tidemill.Settlement) int { into[0].ID, into[0].Fate = "2", tidemill.Delivered; return 1 }
		rest(time.Second)
		l.calls <- func([]tidemill.Settlement) int { return 0 }
		rest(time.Second)
		l.calls <- func([]tidemill.Settlement) int { return -1 }
		rest(time.Second)
		if st := e.Stats(); st.Stale != 0 || st.Acked != 2 || st.Awaited != 4 {
			t.Errorf("%d stale, %d acked, %d awaited", st.Stale, st.Acked, st.Awaited)
		}
		l.calls <- func(into []tidemill.Settlement) int { into[0].ID, into[0].Fate = "3", tidemill.Delivered; return 1 }
		if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ends := s.fates()[6:] // after all were left
		equal(t, "ends", ends, "[1 skipped 2 delivered 3 delivered 4 delivered 5 delivered 6 delivered]")
	})
}

// An ack makes room at once for what waits for it.
func TestAnAckMakesRoomAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(200)...)
		l := &listening{calls: make(chan func([]tidemill.Settlement) int)}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 1000, Acks: l.receive, Work: deferring.work})
		rest(time.Second)
		equal(t, "received before an ack", e.Stats().Received, 64)
		l.calls <- func(into []tidemill.Settlement) int {
			for i := range 10 {
				into[i].ID, into[i].Fate = fmt.Sprint(i+1), tidemill.Delivered
			}
			return 10
		}
		rest(10 * time.Millisecond)
		equal(t, "received after ten", e.Stats().Received, 64+10+10)
		_ = stop()
	})
}
