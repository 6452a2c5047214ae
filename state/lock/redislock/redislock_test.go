package redislock_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/locktest"
	"github.com/tidemill/tidemill/state/lock/redislock"
)

func remove(t *testing.T, client rueidis.Client, keys ...string) {
	t.Cleanup(func() {
		for key, err := range rueidis.MDel(client, context.WithoutCancel(t.Context()), keys) {
			if err != nil {
				t.Errorf("clean up %s: %v", key, err)
			}
		}
	})
}

func TestConformance(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		locktest.Run(t, func(t *testing.T, _ func() time.Time) locktest.Harness {
			prefix := testenv.Name("lock:")
			keys := []string{prefix + "a", prefix + "b"}
			remove(t, client, append(keys, "{"+keys[0]+"}:fence", "{"+keys[1]+"}:fence")...)
			open := func() lock.Locks {
				l, err := redislock.New(client, redislock.Options{Prefix: prefix})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			return locktest.Harness{Locks: open(), Reopen: open, Pass: func(d time.Duration) {
				for _, key := range keys {
					if err := sooner.Exec(t.Context(), client, []string{key}, []string{strconv.FormatInt(d.Milliseconds(), 10)}).Error(); err != nil {
						t.Fatal(err)
					}
				}
			}}
		})
	})
}

// sooner makes a key expire so much sooner, as if time had passed.
var sooner = rueidis.NewLuaScript(`
local left = redis.call('PTTL', KEYS[1])
if left >= 0 then return redis.call('PEXPIRE', KEYS[1], left - ARGV[1]) end
return 0`)

func TestTheKeyHasTheOwnerAlone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		name := testenv.Name("dlq:replay:") + ":lock"
		remove(t, client, name, "{"+name+"}:fence")
		l, err := redislock.New(client, redislock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, ok, err := l.Acquire(t.Context(), name, 5*time.Minute)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		value, err := client.Do(t.Context(), client.B().Get().Key(name).Build()).ToString()
		ttl, terr := client.Do(t.Context(), client.B().Pttl().Key(name).Build()).AsInt64()
		if err != nil || terr != nil || value != h.Owner || ttl > 300_000 || ttl < 290_000 {
			t.Errorf("value %q for %d ms, %v, %v; want the owner %q for 300 s", value, ttl, err, terr, h.Owner)
		}
		if err := l.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if ttl, err := client.Do(t.Context(), client.B().Pttl().Key("{"+name+"}:fence").Build()).AsInt64(); err != nil || ttl != -1 {
			t.Errorf("the fence expires in %d ms, %v; want never", ttl, err)
		}
	})
}

func TestAServerThatIsAwayIsAnErrorOfItsKind(t *testing.T) {
	link := testenv.NewLink(t, testenv.Start(t, testenv.PrivateRedis).Addr)
	client, err := redisconn.Open(t.Context(), tidemill.NewSecret("redis://"+link.Addr), redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l, err := redislock.New(client, redislock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	link.Refuse()
	if _, ok, err := l.Acquire(t.Context(), "a", time.Minute); ok || tidemill.KindOf(err) != tidemill.Transient {
		t.Errorf("Acquire: %v, %v; want an error of kind transient", ok, err)
	}
	link.Heal()
	for i := 0; ; i++ { // each connection that was open may have to find out first
		_, ok, err := l.Acquire(t.Context(), fmt.Sprint("b", i), time.Minute)
		if ok {
			break
		}
		if tidemill.KindOf(err) != tidemill.Transient || i == 100 {
			t.Fatalf("Acquire when it is back: %v, %v", ok, err)
		}
	}
}
