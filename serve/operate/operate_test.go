package operate_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/serve/operate"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
)

// pile is a number of things in two parts. What is moved is gone.
type pile struct {
	mu    sync.Mutex
	parts map[string][]uint64 // sorted
	bad   map[uint64]string   // cannot be changed
	moved []uint64
	times []time.Time
	largest,
	seen int
	waits string
	away  error                     // of all
	after func(n int) error         // what a Move returns when it has moved n; nil: nothing
	meets func(ctx context.Context) // before each Move; nil: nothing
}

func newPile(n int) *pile {
	p := &pile{parts: map[string][]uint64{}, bad: map[uint64]string{}}
	for i := range n {
		part := "a"
		if i >= n/2 {
			part = "b"
		}
		p.parts[part] = append(p.parts[part], uint64(i+1))
	}
	return p
}

func (p *pile) List(_ context.Context, after operate.Key, most int) iter.Seq2[operate.Thing, error] {
	return func(yield func(operate.Thing, error) bool) {
		p.mu.Lock()
		var page []operate.Thing
		for _, part := range []string{"a", "b"} {
			if part < after.Part {
				continue
			}
			for _, n := range p.parts[part] {
				if (part > after.Part || n > after.Lo) && len(page) < most {
					page = append(page, operate.Thing{Key: operate.Key{Part: part, Lo: n}, ID: fmt.Sprint(n), Group: part, Refused: p.bad[n]})
				}
			}
			if len(page) > 0 {
				break
			}
		}
		away := p.away
		p.mu.Unlock()
		if away != nil {
			yield(operate.Thing{}, away)
			return
		}
		for _, t := range page {
			if !yield(t, nil) {
				return
			}
		}
	}
}

func (p *pile) Move(ctx context.Context, group string, after operate.Key, most int) (n int, err error) {
	if p.meets != nil {
		p.meets(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away != nil {
		return 0, p.away
	}
	p.parts[group] = slices.DeleteFunc(p.parts[group], func(one uint64) bool {
		if one <= after.Lo || p.bad[one] != "" || n == most {
			return false
		}
		p.moved, p.times, n = append(p.moved, one), append(p.times, time.Now()), n+1
		return true
	})
	p.largest = max(p.largest, n)
	if p.after != nil {
		err = p.after(n)
	}
	return n, err
}

func (p *pile) Waits(context.Context, string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits, nil
}

// world has operations of one pile.
type world struct {
	*testing.T
	store bulk.Store
	pile  *pile
}

func newWorld(t *testing.T, n int) *world {
	return &world{t, tablebulk.Memory(), newPile(n)}
}

// begins schedules an operation, and says its id.
func (w *world) begins(o bulk.Operation) {
	w.Helper()
	o.ID, o.Kind, o.State, o.Made = "op", "k", bulk.Scheduled, time.Now()
	if o.Starts.IsZero() {
		o.Starts = o.Made
	}
	if err := w.store.Add(w.Context(), &o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) runner(owner string) *operate.Runner {
	return operate.New(w.store, owner, func(context.Context, *bulk.Operation) (operate.Things, error) { return w.pile, nil }, operate.Options{})
}

func (w *world) op() *bulk.Operation {
	w.Helper()
	o, err := w.store.Get(w.Context(), "op")
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// runs runs a runner as its loop does, until the operation has ended.
func (w *world) runs(r *operate.Runner) *bulk.Operation {
	w.Helper()
	for range 1000 {
		if err := r.Run(w.Context()); err != nil {
			w.Fatal(err)
		}
		if o := w.op(); !o.Active() {
			return o
		}
		time.Sleep(time.Second)
	}
	w.Fatalf("it never ends: %+v", w.op())
	return nil
}

// all says that each of n things was moved once.
func (w *world) all(n int) {
	w.Helper()
	moved := slices.Sorted(slices.Values(w.pile.moved))
	if len(moved) != n || len(slices.Compact(moved)) != n {
		w.Errorf("%d things were moved, %d of them once; want %d", len(w.pile.moved), len(slices.Compact(moved)), n)
	}
}

func TestAnOperationChangesEachThingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5000)
		w.pile.bad[7], w.pile.bad[4000] = "damaged", "damaged"
		w.begins(bulk.Operation{Total: 5000})
		o := w.runs(w.runner("one"))
		w.all(4998)
		if o.State != bulk.Done || o.Changed != 4998 || o.Failed["damaged"] != 2 || o.Gone != 0 || o.Ended.IsZero() {
			t.Errorf("it ended as %+v", o)
		}
		if len(o.Failures) != 2 || o.Failures[0] != (bulk.Failure{Key: "a/0/7", ID: "7", Reason: "damaged"}) {
			t.Errorf("the failures are %+v", o.Failures)
		}
		if w.pile.largest > 1000 {
			t.Errorf("a slice had %d things", w.pile.largest)
		}
	})
}

func TestNothingChangesInTheWindowOfUndoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		w.begins(bulk.Operation{Total: 100, Starts: time.Now().Add(time.Minute)})
		r := w.runner("one")
		for range 60 {
			if err := r.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.all(0)
			time.Sleep(time.Second - time.Millisecond)
		}
		if _, err := w.store.Change(t.Context(), "op", func(o *bulk.Operation) error { return o.Stop("ada", time.Now()) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if o := w.runs(r); o.State != bulk.Stopped || o.StoppedBy != "ada" || !o.Begun.IsZero() {
			t.Errorf("it is %+v", o)
		}
		w.all(0)
	})
}

func TestAStopHalfWayLeavesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1000)
		w.begins(bulk.Operation{Total: 1000})
		w.pile.meets = func(ctx context.Context) { // in the middle of the third slice
			if w.pile.seen++; w.pile.seen == 3 {
				if _, err := w.store.Change(ctx, "op", func(o *bulk.Operation) error { return o.Stop("ada", time.Now()) }); err != nil {
					t.Error(err)
				}
			}
		}
		o := w.runs(w.runner("one"))
		if n := len(w.pile.moved); o.State != bulk.Stopped || n == 0 || n == 1000 || o.Changed != n || o.Slice.N != 0 {
			t.Errorf("%d were moved, and it is %+v", n, o)
		}
	})
}

func TestARateIsKept(t *testing.T) {
	for _, rate := range []bulk.Rate{50 * 3600, 2 * 3600, 1800} {
		t.Run(rate.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := min(int(rate)/3600*5+3, 200)
				w := newWorld(t, n)
				w.begins(bulk.Operation{Total: n, Rate: rate})
				begun := time.Now()
				w.runs(w.runner("one"))
				w.all(n)
				for i, at := range w.pile.times { // never more than a second's worth ahead
					if most := at.Sub(begun).Seconds()*float64(rate)/3600 + float64(rate.Slice()); float64(i+1) > most+1e-6 {
						t.Fatalf("thing %d was moved after %v, %.0f were allowed", i+1, at.Sub(begun), most)
					}
				}
				if took, want := w.pile.times[n-1].Sub(begun), rate.Takes(n-rate.Slice()); took > want+2*time.Second+want/50 {
					t.Errorf("it took %v, want about %v", took, want)
				}
			})
		})
	}
}

func TestAtMostSoManyAreChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1000)
		w.begins(bulk.Operation{Total: 1000, Most: 130})
		if o := w.runs(w.runner("one")); o.Changed != 130 || o.State != bulk.Done {
			t.Errorf("it is %+v", o)
		}
		w.all(130)
	})
}

func TestWhatOthersChangedIsCountedAsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1000)
		w.begins(bulk.Operation{Total: 1000})
		w.pile.meets = func(context.Context) {
			w.pile.mu.Lock()
			defer w.pile.mu.Unlock()
			if w.pile.seen++; w.pile.seen == 2 {
				w.pile.parts["b"] = w.pile.parts["b"][100:]
			}
		}
		if o := w.runs(w.runner("one")); o.Changed != 900 || o.Gone != 100 || o.FailedAll() != 0 || o.State != bulk.Done {
			t.Errorf("it is %+v", o)
		}
	})
}

func TestAnOperationWaitsAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		w.pile.waits = "the queue is paused"
		w.begins(bulk.Operation{Total: 10})
		var g sync.WaitGroup
		g.Go(func() { w.runs(w.runner("one")) })
		time.Sleep(time.Hour)
		if o := w.op(); o.State != bulk.Running || o.Waits != "the queue is paused" || len(w.pile.moved) > 0 {
			t.Errorf("it is %+v", o)
		}
		w.pile.mu.Lock()
		w.pile.waits = ""
		w.pile.mu.Unlock()
		g.Wait()
		if o := w.op(); o.State != bulk.Done || o.Waits != "" {
			t.Errorf("it is %+v", o)
		}
		w.all(10)
	})
}

func TestAStoreThatIsAwayForAWhileLosesNoCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1000)
		w.begins(bulk.Operation{Total: 1000})
		calls := 0
		w.pile.after = func(int) error { // done, and the answer is lost; then it is away
			if calls++; calls == 3 {
				w.pile.away = errors.New("connection refused")
				return w.pile.away
			}
			return nil
		}
		var g sync.WaitGroup
		g.Go(func() { w.runs(w.runner("one")) })
		time.Sleep(10 * time.Minute)
		if o := w.op(); o.State != bulk.Running || o.Waits != "connection refused" {
			t.Errorf("while the store is away it is %+v", o)
		}
		w.pile.mu.Lock()
		w.pile.away = nil
		w.pile.mu.Unlock()
		g.Wait()
		if o := w.op(); o.State != bulk.Done || o.Changed != 1000 || o.Gone != 0 {
			t.Errorf("it is %+v", o)
		}
		w.all(1000)
	})
}

// A crash is a runner that does no more, and lets nothing go.
func TestAnotherInstanceGoesOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1000)
		w.begins(bulk.Operation{Total: 1000})
		dies := make(chan struct{})
		w.pile.after = func(int) error {
			if w.pile.seen++; w.pile.seen == 3 {
				w.pile.mu.Unlock() // the slice is done, and nobody knows
				<-dies
				w.pile.mu.Lock()
				return errors.New("it is dead")
			}
			return nil
		}
		first := w.runner("one")
		var g sync.WaitGroup
		ctx, end := context.WithCancel(t.Context())
		g.Go(func() { _ = first.Run(ctx) })
		synctest.Wait()
		time.Sleep(time.Second)
		before := w.op()
		if before.Owner != "one" || before.Slice.N == 0 {
			t.Fatalf("it is %+v", before)
		}
		second := w.runner("two")
		if err := second.Run(t.Context()); err != nil || w.op().Owner != "one" {
			t.Errorf("another takes it before the lease ends: %v, %+v", err, w.op())
		}
		o := w.runs(second)
		if o.State != bulk.Done || o.Changed != 1000 || o.Owner != "two" || o.Ended.Sub(before.Begun) < 20*time.Second {
			t.Errorf("it ended as %+v", o)
		}
		w.all(1000)
		end()
		close(dies) // and it may not count any more
		g.Wait()
		if late := w.op(); late.Changed != 1000 || late.Owner != "two" {
			t.Errorf("the dead one changed it: %+v", late)
		}
	})
}

func TestAStopOfTheProcessHandsTheOperationOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1000)
		w.begins(bulk.Operation{Total: 1000, Rate: 3600 * 100})
		ctx, end := context.WithCancel(t.Context())
		var g sync.WaitGroup
		g.Go(func() {
			if err := w.runner("one").Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(3500 * time.Millisecond)
		end()
		g.Wait()
		if o := w.op(); o.State != bulk.Running || o.Owner != "" || o.Changed == 0 || o.Changed == 1000 {
			t.Errorf("after the stop it is %+v", o)
		}
		if o := w.runs(w.runner("two")); o.State != bulk.Done || o.Changed != 1000 {
			t.Errorf("it ended as %+v", o)
		}
		w.all(1000)
	})
}

func TestTwoInstancesRunAnOperationOnce(t *testing.T) {
	w := newWorld(t, 3000)
	w.begins(bulk.Operation{Total: 3000})
	var g sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		g.Go(func() { w.runs(w.runner(name)) })
	}
	g.Wait()
	if o := w.op(); o.Changed != 3000 || o.State != bulk.Done {
		t.Errorf("it is %+v", o)
	}
	w.all(3000)
}

func TestAnOperationThatCannotGoOnFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		w.begins(bulk.Operation{Total: 10})
		r := operate.New(w.store, "one", func(context.Context, *bulk.Operation) (operate.Things, error) {
			return nil, &operate.Invalid{Err: errors.New("there is no such queue any more")}
		}, operate.Options{})
		if o := w.runs(r); o.State != bulk.Failed || o.Why != "there is no such queue any more" {
			t.Errorf("it is %+v", o)
		}
	})
}

func TestCursors(t *testing.T) {
	for _, k := range []operate.Key{{}, {Part: "windows", Hi: 1, Lo: 1 << 63}, {Lo: 7}} {
		if got := operate.ParseKey(k.String()); got != k {
			t.Errorf("%q is %+v, want %+v", k.String(), got, k)
		}
	}
}
