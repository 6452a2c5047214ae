// Package locktest holds the promises of every backend of locks as cases: call Run from the
// backend's one test.
package locktest

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/lock"
)

// Harness is one set of free locks.
type Harness struct {
	Locks lock.Locks
	// Pass lets time pass at a server with its own clock. That clock goes on beside it, so a
	// moment is then a second. Nil: the locks use the clock given to Run's function.
	Pass   func(d time.Duration)
	Reopen func() lock.Locks // closes and opens the same data again; nil: nothing survives
}

// Run runs every case on its own harness, whose locks run out by the given clock.
func Run(t *testing.T, h func(t *testing.T, now func() time.Time) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.reason)
			clock := &clock{}
			clock.at.Store(time.Date(2026, 5, 4, 12, 0, 0, 700_000, time.UTC).UnixNano())
			c.do(&test{T: t, Harness: h(t, clock.now), clock: clock})
		})
	}
}

var cases = []struct {
	name, reason string
	do           func(*test)
}{
	{"one owner at a time", "this is what a lock is", oneOwner},
	{"one of many who ask at once gets it", "instances start together", oneOfMany},
	{"names do not hinder each other", "one replay must not stop another's", names},
	{"a released lock can be taken", "the next need not wait for the end of time", released},
	{"a lock runs out", "an owner that crashed must not hold it for ever", runsOut},
	{"a lock never runs out early", "its owner counts on all of its time", neverEarly},
	{"a lock can be for as long as can be said", "a sum that is too large is a lock that two have", forEver},
	{"extending makes it run from now", "long work is kept alive by short steps", extended},
	{"a lock that ran out cannot be extended", "meanwhile somebody else may have worked", lateExtend},
	{"a late owner's release changes nothing", "it would free what is another's", lateRelease},
	{"a forged owner is refused", "only who holds it may change it", forged},
	{"the fence grows with every owner", "a resource refuses who comes with a lower one", fence},
	{"owners that compete take turns, and their fences grow", "instances wait for each other, and a resource refuses a late one", turns},
	{"owners are unguessable", "a lock is its owner's by its token", owners},
	{"nonsense is refused", "a mistake should be heard at once", nonsense},
	{"an ended context takes nothing", "a stop must not be held up", endedContext},
	{"locks and fences outlive a restart", "who held it still does", restart},
}

type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(0, c.at.Load()).UTC() }

type test struct {
	*testing.T
	Harness
	clock *clock
}

func (t *test) pass(d time.Duration) {
	t.clock.at.Add(int64(d))
	if t.Pass != nil {
		t.Pass(d)
	}
}

// moment is the shortest time that cases can tell from zero.
func (t *test) moment() time.Duration {
	if t.Pass != nil {
		return time.Second
	}
	return time.Nanosecond
}

// take acquires a lock that must be free.
func (t *test) take(name string, d time.Duration) lock.Held {
	t.Helper()
	h, ok, err := t.Locks.Acquire(t.Context(), name, d)
	if err != nil || !ok {
		t.Fatalf("Acquire(%q) = %v, %v; want the lock", name, ok, err)
	}
	if h.Name != name || h.Owner == "" || h.Fence == 0 {
		t.Fatalf("Acquire(%q) = %+v; want a name, an owner and a fence", name, h)
	}
	return h
}

// taken checks that the lock is held.
func (t *test) taken(name string) {
	t.Helper()
	if h, ok, err := t.Locks.Acquire(t.Context(), name, time.Second); err != nil || ok || h != (lock.Held{}) {
		t.Fatalf("Acquire(%q) = %+v, %v, %v; want nothing: somebody holds it", name, h, ok, err)
	}
}

func (t *test) extend(h lock.Held, d time.Duration, want error) {
	t.Helper()
	if err := t.Locks.Extend(t.Context(), h, d); !errors.Is(err, want) {
		t.Fatalf("Extend(%+v) = %v, want %v", h, err, want)
	}
}

func (t *test) release(h lock.Held, want error) {
	t.Helper()
	if err := t.Locks.Release(t.Context(), h); !errors.Is(err, want) {
		t.Fatalf("Release(%+v) = %v, want %v", h, err, want)
	}
}

func oneOwner(t *test) {
	t.take("a", time.Minute)
	t.taken("a")
	t.pass(time.Minute - t.moment())
	t.taken("a")
}

func oneOfMany(t *test) {
	var wg sync.WaitGroup
	var got atomic.Int32
	for range 8 {
		wg.Go(func() {
			_, ok, err := t.Locks.Acquire(t.Context(), "a", time.Minute)
			if err != nil {
				t.Errorf("Acquire: %v", err)
			}
			if ok {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if n := got.Load(); n != 1 {
		t.Fatalf("%d of 8 got the lock, want 1", n)
	}
}

func names(t *test) {
	a := t.take("a", time.Minute)
	b := t.take("b", time.Minute)
	t.release(a, nil)
	t.taken("b")
	t.release(b, nil)
}

func released(t *test) {
	h := t.take("a", time.Minute)
	t.release(h, nil)
	t.release(h, lock.ErrLost)
	t.take("a", time.Minute)
}

func runsOut(t *test) {
	t.take("a", time.Minute)
	t.take("b", time.Hour)
	t.pass(time.Minute + time.Millisecond)
	t.take("a", time.Minute)
	t.taken("b")
}

func neverEarly(t *test) {
	short := 10 * time.Millisecond
	if t.Pass != nil {
		short = 10 * time.Second
	}
	for range 20 {
		h := t.take("a", short)
		t.pass(short - t.moment())
		t.taken("a")
		t.extend(h, short, nil)
		t.pass(short - t.moment())
		t.taken("a")
		t.release(h, nil)
		t.pass(123 * time.Microsecond)
	}
}

func forEver(t *test) {
	h := t.take("a", math.MaxInt64)
	t.pass(time.Hour)
	t.taken("a")
	t.extend(h, math.MaxInt64, nil)
	t.taken("a")
}

func extended(t *test) {
	h := t.take("a", time.Minute)
	for range 3 {
		t.pass(50 * time.Second)
		t.extend(h, time.Minute, nil)
	}
	t.pass(50 * time.Second)
	t.taken("a")
	t.extend(h, time.Second, nil) // also to less than was left
	t.pass(time.Second + time.Millisecond)
	t.take("a", time.Minute)
}

func lateExtend(t *test) {
	h := t.take("a", time.Minute)
	t.pass(time.Minute + time.Millisecond)
	t.extend(h, time.Minute, lock.ErrLost) // nobody acquired it, and still it is lost
	now := t.take("a", time.Minute)
	t.extend(h, time.Minute, lock.ErrLost)
	t.extend(now, time.Minute, nil)
}

func lateRelease(t *test) {
	h := t.take("a", time.Minute)
	t.pass(time.Minute + time.Millisecond)
	t.release(h, lock.ErrLost)
	t.take("a", time.Minute)
	t.release(h, lock.ErrLost)
	t.taken("a")
}

func forged(t *test) {
	h := t.take("a", time.Minute)
	for _, f := range []lock.Held{
		{Name: "a", Owner: "somebody", Fence: h.Fence},
		{Name: "a", Owner: h.Owner, Fence: h.Fence + 1},
		{Name: "b", Owner: h.Owner, Fence: h.Fence},
	} {
		t.extend(f, time.Hour, lock.ErrLost)
		t.release(f, lock.ErrLost)
	}
	t.taken("a")
}

func fence(t *test) {
	var last uint64
	for i := range 6 {
		h := t.take("a", time.Minute)
		if h.Fence <= last {
			t.Fatalf("owner %d has fence %d, the one before had %d", i+1, h.Fence, last)
		}
		last = h.Fence
		t.taken("a")
		if i%2 == 0 {
			t.release(h, nil)
		} else {
			t.pass(time.Minute + time.Millisecond)
		}
	}
}

func turns(t *test) {
	var wg sync.WaitGroup
	var inside atomic.Int32
	var last atomic.Uint64
	for range 4 {
		wg.Go(func() {
			for done := 0; done < 10 && !t.Failed(); {
				h, ok, err := t.Locks.Acquire(t.Context(), "a", time.Minute)
				if err != nil {
					t.Errorf("Acquire: %v", err)
				}
				if !ok {
					continue
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold it at once", n)
				}
				if before := last.Swap(h.Fence); h.Fence <= before {
					t.Errorf("fence %d came after %d", h.Fence, before)
				}
				inside.Add(-1)
				done++
				if err := t.Locks.Release(t.Context(), h); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func owners(t *test) {
	seen := map[string]bool{}
	for range 50 {
		h := t.take("a", time.Minute)
		t.release(h, nil)
		if len(h.Owner) < 16 || seen[h.Owner] {
			t.Fatalf("owner %q is short or was there before", h.Owner)
		}
		seen[h.Owner] = true
	}
}

func nonsense(t *test) {
	if _, ok, err := t.Locks.Acquire(t.Context(), "", time.Minute); err == nil || ok {
		t.Error("a lock without a name was taken")
	}
	if _, ok, err := t.Locks.Acquire(t.Context(), "a", 0); err == nil || ok {
		t.Error("a lock was taken for no time")
	}
	h := t.take("a", time.Minute)
	if err := t.Locks.Extend(t.Context(), h, -time.Second); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("Extend by a negative time returned %v", err)
	}
	t.taken("a")
}

func endedContext(t *test) {
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, ok, err := t.Locks.Acquire(ctx, "a", time.Minute); err == nil || ok {
		t.Fatalf("Acquire with an ended context = %v, %v", ok, err)
	}
	h := t.take("a", time.Minute)
	if err := t.Locks.Release(ctx, h); err == nil {
		t.Fatal("Release with an ended context returned nil")
	}
	t.taken("a")
}

func restart(t *test) {
	if t.Reopen == nil {
		return // nothing survives, nothing is promised
	}
	h := t.take("a", time.Minute)
	t.Locks = t.Reopen()
	t.taken("a")
	t.extend(h, time.Minute, nil)
	t.release(h, nil)
	t.Locks = t.Reopen()
	if again := t.take("a", time.Minute); again.Fence <= h.Fence {
		t.Fatalf("fence %d after a restart, it was %d before", again.Fence, h.Fence)
	}
}
