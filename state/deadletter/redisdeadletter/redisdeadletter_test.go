package redisdeadletter_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/deadlettertest"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
)

func TestConformance(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		deadlettertest.Run(t, func(t *testing.T, o deadletter.Options) deadlettertest.Harness { return harness(t, client, o) })
	})
}

func TestSource(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		const lease = 2 * time.Second
		sourcetest.RunLive(t, 8, func(t *testing.T) sourcetest.Harness {
			h := harness(t, client, deadletter.Options{Lease: lease})
			source := deadlettertest.Source(t, h.Store, lease, h.Reopen)
			source.Soon = lease / 3 // a busy machine needs more than a quarter
			return source
		})
	})
}

// harness is a store on a stream of its own.
func harness(t *testing.T, client rueidis.Client, o deadletter.Options) deadlettertest.Harness {
	t.Helper()
	stream := testenv.Name("dlq:")
	open := func(t *testing.T) deadletter.Store {
		t.Helper()
		s, err := redisdeadletter.New(t.Context(), client, redisdeadletter.Options{Options: o, Stream: stream})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	drop := func() { remove(t, client, stream) }
	t.Cleanup(drop)
	return deadlettertest.Harness{Store: open(t), Reopen: open, Shared: true, Close: drop}
}
