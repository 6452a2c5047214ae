package redisdeadletter_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/deadlettertest"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
)

func TestConformance(t *testing.T) {
	on(t, func(t *testing.T, client rueidis.Client) {
		deadlettertest.Run(t, func(t *testing.T, o deadletter.Options) deadlettertest.Harness { return harness(t, client, o) })
	})
}

func TestSource(t *testing.T) {
	on(t, func(t *testing.T, client rueidis.Client) {
		const lease = 2 * time.Second
		sourcetest.RunLive(t, func(t *testing.T) sourcetest.Harness {
			h := harness(t, client, deadletter.Options{Lease: lease})
			source := deadlettertest.Source(t, h.Store, lease, h.Reopen)
			source.Soon = lease / 3 // a busy machine needs more than a quarter
			return source
		})
	})
}

// on runs a test on one server and on a cluster.
func on(t *testing.T, run func(t *testing.T, client rueidis.Client)) {
	for name, url := range map[string]func(testing.TB) string{"single": testenv.Redis, "cluster": testenv.RedisCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, connect(t, url(t)))
		})
	}
}

func connect(t *testing.T, url string) rueidis.Client {
	t.Helper()
	client, err := redisconn.Open(t.Context(), tidemill.NewSecret(url), redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
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
