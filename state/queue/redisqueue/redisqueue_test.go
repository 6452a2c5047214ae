package redisqueue

import (
	"flag"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/queuetest"
)

// Most of these tests wait for leases to end: many may do so at once. The model is played
// a few times only, unless more are asked for: each step looks at everything.
func TestMain(m *testing.M) {
	flag.Parse()
	set := map[string]string{"test.parallel": "16", "rapid.checks": "6"}
	flag.Visit(func(f *flag.Flag) { delete(set, f.Name) })
	for name, value := range set {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestContract(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		queuetest.RunLive(t, func(t *testing.T, capacity int) queuetest.Harness { return fresh(t, client, capacity) })
	})
}

// fresh is a store with keys of its own.
func fresh(t *testing.T, client rueidis.Client, capacity int) queuetest.Harness {
	t.Helper()
	o := Options{Prefix: testenv.Name("queue:"), Capacity: capacity}
	var ahead atomic.Int64
	o.ahead = func() time.Duration { return time.Duration(ahead.Load()) }
	open := func() queue.Core {
		s, err := New(client, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return queuetest.Harness{Store: open(), Kill: open, Whole: true, Live: true, Advance: func(d time.Duration) { ahead.Add(int64(d)) }}
}
