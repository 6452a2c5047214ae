package flow_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

func TestStuckSinkObeysGrace(t *testing.T) {
	for _, delays := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Delays: delays}).add(messages(40)...)
			dead := &letters{}
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Lanes: 4, Batch: 4, Grace: 5 * time.Second,
				Work: batches(func(ctx context.Context, _ []*flow.Task) error {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), flow.ErrGrace) {
						t.Errorf("cause: %v", context.Cause(ctx))
					}
					return ctx.Err()
				}).work})
			rest(time.Second)
			begin := time.Now()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin).Round(10 * time.Millisecond); took != 5*time.Second {
				t.Errorf("stop took %v", took)
			}
			for _, f := range s.fates() {
				if want := map[bool]string{false: " left", true: " again 0s burn=false"}[delays]; !strings.HasSuffix(f, want) {
					t.Errorf("%s, want%s", f, want)
				}
			}
			if n := len(s.fates()); n != 32 || len(dead.put) != 0 {
				t.Errorf("%d ends and %d letters, want 32 and 0", n, len(dead.put))
			}
		})
	}
}

func TestStopFinishesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(15)...)
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 10, Age: time.Hour,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Second); return nil }).work})
		rest(time.Millisecond)
		if err := stop(); err != nil {
			t.Error(err)
		}
		s.balance(t)
	})
}

func TestSourceThatCannotBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(3)...)
		s.tell = slices.Repeat([]error{errDown}, 1000)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 3, Telling: 3 * time.Second,
			Work: each(func(context.Context, *flow.Task) error { return nil }).work})
		rest(time.Second)
		begin := time.Now()
		err := stop()
		if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "3 messages") {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(begin); took.Round(time.Millisecond) != 3*time.Second {
			t.Errorf("took %v", took)
		}
		if st := e.Stats(); st.InFlight != 3 || st.Lanes[0].Held != 0 || !errors.Is(st.Last, errDown) {
			t.Errorf("nobody knows what became of them: %+v", st)
		}
	})
}

func TestLeasesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasing{newSource(tidemill.Traits{Parks: true, Keep: 10 * time.Second}).add(messages(1)...)}
		begin := time.Now()
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Grace: time.Hour,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(65 * time.Second); return nil }).work})
		rest(35 * time.Second)
		stop() // also while lanes finish
		var at []string
		for _, k := range s.keeps {
			at = append(at, k.Sub(begin).Round(time.Second).String())
		}
		equal(t, "keeps", at, []string{"10s", "20s", "30s", "40s", "50s", "1m0s"})
	})
}
