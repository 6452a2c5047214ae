package flow_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

// While a system runs, pipelines and side jobs come and go, and the others do not notice.
func TestPipelinesJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipeline := func(name string, s *memorySource) *flow.Engine {
			e, err := flow.New(flow.Pipeline{Name: name, Source: s, Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Second); return nil }).work})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		var turns atomic.Int64
		turn := flow.Loop{Name: "turn", Every: time.Second, Do: func(context.Context) error { turns.Add(1); return nil }}
		one, two, three := newSource(tidemill.Traits{Parks: true}).add(messages(3)...), newSource(tidemill.Traits{Parks: true}).add(messages(5)...), newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		sys := flow.NewSystem(flow.SystemParts{Name: "sys", Pipelines: []*flow.Engine{pipeline("one", one)}})
		var shown []string
		sys.Each(func(e *flow.Engine) { shown = append(shown, e.Name()+" "+e.State().String()) })
		early := pipeline("early", newSource(tidemill.Traits{Parks: true}))
		if err := sys.Join([]*flow.Engine{early}, nil); err != nil { // before it runs
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- sys.Run(ctx) }()
		rest(time.Second)
		equal(t, "state", early.State(), "running")
		second := pipeline("two", two)
		if err := sys.Join([]*flow.Engine{second}, []flow.Loop{turn}); err != nil {
			t.Fatal(err)
		}
		for want, try := range map[string]func() error{
			"a pipeline two is there": func() error { return sys.Join([]*flow.Engine{pipeline("two", three)}, nil) },
			"needs Every above zero":  func() error { return sys.Join([]*flow.Engine{pipeline("three", three)}, []flow.Loop{{Name: "l"}}) },
		} {
			if err := try(); err == nil || !strings.Contains(err.Error(), want) || sys.Pipeline("three") != nil {
				t.Errorf("%v, want %s", err, want)
			}
		}
		rest(2500 * time.Millisecond)
		if err := sys.Leave([]*flow.Engine{second}, []string{"turn"}); err != nil {
			t.Fatal(err)
		}
		equal(t, "state", second.State(), "stopped")
		synctest.Wait()
		if st := second.Stats(); st.Settled.Delivered != 4 || st.InFlight != 0 || sys.Pipeline("two") != nil || len(sys.LoopStats()) != 0 {
			t.Errorf("after it left: %+v, %v", st, sys.LoopStats())
		}
		equal(t, "shown, before they run", strings.Join(shown, ", "), "one idle, early idle, two idle")
		was := turns.Load()
		if err := sys.Pause(); err != nil {
			t.Fatal(err)
		}
		third := pipeline("three", three)
		if err := sys.Join([]*flow.Engine{third}, []flow.Loop{turn}); err != nil {
			t.Fatal(err)
		}
		rest(time.Minute)
		if equal(t, "state", third.State(), "paused"); turns.Load() != was || was == 0 || third.Stats().Settled.Delivered != 0 {
			t.Errorf("what joins a paused system is not paused: %d turns, %+v", turns.Load()-was, third.Stats())
		}
		if err := sys.Resume(); err != nil {
			t.Fatal(err)
		}
		rest(time.Minute)
		if turns.Load() == was {
			t.Error("the loop does not go on")
		}
		one.balance(t)
		three.balance(t)
		cancel()
		if err := <-result; err != nil {
			t.Error(err)
		}
		equal(t, "state", third.State(), "stopped")
		if err := sys.Join([]*flow.Engine{pipeline("late", two)}, nil); err == nil || sys.Pipeline("late") != nil {
			t.Errorf("it joins a system that has stopped: %v", err)
		}
	})
}
