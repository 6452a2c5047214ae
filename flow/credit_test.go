package flow_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

func TestOfFastWorkMoreIsHeld(t *testing.T) {
	for _, c := range []struct {
		why      string
		takes    time.Duration // a message
		inFlight int
		from, to int // held at most
	}{
		{"slow work: what lanes need", time.Second, 0, 20, 20},
		{"25 ms of it: 5 ms of 10 lanes are 2,000/s", 5 * time.Millisecond, 0, 40, 60},
		{"25 ms of it: 100 µs of 10 lanes are 100,000/s", 100 * time.Microsecond, 0, 900, 1024},
		{"as given", time.Millisecond, 30, 30, 30},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(tidemill.Traits{}).add(messages(4000)...)
				e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 10, InFlight: c.inFlight,
					Work: each(func(context.Context, *flow.Task) error { time.Sleep(c.takes); return nil }).work})
				most := 0
				for len(s.fates()) < 4000 {
					rest(c.takes)
					most = max(most, e.Stats().InFlight)
				}
				if most < c.from || most > c.to {
					t.Errorf("%d were held at most, want %d to %d", most, c.from, c.to)
				}
				stop()
			})
		})
	}
}

func TestOfWorkThatBecomesSlowLessIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(2000)...)
		var takes atomic.Int64
		takes.Store(int64(time.Millisecond))
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 10,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Duration(takes.Load())); return nil }).work})
		rest(100 * time.Millisecond)
		if n := e.Stats().InFlight; n < 150 {
			t.Errorf("%d are held of fast work", n)
		}
		takes.Store(int64(time.Second))
		rest(110 * time.Second) // at most 1,024 were held: they are done
		if n := e.Stats().InFlight; n > 20 {
			t.Errorf("%d are held of slow work", n)
		}
		takes.Store(0)
		stop()
	})
}
