package redisproject_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/projecttest"
	"github.com/tidemill/tidemill/state/project/redisproject"
	"github.com/tidemill/tidemill/state/project/tableproject"
)

func wrap(t *testing.T, client rueidis.Client, of project.Store) *redisproject.Projects {
	t.Helper()
	p, err := redisproject.New(client, of, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestKeysAreCachedByTheirHash(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		store := tableproject.Memory()
		p, other := wrap(t, client, store), wrap(t, client, tableproject.Memory())
		h := project.HashOf(tidemill.NewSecret(rand.Text()))
		of := project.Project{ID: uuid.New(), Name: "shop"}
		if _, err := p.ByKey(t.Context(), h); !errors.Is(err, project.ErrUnknown) {
			t.Fatalf("before it is made: %v", err)
		}
		if err := store.Ensure(t.Context(), of, h); err != nil {
			t.Fatal(err)
		}
		key := "project_token:" + hex.EncodeToString(h[:])
		for _, from := range []project.Store{p, other} { // the last has it from the cache alone
			got, err := from.ByKey(t.Context(), h)
			for tries := 0; got != of && tries < 10; tries++ { // a cache that is slow is passed over
				_, _ = p.ByKey(t.Context(), h)
				got, err = from.ByKey(t.Context(), h)
			}
			if err != nil || got != of {
				t.Errorf("ByKey: %+v, %v; want %+v", got, err, of)
			}
		}
		value, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
		ttl, terr := client.Do(t.Context(), client.B().Ttl().Key(key).Build()).AsInt64()
		if want := `{"project_id":"` + of.ID.String() + `","name":"shop"}`; err != nil || terr != nil || value != want || ttl < 290 || ttl > 300 {
			t.Errorf("%s is %s for %d s, %v, %v; want %s for 300", key, value, ttl, err, terr, want)
		}
		of.Name = "market"
		if err := p.Ensure(t.Context(), of, h); err != nil {
			t.Fatal(err)
		}
		if got, err := other.ByKey(t.Context(), h); err != nil || got != of {
			t.Errorf("after Ensure: %+v, %v; want %+v", got, err, of)
		}
		if err := client.Do(t.Context(), client.B().Set().Key(key).Value("junk").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if got, err := p.ByKey(t.Context(), h); err != nil || got != of {
			t.Errorf("after junk: %+v, %v; want %+v", got, err, of)
		}
	})
}

// leaving is a store whose caller goes away when a key is revoked in it.
type leaving struct {
	project.Store
	leave func()
}

func (l leaving) Revoke(ctx context.Context, id uuid.UUID, key project.Hash) error {
	defer l.leave()
	return l.Store.Revoke(ctx, id, key)
}

func TestARevokedKeyIsTakenOutThoughItsCallerGoesAway(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		ctx, leave := context.WithCancel(t.Context())
		p := wrap(t, client, leaving{tableproject.Memory(), leave})
		h, of := project.HashOf(tidemill.NewSecret(rand.Text())), project.Project{ID: uuid.New(), Name: "shop"}
		if err := p.Ensure(t.Context(), of, h); err != nil {
			t.Fatal(err)
		}
		if err := p.Revoke(ctx, of.ID, h); err != nil {
			t.Errorf("Revoke: %v", err)
		}
		if got, err := p.ByKey(t.Context(), h); !errors.Is(err, project.ErrUnknown) {
			t.Errorf("a revoked key is of %+v, %v", got, err)
		}
	})
}

func TestACacheThatIsAwayIsPassedOver(t *testing.T) {
	link, store := testenv.NewLink(t, testenv.Start(t, testenv.PrivateRedis).Addr), tableproject.Memory()
	p := wrap(t, redistest.Connect(t, "redis://"+link.Addr), store)
	h, of := project.HashOf(tidemill.NewSecret("key")), project.Project{ID: uuid.New(), Name: "shop"}
	for _, cut := range []func(){link.Refuse, link.BlackHole} {
		cut()
		if err := p.Ensure(t.Context(), of, h); err != nil {
			t.Error(err)
		}
		if got, err := p.ByKey(t.Context(), h); err != nil || got != of {
			t.Errorf("ByKey: %+v, %v", got, err)
		}
		link.Heal()
	}
}

func TestConformance(t *testing.T) {
	client := redistest.Connect(t, testenv.Start(t, testenv.PrivateRedis).URL)
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		return projecttest.Harness{Projects: wrap(t, client, tableproject.Memory())}
	})
}
