package flow_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// Small mistakes that the other tests did not notice.

// A Partial of the dead letters counts letters, not messages of the batch.
func TestTheLetterThatCannotBeKeptIsTheRightOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(4)...)
		dead := &letters{fail: []error{&tidemill.Partial{Failed: []tidemill.Failed{{Index: 0, Err: errDown}}}}}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Batch: 4, Work: each(func(_ context.Context, task *flow.Task) error {
			if task.ID == "2" || task.ID == "4" {
				return tidemill.Fail(tidemill.Business, "no")
			}
			return nil
		}).work})
		rest(time.Second)
		equal(t, "ends", s.fates(), []string{"1 delivered", "2 left", "3 delivered", "4 dead"})
		if dead.puts != 1 {
			t.Errorf("put %d times: a letter that cannot be kept is not tried again", dead.puts)
		}
		stop()
	})
}

func TestTheWaitsOfSettlingBeginWithTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		s.tell = []error{errDown, errDown, errDown}
		begin := time.Now()
		var took time.Duration
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work, Backoff: policy.Retry{Tries: -1, Base: time.Second},
			Settled: func([]tidemill.Settlement) { took = time.Since(begin) }})
		rest(time.Minute)
		if took.Round(100*time.Millisecond) != (1+2+3)*time.Second {
			t.Errorf("settled after %v, want waits of 1, 2 and 3 s", took)
		}
		stop()
	})
}

// One lane, one message at a time: the fifth that was turned away makes it hold.
func TestTheFifthInARowHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(100)...)}
		d := &destination{down: true, kind: tidemill.RateLimit, after: 20 * time.Second}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 1, Batch: 1, Work: each(d.call).work, Retry: policy.Retry{Tries: 7, Base: time.Minute},
			Rules: policy.Table{tidemill.RateLimit: {Do: policy.Retrying, Burns: true}}})
		rest(10 * time.Second)
		if n := d.set(true); n != 5 {
			t.Errorf("%d calls in the first ten seconds, want five", n)
		}
		stop()
	})
}

// Another instance may have shut the gate of the source: one that delivers opens it now and then.
func TestAGateIsOpenedAgainWhileWorkGoesWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{newSource(tidemill.Traits{Parks: true})}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work, Breaker: policy.Breaker{Fails: 5, Open: 30 * time.Second}})
		for range 20 {
			s.add(messages(1)...)
			rest(10 * time.Second)
		}
		if n := len(s.told()); n < 5 || n > 8 {
			t.Errorf("the gate was told %d times in 200 s, want once every 30 s or so", n)
		}
		stop()
	})
}

// What a stage says after its time was up may be only that: nothing is delivered by it.
func TestAStageThatTheStopCutsOffDeliversNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		steps := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{{Name: "send", Retry: policy.Retry{Tries: 3, Base: time.Second},
			Do: func(ctx context.Context, _ []*item) error { <-ctx.Done(); return context.Cause(ctx) }}}}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 2, Work: steps.Lane, Grace: time.Second})
		rest(time.Minute)
		if err := stop(); err != nil {
			t.Log(err)
		}
		equal(t, "ends", s.fates(), []string{"1 left", "2 left"})
	})
}

// Where a destination asks for less without saying how long, it is asked less and less often.
func TestPacingInPlaceGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		var at []time.Duration
		last := time.Now()
		steps := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{{Name: "send", Retry: policy.Retry{Tries: 1, Base: time.Second, Factor: 2},
			Do: func(context.Context, []*item) error {
				at, last = append(at, time.Since(last).Round(time.Second)), time.Now()
				if len(at) <= 8 {
					return tidemill.Fail(tidemill.RateLimit, "less")
				}
				return nil
			}}}}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: steps.Lane})
		rest(time.Hour)
		equal(t, "waits", at, "[0s 1s 2s 4s 8s 16s 32s 32s 32s]")
		equal(t, "ends", s.fates(), []string{"1 delivered"})
		stop()
	})
}

// A lane that hangs is seen: waiting for credit is not being alive.
func TestALaneThatHangsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 1, Batch: 1, InFlight: 1,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Hour); return nil }).work})
		rest(30 * time.Minute)
		if ago := time.Since(e.Stats().Turned); ago < 29*time.Minute {
			t.Errorf("last turned %v ago, the lane hangs for half an hour", ago)
		}
		rest(2 * time.Hour)
		s.balance(t)
		stop()
	})
}

// That something is full is no reason to end, and who waits for room is alive.
func TestWhatIsFullEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		s.tell = slices.Repeat([]error{tidemill.Fail(tidemill.RateLimit, "full")}, 5)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 1, Fatal: 1, Work: nothing.work,
			Backoff: policy.Retry{Tries: -1, Base: time.Minute, Factor: 1}})
		rest(150 * time.Second)
		st := e.Stats()
		equal(t, "turned before", time.Since(st.Turned).Round(time.Second), "30s")
		if st.State != flow.Running || st.Errors != 0 || tidemill.KindOf(st.Last) != tidemill.RateLimit {
			t.Errorf("%v after %d errors, the last: %v", st.State, st.Errors, st.Last)
		}
		rest(time.Hour)
		s.balance(t)
		_ = stop()
	})
}

func TestASystemRefusesWhatItCannotDo(t *testing.T) {
	e, err := flow.New(flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}), Work: nothing.work})
	if err != nil {
		t.Fatal(err)
	}
	s := &flow.System{Name: "s", Pipelines: []*flow.Engine{e}}
	if err := s.Resume(); err == nil || !strings.Contains(err.Error(), "resume system s") {
		t.Errorf("resuming what does not run says %v", err)
	}
	s = &flow.System{Name: "s", Pipelines: []*flow.Engine{e, nil}}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("a pipeline that is nil: %v", err)
	}
}
