package rediscircuit_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/circuit/rediscircuit"
)

var _ analytics.Circuit = (*rediscircuit.Circuit)(nil)

func remove(t *testing.T, client rueidis.Client, keys ...string) {
	t.Cleanup(func() {
		for key, err := range rueidis.MDel(client, context.WithoutCancel(t.Context()), keys) {
			if err != nil {
				t.Errorf("clean up %s: %v", key, err)
			}
		}
	})
}

func TestTheSharedCircuit(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		name := testenv.Name("dlq:replay:")
		remove(t, client, name+":failures", name+":circuit")
		two := [2]*rediscircuit.Circuit{}
		for i := range two {
			var err error
			if two[i], err = rediscircuit.New(client, rediscircuit.Options{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		get := func(key string) string {
			v, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
			if err != nil && !rueidis.IsRedisNil(err) {
				t.Fatal(err)
			}
			return v
		}
		open := func(want bool) {
			t.Helper()
			for i, c := range two {
				if got, err := c.IsOpen(t.Context()); err != nil || got != want {
					t.Fatalf("instance %d: open %v, %v; want %v", i, got, err, want)
				}
			}
		}
		for i := range 4 {
			if err := two[i%2].Failed(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		open(false)
		ttl, err := client.Do(t.Context(), client.B().Pttl().Key(name+":failures").Build()).AsInt64()
		if got := get(name + ":failures"); got != "4" || err != nil || ttl > 600_000 || ttl < 590_000 {
			t.Errorf("%q failures for %d ms, %v; want 4 for ten minutes", got, ttl, err)
		}
		if err := two[0].Failed(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		open(true)
		ttl, err = client.Do(t.Context(), client.B().Pttl().Key(name+":circuit").Build()).AsInt64()
		if v, f := get(name+":circuit"), get(name+":failures"); v != "1" || f != "" || err != nil || ttl > 300_000 || ttl < 290_000 {
			t.Errorf("circuit %q for %d ms, failures %q, %v; want 1 for five minutes, and no failures", v, ttl, f, err)
		}
		if err := two[1].Trip(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if ttl, err := client.Do(t.Context(), client.B().Pttl().Key(name+":circuit").Build()).AsInt64(); err != nil || ttl > 300_000 {
			t.Errorf("opened again for %d ms, %v; want it as it was", ttl, err)
		}
		if err := two[1].Failed(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if err := two[1].Succeeded(t.Context()); err != nil {
			t.Fatal(err)
		}
		open(false)
		if got := get(name + ":failures"); got != "" {
			t.Errorf("%q failures after a success", got)
		}
	})
}
