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
	"github.com/tidemill/tidemill/policy"
)

func TestTheLastWordCounts(t *testing.T) {
	task := flow.NewTask(tidemill.Message{ID: "a"})
	task.Emit(&tidemill.Message{ID: "x"})
	task.Tally(tidemill.Count{Delivered: 7})
	task.Fail(nil)
	if tidemill.KindOf(task.Err()) != tidemill.Internal || task.Settlement().Records != (tidemill.Count{}) {
		t.Errorf("failed with nil: %v, %+v", task.Err(), task.Settlement())
	}
	task.Skip("because")
	if fate, err := task.Outcome(); fate != tidemill.Skipped || err != nil || task.Settlement().Cause != "because" {
		t.Errorf("skipped: %v, %v", fate, err)
	}
	task.Again(-time.Second)
	if s := task.Settlement(); s.End != tidemill.Again || s.After != 0 || s.Cause != "" || s.Fate != tidemill.None {
		t.Errorf("again: %+v", s)
	}
	task.Deliver()
	if fate, _ := task.Outcome(); fate != tidemill.Delivered || task.Live() || len(task.Emitted()) != 1 {
		t.Errorf("delivered: %v", fate)
	}
}

// A message that stands for many counts as many.
func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: each(func(_ context.Context, task *flow.Task) error {
			task.Tally(tidemill.Count{Delivered: 40, Skipped: 2})
			if task.ID == "2" {
				return tidemill.Fail(tidemill.Business, "no")
			}
			return nil
		}).work})
		rest(time.Second)
		equal(t, "settled", e.Stats().Settled, tidemill.Count{Delivered: 40, Skipped: 2, Dead: 1})
		stop()
	})
}

func TestPartialFailureOfWork(t *testing.T) {
	for index, want := range map[int]string{0: "[1 dead 2 delivered 3 delivered]", 1: "[1 delivered 2 dead 3 delivered]", 3: "[1 dead 2 dead 3 dead]"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Parks: true}).add(messages(3)...)
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 3, Work: batches(func(context.Context, []*flow.Task) error {
				return &tidemill.Partial{Failed: []tidemill.Failed{{Index: index, Err: errDown}}}
			}).work})
			rest(time.Second)
			equal(t, fmt.Sprint("index ", index), s.fates(), want)
			if kind := s.ends[0].Kind; index == 3 && kind != tidemill.Internal {
				t.Errorf("an index that is not there is a failure of kind %v", kind)
			}
			stop()
		})
	}
}

func TestObserveIsToldOfEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(3)...)
		var calls []string
		steps := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{
			{Name: "a", Do: func(_ context.Context, b []*item) error { b[0].Skip("x"); time.Sleep(time.Second); return nil }},
			{Name: "b", Do: func(context.Context, []*item) error { return errDown }}}}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 3, Work: steps.Lane,
			Observe: func(stage string, n int, took time.Duration, err error) {
				calls = append(calls, fmt.Sprint(stage, " ", n, " ", took, " ", err))
			}})
		rest(time.Minute)
		equal(t, "calls", calls, []string{"a 3 1s <nil>", "b 2 0s down"})
		stop()
	})
}

// deaf is a source whose gate does not listen at first.
type deaf struct {
	gated
	fail *int
}

func (s deaf) Gate(ctx context.Context, until time.Time, probes int) error {
	if *s.fail > 0 {
		*s.fail--
		return errDown
	}
	return s.gated.Gate(ctx, until, probes)
}

func (s deaf) Keep(context.Context) error { return errDown }

func TestGateAndKeepAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := 3
		s := deaf{gated{newSource(tidemill.Traits{Parks: true, Keep: 10 * time.Second})}, &fail}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work, Backoff: policy.Retry{Tries: -1, Base: time.Second}})
		rest(time.Second)
		e.Trip(time.Hour)
		rest(8 * time.Second)
		if g := s.told(); len(g) != 1 || g[0].probes != 1 {
			t.Errorf("gate: %v", g)
		}
		rest(4 * time.Second)
		if st := e.Stats(); st.Errors != 5 || !errors.Is(st.Last, errDown) {
			t.Errorf("3 calls of Gate failed and 2 of Keep, the second a quarter later: %+v", st)
		}
		stop()
	})
}

func TestDropIsReadBack(t *testing.T) {
	for d := flow.DropNone; d <= flow.DropNewest; d++ {
		text, _ := d.MarshalText()
		var back flow.Drop
		if err := back.UnmarshalText(text); err != nil || back != d {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	if err := new(flow.Drop).UnmarshalText([]byte("all")); err == nil || !strings.Contains(err.Error(), "oldest") {
		t.Errorf("all: %v", err)
	}
}
