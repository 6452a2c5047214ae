package metrics_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/serve/metrics/metricstest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// slow takes its time, also to find out that a destination is away.
type slow struct{ away *atomic.Bool }

func (s slow) Do(_ context.Context, batch []*flow.Task) error {
	time.Sleep(27 * time.Second)
	for _, t := range batch {
		if s.away.Load() {
			t.Fail(tidemill.Fail(tidemill.Timeout, "nobody answers"))
		}
	}
	return nil
}

// Most of an outage may be one probe after the other: brokers that are away take their time.
func TestABreakerIsOpenWhileAProbeIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		jobs := memoryqueue.New(memoryqueue.Options{})
		var away atomic.Bool
		away.Store(true)
		e, err := flow.New(flow.Pipeline{Name: "p", Source: jobs.Open("q", queue.Options{}), Dead: letters, Lanes: 1,
			Rules:   policy.Table{tidemill.Timeout: {Do: policy.Retrying, Blames: true}},
			Retry:   policy.Retry{Tries: 3, Base: time.Second},
			Breaker: policy.Breaker{Fails: 1, Open: 5 * time.Second},
			Work:    func(flow.Env) flow.Work { return slow{&away} }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		c := &metrics.Engines{}
		c.Add(func() ([]*flow.Engine, map[string]tidemill.Bookkeeper) { return []*flow.Engine{e}, nil })
		open := func(seconds int) (n int) {
			for range seconds {
				time.Sleep(time.Second)
				if strings.Contains(metricstest.Scrape(t, c), `tidemill_breaker_open{pipeline="p"} 1`) {
					n++
				}
			}
			return n
		}
		if n := open(60); n != 0 {
			t.Errorf("open for %d seconds, and nothing was tried", n)
		}
		if err := jobs.Add(t.Context(), []*tidemill.Message{{ID: "1", To: "q"}}, make([]queue.Added, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if n := open(600); n < 540 {
			t.Errorf("open for %d of 600 seconds of an outage", n)
		}
		away.Store(false)
		time.Sleep(time.Minute)
		if n := open(60); n != 0 {
			t.Errorf("open for %d seconds after the outage", n)
		}
		e.Trip(time.Second)
		time.Sleep(2 * time.Second)
		if n := open(60); n != 0 {
			t.Errorf("open for %d seconds in which there was nothing to try", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
