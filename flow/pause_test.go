package flow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// A pause lasts for hours: what waits in lanes is for other instances meanwhile.
func TestAPauseGivesBackWhatWaits(t *testing.T) {
	for name, change := range map[string]func(*flow.Pipeline){
		"waiting for a lane":    func(*flow.Pipeline) {},
		"waiting for the limit": func(p *flow.Pipeline) { p.Limiter = policy.Limiter{Rate: 1e-3, Burst: 2} },
		"waiting for more":      func(p *flow.Pipeline) { p.Batch, p.InFlight, p.Age = 1000, 1000, time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(tidemill.Traits{Parks: true, Delays: true, Keep: time.Second}).add(messages(10)...)
				p := flow.Pipeline{Name: "p", Source: leasing{s}, Batch: 2, InFlight: 10,
					Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Second); return nil }).work}
				change(&p)
				e, stop := start(t, p)
				rest(1500 * time.Millisecond)
				if err := e.Pause(); err != nil {
					t.Fatal(err)
				}
				rest(10 * time.Second) // what is being worked on is finished
				if n := e.Stats().InFlight; n != 0 {
					t.Errorf("%d are held while it is paused", n)
				}
				s.mu.Lock()
				s.keeps = nil
				s.mu.Unlock()
				rest(time.Hour)
				s.mu.Lock()
				if len(s.keeps) != 0 {
					t.Errorf("leases were renewed %d times while nothing was held", len(s.keeps))
				}
				for _, end := range s.ends {
					if end.End != tidemill.Done && (end.End != tidemill.Again || end.After != 0 || end.CountTry) {
						t.Errorf("%s went back as %+v", end.ID, end)
					}
				}
				s.mu.Unlock()
				if err := e.Resume(); err != nil {
					t.Fatal(err)
				}
				rest(3 * time.Hour)
				if n := e.Stats().Settled.Delivered; n != 10 {
					t.Errorf("%d were delivered after the pause, want 10", n)
				}
				if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		})
	}
}

// Order that the lanes alone keep would be lost on the way back.
func TestAPauseHoldsWhatIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true, Delays: true, Keep: time.Second}).add(messages(6)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: leasing{s}, Batch: 1, InFlight: 6, Lane: func(*tidemill.Message) uint64 { return 0 },
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Second); return nil }).work})
		rest(1500 * time.Millisecond)
		if err := e.Pause(); err != nil {
			t.Fatal(err)
		}
		rest(time.Minute)
		s.mu.Lock()
		if len(s.keeps) < 50 {
			t.Errorf("leases of what is held were renewed %d times in a minute", len(s.keeps))
		}
		s.mu.Unlock()
		if err := e.Resume(); err != nil {
			t.Fatal(err)
		}
		rest(time.Minute)
		equal(t, "ends", fmt.Sprint(s.fates()), "[1 delivered 2 delivered 3 delivered 4 delivered 5 delivered 6 delivered]")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
