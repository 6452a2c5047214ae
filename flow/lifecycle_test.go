package flow_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

var nothing = each(func(context.Context, *flow.Task) error { return nil })

func TestLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(5)...)
		worked := 0
		e, err := flow.New(flow.Pipeline{Name: "p", Source: s, Batch: 2,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Second); worked++; return nil }).work})
		if err != nil {
			t.Fatal(err)
		}
		illegal := func(err error) {
			t.Helper()
			if err == nil {
				t.Errorf("no error for an illegal step from %v", e.State())
			}
		}
		legal := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		equal(t, "state", e.State(), "idle")
		illegal(e.Pause())
		illegal(e.Resume())
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- e.Run(ctx) }()
		rest(500 * time.Millisecond)
		equal(t, "state", e.State(), "running")
		illegal(e.Run(ctx))
		illegal(e.Resume())
		legal(e.Pause())
		illegal(e.Pause())
		equal(t, "state", e.State(), "paused")
		rest(time.Hour)
		if worked != 2 {
			t.Errorf("worked on %d messages while paused, want the batch that had begun", worked)
		}
		if st := e.Stats(); time.Since(st.Turned) > 0 || st.InFlight != 2 {
			t.Errorf("paused: %+v", st)
		}
		s.add(messages(1)...)
		legal(e.Resume())
		rest(time.Minute)
		s.balance(t)
		cancel()
		legal(<-result)
		equal(t, "state", e.State(), "stopped")
		illegal(e.Pause())
		illegal(e.Resume())
		illegal(e.Run(ctx))
	})
}

func TestStopWhilePausedTouchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(6)...)
		worked := 0
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 2, InFlight: 6,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Second); worked++; return nil }).work})
		rest(100 * time.Millisecond)
		if err := e.Pause(); err != nil {
			t.Error(err)
		}
		rest(time.Hour)
		begin := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		equal(t, "ends", s.fates(), []string{"1 delivered", "2 delivered", "3 left", "4 left", "5 left", "6 left"})
		if worked != 2 || time.Since(begin) > time.Second {
			t.Errorf("worked on %d, stop took %v", worked, time.Since(begin))
		}
	})
}

func TestAFlushWhilePausedHandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(4)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 2,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Second); return nil }).work})
		rest(time.Millisecond)
		if err := e.Pause(); err != nil {
			t.Error(err)
		}
		rest(time.Minute)
		e.Flush()
		rest(time.Second)
		equal(t, "ends", s.fates(), []string{"1 delivered", "2 delivered", "3 left", "4 left"})
		stop()
	})
}

func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1000)...)
		now, most := 0, 0
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 10, InFlight: 10,
			Work: each(func(_ context.Context, task *flow.Task) error {
				s.mu.Lock()
				now++
				most = max(most, now)
				s.mu.Unlock()
				time.Sleep(time.Second + time.Duration(task.Mark.Lo))
				s.mu.Lock()
				now--
				s.mu.Unlock()
				return nil
			}).work})
		for _, n := range []int{10, 3, 7, 1} {
			if err := e.Workers(n); err != nil {
				t.Error(err)
			}
			rest(2 * time.Second)
			s.mu.Lock()
			most = 0
			s.mu.Unlock()
			rest(5 * time.Second)
			s.mu.Lock()
			if most != n {
				t.Errorf("%d workers: %d at once", n, most)
			}
			s.mu.Unlock()
		}
		if e.Workers(0) == nil || e.Workers(11) == nil {
			t.Error("a number of workers that cannot be was taken")
		}
		stop()
	})
}

type wrapper struct{ flow.Work }

func (w wrapper) Unwrap() flow.Work { return w.Work }

func TestNewRefusesNonsense(t *testing.T) {
	retry := policy.Retry{Tries: 3, Base: time.Second}
	inPlace := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{{Name: "a"}, {Name: "b", Retry: retry}}}
	parks := newSource(tidemill.Traits{Parks: true})
	delays := newSource(tidemill.Traits{Parks: true, Delays: true})
	for _, c := range []struct {
		name string
		p    flow.Pipeline
		want string // "" : taken
	}{
		{"no name", flow.Pipeline{Source: parks, Work: nothing.work}, "name"},
		{"no source", flow.Pipeline{Name: "p", Work: nothing.work}, "Source"},
		{"no work", flow.Pipeline{Name: "p", Source: parks}, "Work"},
		{"no work from the function", flow.Pipeline{Name: "p", Source: parks, Work: func(flow.Env) flow.Work { return nil }}, "Work"},
		{"the least", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work}, ""},
		{"nowhere to put the dead", flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{}), Work: nothing.work}, "dead"},
		{"retry by redelivery where nothing delays", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Retry: retry}, "cannot delay"},
		{"retry by redelivery", flow.Pipeline{Name: "p", Source: delays, Work: nothing.work, Retry: retry}, ""},
		{"two layers of retry", flow.Pipeline{Name: "p", Source: delays, Work: inPlace.Lane, Retry: retry}, "in place"},
		{"two layers of retry, wrapped", flow.Pipeline{Name: "p", Source: delays, Retry: retry,
			Work: func(e flow.Env) flow.Work { return wrapper{wrapper{inPlace.Lane(e)}} }}, "in place"},
		{"retry in place", flow.Pipeline{Name: "p", Source: delays, Work: inPlace.Lane}, ""},
		{"retry by redelivery with order", flow.Pipeline{Name: "p", Source: delays, Work: nothing.work, Retry: retry, Lane: flow.ByKey}, "hold back"},
		{"retry by redelivery with order the source keeps", flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true, Delays: true, Ordered: true}),
			Work: nothing.work, Retry: retry, Lane: flow.ByKey}, ""},
		{"leases without Keep", flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true, Keep: time.Second}), Work: nothing.work}, "Keep"},
		{"fewer in flight than lanes", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Lanes: 4, InFlight: 3}, "InFlight"},
		{"batches that never fill", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Lanes: 2, Batch: 10, InFlight: 19, Age: time.Second}, "InFlight"},
		{"batches that need not fill", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Lanes: 2, Batch: 10, InFlight: 19}, ""},
		{"below zero", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Lanes: -1}, "below zero"},
		{"a part of nothing", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Hold: func() int { return 1 }}, "give InFlight"},
		{"a part of what is dropped", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, InFlight: 9, Drop: flow.DropOldest, Hold: func() int { return 1 }}, "no Drop"},
		{"a threshold that is no share", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Threshold: 80}, "threshold"},
		{"no such drop policy", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Drop: 7}, "drop"},
		{"a retry that shrinks", flow.Pipeline{Name: "p", Source: delays, Work: nothing.work, Retry: policy.Retry{Tries: 1, Factor: .5}}, "factor"},
		{"a backoff without rest", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Backoff: policy.Retry{Factor: 2}}, "Backoff"},
		{"a breaker below zero", flow.Pipeline{Name: "p", Source: parks, Work: nothing.work, Breaker: policy.Breaker{Fails: -1}}, "breaker"},
	} {
		_, err := flow.New(c.p)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestByKeySpreads(t *testing.T) {
	var hits [8]int
	for i := range 8000 {
		hits[flow.ByKey(&tidemill.Message{Key: []byte{byte(i), byte(i >> 8)}})%8]++
		hits[flow.ByKey(&tidemill.Message{ID: string(rune(i))})%8]++
	}
	for i, n := range hits {
		if n < 1600 || n > 2400 {
			t.Errorf("lane %d gets %d of 16000 messages", i, n)
		}
	}
	if flow.ByKey(&tidemill.Message{ID: "a", Key: []byte("k")}) != flow.ByKey(&tidemill.Message{ID: "b", Key: []byte("k")}) {
		t.Error("one key, two lanes")
	}
}

func TestSystemStopsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var mu sync.Mutex
		say := func(s string) { mu.Lock(); defer mu.Unlock(); order = append(order, s) }
		s := newSource(tidemill.Traits{Parks: true}).add(messages(3)...)
		e, err := flow.New(flow.Pipeline{Name: "p", Source: s,
			Work: each(func(_ context.Context, task *flow.Task) error { time.Sleep(time.Second); say("worked"); return nil }).work})
		if err != nil {
			t.Fatal(err)
		}
		errClose, errEndpoint := errors.New("cannot close"), errors.New("door")
		sys := flow.NewSystem(flow.SystemParts{Name: "sys", Pipelines: []*flow.Engine{e},
			Listeners: []flow.Listener{
				func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(time.Millisecond)
					say("door")
					return ctx.Err()
				},
				func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(2 * time.Millisecond)
					say("door 2")
					return errEndpoint
				},
			},
			Loops: []flow.Loop{{Name: "l", Every: time.Hour, AtStart: true, Do: func(ctx context.Context) error { <-ctx.Done(); say("loop"); return ctx.Err() }}},
			Close: []func() error{
				func() error { say("close 1"); return errClose },
				func() error { say("close 2"); panic("close 2") },
				func() error { say("close 3"); return nil },
			}})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err = sys.Run(ctx)
		equal(t, "order", order, []string{"worked", "door", "door 2", "worked", "worked", "loop", "close 1", "close 2", "close 3"})
		if !errors.Is(err, errClose) || !errors.Is(err, errEndpoint) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "panic: close 2") {
			t.Errorf("Run: %v", err)
		}
		if st := sys.LoopStats(); st[0].Failed != 0 {
			t.Errorf("the end of the context is no failure: %+v", st)
		}
		equal(t, "state", sys.State(), "stopped")
	})
}

func TestLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, runs := time.Now(), map[string][]string{}
		var mu sync.Mutex // guards runs
		loop := func(name string, at bool, do func(n int) error) flow.Loop {
			return flow.Loop{Name: name, Every: 10 * time.Second, AtStart: at, Do: func(context.Context) error {
				mu.Lock()
				runs[name] = append(runs[name], time.Since(begin).Round(time.Second).String())
				n := len(runs[name])
				mu.Unlock()
				return do(n)
			}}
		}
		sys := flow.NewSystem(flow.SystemParts{Name: "sys", Loops: []flow.Loop{
			loop("fails", false, func(n int) error { return errDown }),
			loop("panics", true, func(n int) error { panic("oh") }),
			loop("slow", false, func(n int) error { time.Sleep(5 * time.Second); return nil }),
		}})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- sys.Run(ctx) }()
		rest(25 * time.Second)
		if err := sys.Pause(); err != nil {
			t.Error(err)
		}
		if sys.Pause() == nil {
			t.Error("paused twice")
		}
		rest(100 * time.Second)
		if err := sys.Resume(); err != nil {
			t.Error(err)
		}
		rest(8 * time.Second)
		st := sys.LoopStats()
		cancel()
		if err := <-result; err != nil {
			t.Errorf("loops' errors end nothing: %v", err)
		}
		equal(t, "fails", runs["fails"], []string{"10s", "20s", "2m5s"})
		equal(t, "panics", runs["panics"], []string{"0s", "10s", "20s", "2m5s"})
		equal(t, "slow", runs["slow"], []string{"10s", "2m5s"})
		if st[0].Runs != 3 || st[0].Failed != 3 || !errors.Is(st[0].Last, errDown) || st[1].Failed != 4 || st[2].Failed != 0 || st[2].Runs != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestASystemPausesItsPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		e, _ := flow.New(flow.Pipeline{Name: "p", Source: s, Work: nothing.work})
		sys := flow.NewSystem(flow.SystemParts{Name: "sys", Pipelines: []*flow.Engine{e}})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- sys.Run(ctx) }()
		synctest.Wait()
		if err := sys.Pause(); err != nil || sys.Pipeline("p").State() != flow.Paused {
			t.Errorf("%v, %v", err, e.State())
		}
		s.add(messages(3)...)
		rest(time.Minute)
		if len(s.settled) != 0 {
			t.Error("worked while paused")
		}
		if err := sys.Resume(); err != nil {
			t.Error(err)
		}
		rest(time.Minute)
		s.balance(t)
		cancel()
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}

func TestAPipelineThatEndsEndsItsSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		s.fail = []error{errDown, errDown}
		e, _ := flow.New(flow.Pipeline{Name: "p", Source: s, Work: nothing.work, Fatal: 2})
		endpoint := false
		sys := flow.NewSystem(flow.SystemParts{Name: "sys", Pipelines: []*flow.Engine{e}, Listeners: []flow.Listener{func(ctx context.Context) error { <-ctx.Done(); endpoint = true; return nil }}})
		if err := sys.Run(t.Context()); !errors.Is(err, flow.ErrTooManyErrors) || !endpoint {
			t.Errorf("Run: %v", err)
		}
		again := flow.NewSystem(flow.SystemParts{Name: "sys", Pipelines: []*flow.Engine{e, e}})
		if err := again.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "two pipelines") {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestASystemBeginsBeforeAnythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		note := func(s string, err error) func(context.Context) error {
			return func(ctx context.Context) error { log = append(log, s); return err }
		}
		s := newSource(tidemill.Traits{}).add(messages(1)...)
		engine := func() *flow.Engine {
			e, err := flow.New(flow.Pipeline{Name: "p", Source: s, Dead: &letters{},
				Work: each(func(context.Context, *flow.Task) error { log = append(log, "work"); return nil }).work})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		closing := func() error { log = append(log, "close"); return nil }
		sys := flow.NewSystem(flow.SystemParts{Name: "s", Begin: []func(context.Context) error{note("first", nil), note("second", nil)},
			Pipelines: []*flow.Engine{engine()}, Close: []func() error{closing}})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := sys.Run(ctx); err != nil {
			t.Fatal(err)
		}
		equal(t, "what happened", log, []string{"first", "second", "work", "close"})

		log = nil
		sys = flow.NewSystem(flow.SystemParts{Name: "s", Begin: []func(context.Context) error{note("first", errDown), note("second", nil)},
			Pipelines: []*flow.Engine{engine()}, Close: []func() error{closing}})
		if err := sys.Run(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("Run returned %v, want the error of its beginning", err)
		}
		equal(t, "what happened", log, []string{"first", "close"})

		log = nil
		sys = flow.NewSystem(flow.SystemParts{Name: "s", Begin: []func(context.Context) error{func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			Pipelines: []*flow.Engine{engine()}, Close: []func() error{closing}})
		ctx, stop = context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := sys.Run(ctx); err != nil {
			t.Errorf("Run returned %v: told to stop while it began, it did", err)
		}
		equal(t, "what happened", log, []string{"close"})
	})
}

// A listener that has nothing more to do ends nothing, and all errors are returned.
func TestDoorsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipeline := func(name string, fail ...error) *flow.Engine {
			s := newSource(tidemill.Traits{Parks: true})
			s.fail = fail
			e, err := flow.New(flow.Pipeline{Name: name, Source: s, Work: nothing.work, Fatal: 1})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		begin := time.Now()
		sys := flow.NewSystem(flow.SystemParts{Name: "sys", Listeners: []flow.Listener{func(context.Context) error { return nil }}})
		if err := sys.Run(ctx); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("it ran for %v: %v", time.Since(begin), err)
		}
		sys = flow.NewSystem(flow.SystemParts{Name: "sys", Listeners: []flow.Listener{func(ctx context.Context) error { <-ctx.Done(); return errors.New("error of a door") }},
			Pipelines: []*flow.Engine{pipeline("a"), pipeline("b"), pipeline("c", errors.New("error of c"))}})
		err := sys.Run(t.Context())
		for _, of := range []string{"a door", "c"} {
			if err == nil || !strings.Contains(err.Error(), "error of "+of) {
				t.Errorf("nothing is told of %s: %v", of, err)
			}
		}
	})
}
