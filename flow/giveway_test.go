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

// A lane rests before each batch for as long as it is told, and is asked with what its last one took.
func TestLanesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var starts, asked, lates []time.Duration
		p := flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}).add(messages(6)...), Batch: 2,
			GiveWay: func(_ time.Time, worked, late time.Duration) time.Duration {
				asked = append(asked, worked)
				lates = append(lates, late)
				return 3 * worked
			},
			Work: each(func(context.Context, *flow.Task) error {
				starts = append(starts, time.Since(began))
				time.Sleep(time.Second)
				return nil
			}).work}
		e, stop := start(t, p)
		rest(time.Minute)
		if n := e.Stats().Settled.Delivered; n != 6 {
			t.Fatalf("%d were delivered, want 6", n)
		}
		if len(asked) != 3 || asked[0] != 0 || asked[1] != 2*time.Second || asked[2] != 2*time.Second {
			t.Errorf("it was asked with %v, want 0s, 2s, 2s", asked)
		}
		if len(lates) != 3 || lates[0] >= 0 || lates[1] >= 0 || lates[2] < 0 || lates[2] > time.Millisecond {
			t.Errorf("rests were late by %v, want none, none, and in time", lates)
		}
		for i := 2; i < 6; i += 2 { // a second of work, and a rest of six
			if after := (starts[i] - starts[i-1]).Round(time.Millisecond); after != 7*time.Second {
				t.Errorf("a batch began %v after the last message of the one before, want 7s", after)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A rest ends with a stop, a pause and a flush, however long it was to be.
func TestARestHoldsUpNoStop(t *testing.T) {
	for name, end := range map[string]func(*flow.Engine, func() error) error{
		"stop":  func(_ *flow.Engine, stop func() error) error { return stop() },
		"pause": func(e *flow.Engine, _ func() error) error { return e.Pause() },
		"flush": func(e *flow.Engine, _ func() error) error { e.Flush(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(4)...)
				e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 2, Work: nothing.work,
					GiveWay: func(time.Time, time.Duration, time.Duration) time.Duration { return time.Hour }})
				rest(time.Second)
				if n := e.Stats().InFlight; n == 0 {
					t.Fatal("nothing is held before")
				}
				began := time.Now()
				if err := end(e, stop); err != nil {
					t.Fatal(err)
				}
				rest(time.Second)
				if n := e.Stats().InFlight; n > 2 || time.Since(began) > 2*time.Second {
					t.Errorf("%d are held %v after it", n, time.Since(began))
				}
				if name != "stop" {
					_ = stop()
				}
			})
		})
	}
}

// What is held back by a limit has not taken the machine.
func TestWhatALimitHoldsIsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most time.Duration
		_, stop := start(t, flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}).add(messages(5)...), Limiter: policy.Limiter{Rate: 1, Burst: 1},
			GiveWay: func(_ time.Time, worked, _ time.Duration) time.Duration { most = max(most, worked); return 0 },
			Work:    each(func(context.Context, *flow.Task) error { time.Sleep(time.Millisecond); return nil }).work})
		rest(time.Minute)
		if most.Round(100*time.Microsecond) != time.Millisecond {
			t.Errorf("batches took up to %v, want 1ms", most)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A lane that rests begins nothing after a pause, and hands back at a stop.
func TestARestingLaneBeginsNothingWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := 0
		e, stop := start(t, flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}).add(messages(4)...), Lane: flow.ByKey,
			GiveWay: func(time.Time, time.Duration, time.Duration) time.Duration { return 100 * time.Millisecond },
			Work:    each(func(context.Context, *flow.Task) error { began++; return nil }).work})
		rest(20 * time.Millisecond)
		if err := e.Pause(); err != nil {
			t.Fatal(err)
		}
		rest(time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if began > 0 {
			t.Errorf("%d messages were worked on after a pause", began)
		}
	})
}
