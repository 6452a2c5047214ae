package rates_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve/rates"
)

var usual = rates.Limits{Reads: policy.Limiter{Rate: 20, Burst: 60}, Changes: policy.Limiter{Rate: 2, Burst: 10}, Dear: 1, DearOfAll: 2}

func in(t *testing.T, do func(t *testing.T, l *rates.Limiter, limits *rates.Limits)) {
	synctest.Test(t, func(t *testing.T) {
		limits := usual
		do(t, rates.New(time.Now, func() rates.Limits { return limits }), &limits)
	})
}

func TestACallerHasABurstAndThenARate(t *testing.T) {
	in(t, func(t *testing.T, l *rates.Limiter, limits *rates.Limits) {
		let := func(who string, change bool) (n int) {
			for l.Take(who, change).Wait == 0 {
				n++
			}
			return n
		}
		if n := let("ada", false); n != 60 {
			t.Errorf("%d reads are let in at once", n)
		}
		if n := let("ada", true); n != 10 {
			t.Errorf("%d changes are let in at once", n)
		}
		if n := let("bob", false); n != 60 {
			t.Errorf("another caller has %d reads", n)
		}
		if s := l.Take("ada", false); s.Wait != 50*time.Millisecond || s.Left != 0 || s.Full != 3*time.Second {
			t.Errorf("one too many stands at %+v", s)
		}
		time.Sleep(time.Second)
		if reads, changes := let("ada", false), let("ada", true); reads != 20 || changes != 2 {
			t.Errorf("after a second there are %d reads and %d changes", reads, changes)
		}
		limits.Reads.Rate = 0
		if s := l.Take("ada", false); s.Wait != 0 || s.Limit.Rate != 0 {
			t.Errorf("without a limit it stands at %+v", s)
		}
		limits.Reads.Rate, limits.Reads.Burst = 1, 3 // which is in force at once
		if n := let("ada", false); n != 3 {
			t.Errorf("of another limit %d are let in", n)
		}
	})
}

func TestADearRequestWaitsForItsTurnAndIsRefusedThen(t *testing.T) {
	in(t, func(t *testing.T, l *rates.Limiter, _ *rates.Limits) {
		end, full := l.Begin(t.Context(), "ada")
		if full != nil {
			t.Fatal(full)
		}
		began := time.Now()
		if _, full := l.Begin(t.Context(), "ada"); full == nil || full.OfAll || full.Most != 1 || time.Since(began) != time.Second {
			t.Errorf("a second one of the same caller: %+v after %v", full, time.Since(began))
		}
		other, full := l.Begin(t.Context(), "bob")
		if full != nil {
			t.Errorf("another caller: %+v", full)
		}
		if _, full := l.Begin(t.Context(), "eve"); full == nil || !full.OfAll || full.Most != 2 {
			t.Errorf("one too many of all: %+v", full)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if began := time.Now(); func() *rates.Full { _, full := l.Begin(gone, "eve"); return full }() == nil || time.Since(began) != 0 {
			t.Error("who is gone waits, or has a turn")
		}
		time.AfterFunc(500*time.Millisecond, end)
		began = time.Now()
		end, full = l.Begin(t.Context(), "ada")
		if full != nil || time.Since(began) != 500*time.Millisecond {
			t.Errorf("when the first has ended: %+v after %v", full, time.Since(began))
		}
		end()
		other()
	})
}

func TestCallersAreForgotten(t *testing.T) {
	in(t, func(t *testing.T, l *rates.Limiter, _ *rates.Limits) {
		end, _ := l.Begin(t.Context(), "busy")
		for i := range 10_000 {
			l.Take(fmt.Sprint(i), false)
		}
		if n := l.Known(); n != 4096 {
			t.Errorf("%d callers are remembered", n)
		}
		end()
		end, _ = l.Begin(t.Context(), "busy")
		time.Sleep(2 * time.Minute)
		l.Take("ada", false)
		if n := l.Known(); n != 2 {
			t.Errorf("after a rest %d are remembered", n)
		}
		if _, full := l.Begin(t.Context(), "busy"); full == nil {
			t.Error("who is at work is forgotten")
		}
		end()
	})
}
