package rediswindow

import (
	"flag"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
	"github.com/tidemill/tidemill/state/window/windowtest"
)

// Most of these tests wait for leases to end: many may do so at once. The model is played a
// few times only, unless more are asked for: each step looks at everything.
func TestMain(m *testing.M) {
	flag.Parse()
	set := map[string]string{"test.parallel": "16", "rapid.checks": "10"}
	flag.Visit(func(f *flag.Flag) { delete(set, f.Name) })
	for name, value := range set {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		windowtest.Run(t, func(t *testing.T, o window.Options) windowtest.Harness {
			return harness(t, client, Options{Options: o})
		})
	})
}

// TestShards holds the same with batch ids in several slots.
func TestShards(t *testing.T) {
	client := redistest.Connect(t, testenv.RedisCluster(t))
	windowtest.Run(t, func(t *testing.T, o window.Options) windowtest.Harness {
		return harness(t, client, Options{Options: o, Shards: 3})
	})
}

func TestSource(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		const lease = 4 * time.Second
		sourcetest.RunLive(t, 8, func(t *testing.T) sourcetest.Harness {
			h := harness(t, client, Options{Options: window.Options{Lease: lease}})
			source := windowtest.Source(t, h.Store, lease, h.Reopen)
			source.Soon = lease * 3 / 5 // a busy machine needs more than a quarter
			return source
		})
	})
}

// harness is a store with keys of its own.
func harness(t *testing.T, client rueidis.Client, o Options) windowtest.Harness {
	t.Helper()
	o.Prefix = testenv.Name("window:")
	var ahead atomic.Int64
	o.ahead = func() time.Duration { return time.Duration(ahead.Load()) }
	open := func(t *testing.T) window.Store {
		t.Helper()
		s, err := New(client, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(t)
	key := func(t *testing.T, id, kind string) string {
		t.Helper()
		batch, _, ok := window.ParseID(id)
		if !ok {
			t.Fatalf("%q is no ID", id)
		}
		return s.(*Store).tags[s.(*Store).shard(batch)] + kind + id[len(batch)+1:]
	}
	return windowtest.Harness{Store: s, Reopen: open, Shared: true, Parts: o.Shards > 1, Advance: func(d time.Duration) { ahead.Add(int64(d)) },
		Lose: func(t *testing.T, id string) {
			t.Helper()
			if n, err := client.Do(t.Context(), client.B().Del().Key(key(t, id, "d")).Build()).AsInt64(); n != 1 || err != nil {
				t.Fatalf("lose %q: %d, %v", id, n, err)
			}
		},
		Damage: func(t *testing.T, id string) {
			t.Helper()
			k := key(t, id, "d")
			data, err := client.Do(t.Context(), client.B().Hget().Key(k).Field("1").Build()).ToString()
			if err != nil {
				t.Fatal(err)
			}
			b := []byte(data)
			b[len(b)-blob.SumBytes-1] ^= 1
			if err := client.Do(t.Context(), client.B().Hset().Key(k).FieldValue().FieldValue("1", string(b)).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}}
}
