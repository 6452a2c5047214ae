package flow_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// With the real clock and real threads, while an operator plays with every switch, each
// message still ends once. The race detector is what this test is for.
func TestOperatorsStorm(t *testing.T) {
	const n = 5_000
	s := gated{newSource(tidemill.Traits{Delays: true, Keep: time.Millisecond})}
	dead := &letters{}
	ended := make(chan struct{})
	total := 0
	p := flow.Pipeline{Name: "p", Source: storm{s, leasing(s)}, Dead: dead, Lanes: 6, Batch: 32, Age: time.Millisecond, InFlight: 600,
		Retry:    policy.Retry{Tries: 2, Base: time.Millisecond, Jitter: policy.Full},
		Breaker:  policy.Breaker{Fails: 4, Open: 2 * time.Millisecond},
		Limiter:  policy.Limiter{Rate: 1e7},
		PauseFor: 2 * time.Millisecond,
		Settled: func(ends []tidemill.Settlement) {
			for i := range ends {
				total += int(ends[i].Row().Total())
			}
			if total == n {
				close(ended)
			}
		},
		Work: batches(func(_ context.Context, b []*flow.Task) error {
			for _, task := range b {
				switch rand.IntN(200) {
				case 0:
					task.Skip("because")
				case 1:
					task.Fail(errDown)
				case 2:
					task.Fail(tidemill.Fail(tidemill.Business, "no"))
				case 3:
					task.Again(time.Millisecond)
				case 4:
					task.Fail(&tidemill.Error{Kind: tidemill.RateLimit, Err: errDown, After: time.Millisecond})
				}
			}
			switch rand.IntN(100) {
			case 0:
				panic("oh")
			case 1:
				return errDown
			case 2:
				return tidemill.Fail(tidemill.Credentials, "no")
			}
			return nil
		}).work,
		Rules: policy.Table{tidemill.RateLimit: {Do: policy.Retrying, CountTry: true}},
	}
	e, err := flow.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g sync.WaitGroup
	g.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	g.Go(func() {
		for range n / 100 {
			s.add(messages(100)...)
		}
	})
	over := make(chan struct{})
	g.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				_ = e.Resume()
				return
			case <-time.After(200 * time.Microsecond):
			}
			switch i % 8 {
			case 0:
				_ = e.Pause()
			case 1, 5:
				_ = e.Resume()
			case 2:
				_ = e.Workers(1 + i%6)
			case 3:
				e.Flush()
			case 4:
				_ = e.Stats()
			case 6:
				e.Trip(time.Millisecond)
			case 7:
				e.Reset()
			}
		}
	})
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Errorf("stuck: %+v", e.Stats())
	}
	close(over)
	cancel()
	g.Wait()
	s.balance(t)
}

// storm is a source with a gate and leases.
type storm struct {
	gated
	leases leasing
}

func (s storm) Keep(ctx context.Context) error { return s.leases.Keep(ctx) }
