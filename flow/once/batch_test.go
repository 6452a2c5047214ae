package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/flow/once"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

func TestABatchThatFailsAsAWhole(t *testing.T) {
	rejected := tidemill.Fail(tidemill.Validation, "rejected")
	for _, c := range []struct {
		name string
		work work
	}{
		{"by an error", func(context.Context, []*flow.Task) error { return rejected }},
		{"by a panic", func(context.Context, []*flow.Task) error { panic("of the work") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			delivered := at("delivered", 1)
			one, two := at("one", 2), at("two", 3)
			inner := func(flow.Env) flow.Work {
				return work(func(ctx context.Context, b []*flow.Task) error {
					b[0].Deliver()
					return c.work(ctx, b)
				})
			}
			var err error
			func() {
				defer func() {
					if p := recover(); p != nil {
						err = fmt.Errorf("panic: %v", p)
					}
				}()
				err = w.guard.Around(inner)(flow.Env{}).Do(t.Context(), []*flow.Task{delivered, one, two})
			}()
			if err == nil || !one.Live() || !two.Live() {
				t.Fatalf("%v, live %v %v; want the failure, and the live ones left to the engine", err, one.Live(), two.Live())
			}
			w.check(delivered, "delivered", 0, ledger.Done)
			for _, task := range []*flow.Task{one, two} { // the engine repeats in halves
				w.do(nil, task)
				w.check(task, "live", 1, ledger.Done)
			}
		})
	}
}

func TestAPartialFailureNamesTheRightMessages(t *testing.T) {
	w := newWorld(t)
	w.do(nil, at("before", 1))
	dup, good, bad := at("before", 2), at("good", 3), at("bad", 4)
	ended := at("ended", 5)
	ended.Skip("filtered")
	inner := func(flow.Env) flow.Work {
		return work(func(_ context.Context, b []*flow.Task) error {
			if len(b) != 2 {
				t.Errorf("%d tasks, want those to be worked on alone", len(b))
			}
			return &tidemill.Partial{Failed: []tidemill.Failed{{Index: 1, Err: refused}}}
		})
	}
	if err := w.guard.Around(inner)(flow.Env{}).Do(t.Context(), []*flow.Task{dup, ended, good, bad}); err != nil {
		t.Fatal(err)
	}
	w.check(dup, "skipped: duplicate", 1, ledger.Done)
	w.check(good, "live", 0, ledger.Done)
	w.check(bad, "partner_error", 0, ledger.Failed)
	w.check(ended, "skipped: filtered", 0, 0)
}

// Indexes outside the batch are our own fault, and name no message: the work is not known to
// have been done, and nothing breaks.
func TestAPartialFailureOfNobody(t *testing.T) {
	for _, index := range []int{-1, 2, 7} {
		w := newWorld(t)
		inner := func(flow.Env) flow.Work {
			return work(func(context.Context, []*flow.Task) error {
				return &tidemill.Partial{Failed: []tidemill.Failed{{Index: index, Err: refused}}}
			})
		}
		err := w.guard.Around(inner)(flow.Env{}).Do(t.Context(), []*flow.Task{at("one", 1), at("two", 2)})
		if tidemill.KindOf(err) != tidemill.Internal {
			t.Errorf("index %d of two: %v, want an error of our own", index, err)
		}
	}
}

// The first of a batch may be the one that failed.
func TestAPartialFailureOfTheFirst(t *testing.T) {
	w := newWorld(t)
	first, second := at("first", 1), at("second", 2)
	inner := func(flow.Env) flow.Work {
		return work(func(context.Context, []*flow.Task) error {
			return &tidemill.Partial{Failed: []tidemill.Failed{{Index: 0, Err: refused}}}
		})
	}
	if err := w.guard.Around(inner)(flow.Env{}).Do(t.Context(), []*flow.Task{first, second}); err != nil {
		t.Fatal(err)
	}
	w.check(first, "partner_error", 0, ledger.Failed)
	w.check(second, "live", 0, ledger.Done)
}

func TestDuplicatesInOneBatch(t *testing.T) {
	w := newWorld(t)
	unknown := tidemill.Fail(tidemill.Unknown, "answer lost")
	a, a2 := at("done", 1), at("done", 2)
	b, b2 := at("failed", 3), at("failed", 4)
	c, c2 := at("lost", 5), at("lost", 6)
	w.do(func(_ context.Context, t *flow.Task) {
		switch t.ID {
		case "failed":
			t.Fail(refused)
		case "lost":
			t.Fail(unknown)
		}
	}, a, a2, b, b2, c, c2)
	w.check(a, "live", 1, ledger.Done)
	w.check(a2, "skipped: duplicate", 1, ledger.Done)
	w.check(b, "partner_error", 1, ledger.Failed)
	w.check(b2, "again in 15s", 1, ledger.Failed)
	w.check(c, "unknown", 1, ledger.Held)
	w.check(c2, "unknown", 1, ledger.Held)
}

func TestABadKeyFailsAlone(t *testing.T) {
	w := newWorld(t)
	empty, long, good := at("", 1), at(strings.Repeat("x", ledger.MaxKey+1), 2), at("good", 3)
	w.do(nil, empty, long, good)
	w.check(empty, "validation", 0, 0)
	w.check(long, "validation", 0, 0)
	w.check(good, "live", 1, ledger.Done)
}

func TestAMessageWithoutPositionIsNobody(t *testing.T) {
	w := newWorld(t)
	w.do(nil, flow.NewTask(tidemill.Message{ID: "a"}))
	again := flow.NewTask(tidemill.Message{ID: "a"})
	w.do(nil, again)
	w.check(again, "skipped: duplicate", 1, ledger.Done)
}

func TestAnAnswerToTheBeginThatIsLostIsNoTryThatWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.book.lose = 2
		a, b := at("a", 1), at("b", 2)
		w.do(nil, a, b)
		w.check(a, "live", 1, ledger.Done)
		w.check(b, "live", 1, ledger.Done)
		if e := w.entry("a"); e.Tries != 1 {
			t.Errorf("begun %d times, want once", e.Tries)
		}
		anew := at("a", 3)
		w.guard.Anew = func(*tidemill.Message) bool { return true }
		w.book.lose = 1
		w.do(nil, anew)
		w.check(anew, "live", 2, ledger.Done)
		w.book.lose, w.book.begun = 100, nil // longer than the wait: then nobody knows
		c := at("c", 4)
		w.do(nil, c)
		w.check(c, "transient", 0, ledger.Running)
		if n := len(w.book.begun); n != 4 {
			t.Errorf("%d tries to begin, want 4", n)
		}
	})
}

func TestNothingIsDoneWithoutTheLedger(t *testing.T) {
	w := newWorld(t)
	w.book.begin = errors.New("disk full")
	a := at("a", 1)
	w.do(nil, a)
	w.check(a, "transient", 0, 0)
}

func TestTheEndIsTriedAgainWhileTheLeaseLasts(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  int
		repeat bool
		want   string
		state  ledger.State
	}{
		{"and written", 5, false, "live", ledger.Done},
		{"and is unknown after that", 1 << 30, false, "unknown", ledger.Running},
		{"and is repeated after that where it is harmless", 1 << 30, true, "transient", ledger.Running},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.guard.Repeat = c.repeat
				w.book.end = func(try int) error {
					if try <= c.fails {
						return errors.New("disk full")
					}
					return nil
				}
				start := time.Now()
				a := at("a", 1)
				w.do(nil, a)
				w.check(a, c.want, 1, c.state)
				if took := time.Since(start); took == 0 || took > time.Minute {
					t.Errorf("it took %v, want some of the lease", took)
				}
			})
		})
	}
}

// The last try is the one that is due as the lease ends: after 50, 100 and 200 ms here.
func TestTheEndIsTriedUpToTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.guard.Lease = 350 * time.Millisecond
		w.book.end = func(int) error { return errors.New("disk full") }
		w.do(nil, at("a", 1))
		if w.book.tries != 4 {
			t.Errorf("%d tries, want 4", w.book.tries)
		}
	})
}

// What the ledger could not be told says nothing to others of the batch: they come again.
func TestDuplicatesOfWhatCouldNotBeWritten(t *testing.T) {
	for _, err := range []error{nil, tidemill.Fail(tidemill.Unknown, "answer lost")} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.book.end = func(int) error { return errors.New("disk full") }
			a, a2 := at("a", 1), at("a", 2)
			w.do(func(_ context.Context, t *flow.Task) {
				if err != nil {
					t.Fail(err)
				}
			}, a, a2)
			w.check(a2, "again in 15s", 1, ledger.Running)
		})
	}
}

func TestTwoLanesFightOverTheSameWork(t *testing.T) {
	l := tableledger.Memory(tableledger.Options{})
	guard := once.Guard{Ledger: l, Key: func(m *tidemill.Message) string { return m.ID }, Lease: time.Hour}
	var mu sync.Mutex // guards effects
	effects := map[string]int{}
	inner := func(flow.Env) flow.Work {
		return work(func(_ context.Context, b []*flow.Task) error {
			mu.Lock()
			defer mu.Unlock()
			for _, t := range b {
				effects[t.ID]++
			}
			return nil
		})
	}
	var g sync.WaitGroup
	for lane := range uint64(4) {
		g.Go(func() {
			w := guard.Around(inner)(flow.Env{})
			for i := range 200 {
				b := []*flow.Task{at(fmt.Sprint(i%50), lane*1000+uint64(i)), at(fmt.Sprint((i+1)%50), lane*1000+500+uint64(i))}
				if err := w.Do(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	for id, n := range effects {
		if n != 1 {
			t.Errorf("%s happened %d times", id, n)
		}
	}
	if len(effects) != 50 {
		t.Errorf("%d of 50 happened", len(effects))
	}
}

// What took half a lease to begin is given back: others may begin it before its work ends.
func TestWorkIsNotBegunOnALeaseThatIsHalfOver(t *testing.T) {
	for _, c := range []struct {
		stall   time.Duration
		again   bool // it is the second begin that stalls
		want    string
		effects int
		state   ledger.State
	}{
		{29 * time.Second, false, "live", 1, ledger.Done},
		{30 * time.Second, false, "again in 15s", 0, ledger.Failed},
		{2 * time.Minute, false, "again in 15s", 0, ledger.Failed},
		{2 * time.Minute, true, "again in 15s", 1, ledger.Failed},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			if c.again {
				w.do(nil, at("a", 1))
				w.guard.Anew = func(*tidemill.Message) bool { return true }
			}
			w.book.stall = func(o ledger.Begin) {
				if o.Anew == c.again {
					time.Sleep(c.stall)
				}
			}
			a := at("a", 2)
			w.do(nil, a)
			w.check(a, c.want, c.effects, c.state)
			w.book.stall = nil
			if c.state == ledger.Failed {
				w.do(nil, at("a", 2))
				w.check(a, c.want, c.effects+1, ledger.Done)
			}
		})
	}
}
