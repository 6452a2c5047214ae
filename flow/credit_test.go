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

// Of work that becomes slow, a source that can bring messages back gets those that lanes would begin
// much later; another keeps what is held, and gets no more.
func TestOfWorkThatBecomesSlowLessIsHeld(t *testing.T) {
	for _, delays := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Delays: delays}).add(messages(6000)...)
			var takes atomic.Int64
			takes.Store(int64(300 * time.Microsecond))
			e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 10,
				Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Duration(takes.Load())); return nil }).work})
			rest(100 * time.Millisecond)
			if n := e.Stats().InFlight; n < 700 {
				t.Errorf("%d are held of fast work", n)
			}
			takes.Store(int64(time.Second))
			rest(4 * time.Second)
			if n := e.Stats().InFlight; delays && n > 60 || !delays && n < 600 {
				t.Errorf("delays %v: %d are held after four seconds of slow work", delays, n)
			}
			rest(110 * time.Second) // at most 1,024 were held: they are done
			if n := e.Stats().InFlight; n > 20 {
				t.Errorf("delays %v: %d are held of slow work", delays, n)
			}
			takes.Store(0)
			rest(10 * time.Second)
			s.balance(t)
			stop()
		})
	}
}

// What was given back is not given back again: no message is handed out over and over because the
// work is now fast and now slow.
func TestAMessageIsGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 3000
		s := newSource(tidemill.Traits{Delays: true}).add(messages(all)...)
		var begun, most atomic.Int64
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 10,
			Work: each(func(_ context.Context, m *flow.Task) error {
				most.Store(max(most.Load(), int64(m.Handed)))
				if n := begun.Add(1); n%600 < 30 { // 3 s of slow work of 10 lanes, then 57 ms of fast work
					time.Sleep(time.Second)
				} else {
					time.Sleep(100 * time.Microsecond)
				}
				return nil
			}).work})
		rest(time.Minute)
		if n := most.Load(); begun.Load() != all || n != 2 {
			t.Errorf("%d of %d messages were worked on, one of them was handed out %d times; want each, and 2", begun.Load(), all, n)
		}
		s.balance(t)
		stop()
	})
}
