package flow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// lagging is a source that takes a second for each call of Settle.
type lagging struct{ *memorySource }

func (s lagging) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	time.Sleep(time.Second)
	return s.memorySource.Settle(ctx, ends)
}

// Acks that come faster than the source can be told of them wait, and none is lost.
func TestMoreAcksThanThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 5
		e, stop := start(t, flow.Pipeline{Name: "p", Source: lagging{newSource(tidemill.Traits{Parks: true})}, Work: nothing.work,
			Acks: func(ctx context.Context, into []tidemill.Settlement) (int, error) {
				if left == 0 {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				left--
				for i := range into {
					into[i].ID = "of nobody"
				}
				return len(into), nil
			}})
		rest(time.Minute)
		equal(t, "acks that came too late", e.Stats().Stale, 5*1024)
		_ = stop()
	})
}

// Waits after errors grow, and begin anew after a call that went well.
func TestWaitsBetweenCallsForAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		_, stop := start(t, flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}), Work: nothing.work,
			Backoff: policy.Retry{Tries: -1, Base: time.Second, Factor: 2},
			Acks: func(ctx context.Context, _ []tidemill.Settlement) (int, error) {
				at = append(at, time.Since(begin).Round(time.Millisecond))
				switch {
				case len(at) > 5:
					<-ctx.Done()
					return 0, ctx.Err()
				case len(at) == 3:
					return 0, nil
				}
				return 0, errDown
			}})
		rest(time.Minute)
		equal(t, "calls", at, "[0s 1s 3s 3s 4s 6s]")
		_ = stop()
	})
}

// While acks are waited for, Stats says so: until they are taken not to come.
func TestWaitingForAcksIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, stop := start(t, flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}).add(messages(100)...),
			Acks: func(ctx context.Context, _ []tidemill.Settlement) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
			Work: each(func(_ context.Context, t *flow.Task) error { t.Defer(); return nil }).work})
		for _, want := range []bool{true, false} {
			rest(9 * time.Second)
			if st := e.Stats(); st.Paced != want {
				t.Errorf("paced is %v with %d out", st.Paced, st.Awaited)
			}
		}
		_ = stop()
	})
}
