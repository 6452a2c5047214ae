package giveway

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkRestsWhileRequestsTakeLong(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var w Way
	for range 100 { // rests end late: no core is free
		w.Rest(at, 0, time.Second)
	}
	rests := func(after, worked, want time.Duration) {
		t.Helper()
		if got := w.Rest(at.Add(after), worked, -1); got != want {
			t.Errorf("after %v, a lane rests %v from %v of work, want %v", after, got, worked, want)
		}
	}
	rests(0, 10*time.Millisecond, 0) // no request
	w.Came(at)
	rests(patience-1, 10*time.Millisecond, 0) // it is answered soon, perhaps
	rests(patience, 10*time.Millisecond, 15*time.Millisecond)
	rests(patience, time.Hour, longestRest)
	rests(patience, 0, 0)
	w.Came(at)
	w.Answered(at, at.Add(time.Second))
	rests(time.Second, 2*time.Millisecond, 3*time.Millisecond) // the other waits, and the last one took long
	w.Answered(at, at.Add(time.Second))
	rests(time.Hour, time.Second, 0)
	w.Came(at.Add(time.Hour)) // what one took an hour ago says nothing
	rests(time.Hour, time.Second, 0)
	for range 100 {
		w.Came(at)
		w.Answered(at, at.Add(patience/2))
	}
	rests(patience/2, time.Second, 0) // requests come, and are fast
}

// Requests may be slow for other reasons than that work takes the cores: rests would not help them.
func TestWorkRestsLittleWhereCoresAreFree(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var w Way
	w.Came(at)
	at = at.Add(time.Second)
	count := func(late time.Duration) (n int) {
		for range 800 {
			if w.Rest(at, time.Millisecond, late) > 0 {
				n++
			}
		}
		return n
	}
	if n := count(inTime / 2); n != 800/some {
		t.Errorf("of 800 batches %d had a rest where rests end in time, want %d", n, 800/some)
	}
	if n := count(2 * inTime); n < 700 {
		t.Errorf("of 800 batches %d had a rest where rests end late, want nearly all", n)
	}
	if n := count(0); n > 200 {
		t.Errorf("of 800 batches %d had a rest where they end in time again", n)
	}
}

// both has requests and work call something that does one thing after the other for a second, and
// returns how long each has had it.
func both(t *testing.T, requests bool, workers int) (first, work, latest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		var mu sync.Mutex // guards what is returned
		turn, end := make(chan struct{}, 1), time.Now().Add(time.Second)
		call := func(ctx context.Context, d time.Duration) (waited time.Duration) {
			began := time.Now()
			leave := g.Enter(ctx)
			waited = time.Since(began)
			turn <- struct{}{}
			time.Sleep(d)
			<-turn
			leave()
			return waited
		}
		if requests {
			go func() {
				for time.Now().Before(end) {
					if waited := call(First(t.Context()), time.Millisecond); waited > 0 {
						t.Errorf("a request's call waited %v", waited)
					}
					mu.Lock()
					first += time.Millisecond
					mu.Unlock()
				}
			}()
		}
		for range workers {
			go func() {
				for i := 0; time.Now().Before(end); i++ {
					took := 3 * time.Millisecond
					if i%16 == 0 { // as of some calls that find nothing
						took = 10 * time.Microsecond
					}
					waited := call(t.Context(), took)
					mu.Lock()
					latest, work = max(latest, waited), work+took
					mu.Unlock()
				}
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
	})
	return first, work, latest
}

func TestRequestsGoFirstAndWorkHasItsShare(t *testing.T) {
	for _, workers := range []int{1, 4} {
		first, work, latest := both(t, true, workers)
		if had := work.Seconds() / (first + work).Seconds(); had < share || had > 0.75 {
			t.Errorf("beside requests, %d workers have %.2f of the time, want %v at least, and not nearly all", workers, had, share)
		}
		if latest > longest {
			t.Errorf("a call for work waited %v, want %v at most", latest, longest)
		}
	}
	if _, work, latest := both(t, false, 4); latest > 0 || work < time.Second {
		t.Errorf("without requests, a call for work waited %v, and %v were worked in a second", latest, work)
	}
}

// Requests that come now and then cost work little: what it waits for them ends with them.
func TestFewRequestsHoldUpWorkLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		end := time.Now().Add(time.Second)
		for range 8 {
			go func() { // many calls at a time, before and while requests come
				for time.Now().Before(end) {
					leave := g.Enter(t.Context())
					time.Sleep(10 * time.Millisecond)
					leave()
				}
			}()
		}
		for time.Now().Before(end) {
			time.Sleep(49 * time.Millisecond)
			leave := g.Enter(First(t.Context()))
			time.Sleep(time.Millisecond)
			leave()
			began := time.Now()
			g.Enter(t.Context())()
			if waited := time.Since(began); waited > quiet {
				t.Errorf("a call for work waited %v after a request, want %v at most", waited, quiet)
			}
		}
		time.Sleep(time.Second)
	})
}

func TestAManyfoldOfCallersWaitsForABoundedTime(t *testing.T) {
	if _, _, latest := both(t, true, 200); latest > longest {
		t.Errorf("one of 200 callers waited %v, want %v at most", latest, longest)
	}
}

// What is far away takes long to answer, and nobody waits for that.
func TestTheWayThereAndBackIsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		defer g.Enter(First(t.Context()))()
		end := time.Now().Add(time.Second)
		var calls atomic.Int64
		for range 16 {
			go func() {
				for time.Now().Before(end) {
					leave := g.Enter(t.Context())
					time.Sleep(5 * time.Millisecond)
					leave()
					calls.Add(1)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := calls.Load(); n < 16*190 {
			t.Errorf("%d calls of 5ms were made by 16 in a second, want all 3200 or so", n)
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		defer g.Enter(First(t.Context()))()
		g.Enter(t.Context())() // it takes nothing
		leave := g.Enter(t.Context())
		time.Sleep(30 * time.Millisecond)
		leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		g.Enter(ctx)()
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("it waited %v, want 1ms", took)
		}
	})
}

// A call that was not made says nothing of how long the way there and back is, and has no time.
func TestAWaitThatWasGivenUpTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		defer g.Enter(First(t.Context()))()
		call := func(ctx context.Context) {
			leave := g.Enter(ctx)
			if ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			leave()
		}
		call(t.Context())
		leave := g.Enter(t.Context())
		time.Sleep(105 * time.Millisecond)
		leave()
		given, give := context.WithTimeout(t.Context(), time.Millisecond)
		defer give()
		call(given)
		time.Sleep(time.Second)
		began := time.Now()
		for range 100 {
			call(t.Context())
		}
		if took := time.Since(began); took > 700*time.Millisecond {
			t.Errorf("a hundred calls of 5ms, all of it the way there and back, took %v", took)
		}
	})
}

// Of several lanes each has a share of the time.
func TestAGateOfLanesLetsAsManyPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Gate{Lanes: 4}
		defer g.Enter(First(t.Context()))()
		g.Enter(t.Context())() // the way there and back takes nothing
		var worked atomic.Int64
		end := time.Now().Add(apart)
		for range 16 {
			go func() {
				for time.Now().Before(end) {
					leave := g.Enter(t.Context())
					time.Sleep(10 * time.Millisecond)
					worked.Add(int64(10 * time.Millisecond))
					leave()
				}
			}()
		}
		time.Sleep(2 * apart)
		synctest.Wait()
		if had := time.Duration(worked.Load()).Seconds() / (4 * apart.Seconds()); had < share-.02 || had > share+.05 {
			t.Errorf("work had %.2f of the time of all lanes, want %v", had, share)
		}
	})
}

func TestWhatHasWaitedWaitsForNoOtherGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		defer g.Enter(First(t.Context()))()
		g.Enter(t.Context())()
		leave := g.Enter(t.Context())
		time.Sleep(100 * time.Millisecond)
		leave()
		began := time.Now()
		g.Enter(Waited(t.Context()))()
		if took := time.Since(began); took > 0 {
			t.Errorf("it waited %v", took)
		}
	})
}

func TestWhoDoesTheWorkOfAllRestsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		began := time.Now()
		time.Sleep(4 * time.Millisecond)
		g.Worked(began, time.Now())
		if rest := g.Rest(time.Now()); rest != 0 || g.Contended(time.Now()) {
			t.Errorf("without requests it rests %v", rest)
		}
		leave := g.Enter(First(t.Context()))
		rests := func() (all time.Duration) {
			for rest := g.Rest(time.Now()); rest > 0; rest = g.Rest(time.Now()) {
				time.Sleep(rest)
				all += rest
			}
			return all
		}
		if rest := rests(); rest != 6*time.Millisecond || !g.Contended(time.Now()) {
			t.Errorf("after 4ms of work it rests %v, want 6ms", rest)
		}
		g.Worked(time.Now().Add(-time.Hour), time.Now())
		if rest := rests(); rest != longest {
			t.Errorf("after an hour of work it rests %v, want %v", rest, longest)
		}
		g.Worked(time.Now().Add(-time.Hour), time.Now())
		leave()
		if rest := rests(); rest != quiet || g.Contended(time.Now()) {
			t.Errorf("after the last request it rests %v, want %v", rest, quiet)
		}
	})
}

// A machine whose cores are busy lets a sleeper run at once, so that rests end in time there, too: its
// own books say whether a core was free.
func TestWorkRestsWhereTheMachineSaysThatNoCoreIsFree(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var idle time.Duration
	known := true
	w := Way{Idle: func() (time.Duration, bool) { return idle, known }}
	w.Came(at)
	at = at.Add(time.Second)
	rests := func(freed time.Duration) (n int) {
		for range 8 * some {
			at, idle = at.Add(while), idle+freed
			if w.Rest(at, time.Millisecond, 0) > 0 {
				n++
			}
		}
		return n
	}
	rests(0)
	if n := rests(while/2 - 1); n != 8*some {
		t.Errorf("of %d batches %d had a rest where less than half a core is idle, want all", 8*some, n)
	}
	if !w.pressed(at) {
		t.Error("it is not pressed where no core is free")
	}
	rests(while)
	if n := rests(while / 2); n != 8 {
		t.Errorf("of %d batches %d had a rest where half a core is idle, want 8", 8*some, n)
	}
	if w.pressed(at) {
		t.Error("it is pressed where half a core is free")
	}
	rests(0)
	at = at.Add(time.Hour)
	if n := rests(while); n != 8 {
		t.Errorf("of %d batches %d had a rest after an hour in which nobody looked, want 8", 8*some, n)
	}
	rests(0)
	idle = 0
	w.Rest(at.Add(while), time.Millisecond, 0)
	if w.pressed(at.Add(while)) {
		t.Error("it is pressed where the machine's books went back")
	}
	at, known = at.Add(while), false
	if n := rests(0); n != 8 {
		t.Errorf("of %d batches %d had a rest where the machine does not tell, want 8", 8*some, n)
	}
}

// What requests do not call has a gate too: it is shut while they take long.
func TestAGateIsShutWhileRequestsTakeLongElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := true
		g := Gate{Way: &Way{Idle: func() (time.Duration, bool) {
			if busy {
				return 0, true
			}
			return time.Duration(time.Now().UnixNano()), true
		}}}
		second := func() (waited time.Duration) {
			time.Sleep(while)
			g.Enter(t.Context())() // it takes nothing
			time.Sleep(while)
			leave := g.Enter(t.Context())
			time.Sleep(40 * time.Millisecond)
			leave()
			began := time.Now()
			g.Enter(t.Context())()
			return time.Since(began)
		}
		second()
		if waited := second(); waited != 0 {
			t.Errorf("without requests a call waited %v", waited)
		}
		g.Way.Came(time.Now())
		second()
		if waited := second().Round(time.Microsecond); waited != 15*time.Millisecond {
			t.Errorf("while a request takes long, a call waited %v after one of 40ms, want 15ms", waited)
		}
		busy = false
		second()
		if waited := second(); waited != 0 {
			t.Errorf("where a core is free, a call waited %v", waited)
		}
	})
}
