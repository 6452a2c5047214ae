package serverclock_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/serverclock"
	"github.com/tidemill/tidemill/internal/testenv"
)

// near fails unless the clock is that of this machine, which the servers of tests run on.
func near(t *testing.T, c *serverclock.Clock, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Until(c.Now()).Abs(); off > 30*time.Second {
		t.Errorf("off by %v", off)
	}
}

func TestTheClockOfPostgreSQL(t *testing.T) {
	testenv.Need(t)
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	c, err := serverclock.Postgres(t.Context(), db)
	near(t, c, err)
}

func TestTheClockOfRedis(t *testing.T) {
	testenv.Need(t)
	for name, url := range map[string]func(testing.TB) string{"one server": testenv.Redis, "cluster": testenv.RedisCluster} {
		t.Run(name, func(t *testing.T) {
			client, err := redisconn.Open(t.Context(), tidemill.NewSecret(url(t)), redisconn.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			c, err := serverclock.Redis(t.Context(), client, "{locks}")
			near(t, c, err)
		})
	}
}
