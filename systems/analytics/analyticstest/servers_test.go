package analyticstest_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/redissource"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/definition/postgresdefinition"
	"github.com/tidemill/tidemill/state/lock/redislock"
	"github.com/tidemill/tidemill/state/person/postgresperson"
	"github.com/tidemill/tidemill/state/project/postgresproject"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticstest"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/clickhousewarehouse"
)

// TestServers runs the whole table against Redis, PostgreSQL and ClickHouse.
func TestServers(t *testing.T) {
	s := &servers{
		redis:    testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--databases 1000 --maxmemory-policy noeviction"),
		postgres: testenv.Start(t, testenv.PrivatePostgres, "POSTGRES_SETTINGS=-c max_connections=900 -c fsync=off -c shared_buffers=64MB"),
	}
	analyticstest.RunInRealTime(t, s.fresh)
}

// servers are shared by all cases, each with its own databases.
type servers struct {
	redis, postgres *testenv.Server
	databases       atomic.Int64
}

func (s *servers) fresh(t *testing.T) analyticstest.Harness {
	w := &world{t: t, redis: fmt.Sprintf("redis://%s/%d", s.redis.Addr, s.databases.Add(1)), postgres: testenv.FreshDatabase(t, s.postgres.URL)}
	w.clickhouse, w.database = testenv.ClickHouse(t)
	t.Cleanup(w.close)
	return w.open()
}

// world is the data of one case, and what is open on it.
type world struct {
	t                           *testing.T
	redis, postgres, clickhouse string
	database                    string
	consumers                   int
	closers                     []func()
}

func (w *world) close() {
	for _, c := range w.closers {
		c()
	}
	w.closers = nil
}

func (w *world) open() analyticstest.Harness {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	client, err := redisconn.Open(ctx, tidemill.NewSecret(w.redis), redisconn.Options{})
	ok(err)
	w.closers = append(w.closers, client.Close)
	db, err := postgresdb.Open(ctx, tidemill.NewSecret(w.postgres), postgresdb.Options{Conns: 3})
	ok(err)
	w.closers = append(w.closers, db.Close)
	conn, err := clickhousehttp.Open(ctx, w.clickhouse, clickhousehttp.Options{Database: w.database})
	ok(err)
	w.closers = append(w.closers, conn.Close)
	events, err := clickhousewarehouse.New(ctx, conn, clickhousewarehouse.Options{NoSync: true, Keep: -1})
	ok(err)
	above, err := events.HighestVersion(ctx)
	ok(err)
	persons, err := postgresperson.New(ctx, db, postgresperson.Options{Above: above})
	ok(err)
	definitions, err := postgresdefinition.New(ctx, db)
	ok(err)
	projects, err := postgresproject.New(ctx, db)
	ok(err)
	letters, err := redisdeadletter.New(ctx, client, redisdeadletter.Options{})
	ok(err)
	locks, err := redislock.New(client, redislock.Options{})
	ok(err)
	stream := func(string) string { return "events:incoming" }
	return open(t, analyticstest.Harness{
		Intake: redissource.NewIntake(client, redissource.IntakeOptions{Stream: stream}),
		Source: func() tidemill.Source {
			w.consumers++
			s, err := redissource.New(client, redissource.Options{Stream: stream(analytics.Name), Consumer: fmt.Sprint("processor-", w.consumers), Lease: 3 * time.Second})
			ok(err)
			return s
		},
		Persons: persons, Warehouse: events, Definitions: definitions, Letters: letters, Locks: locks, Projects: projects,
		Reopen: func() analyticstest.Harness { w.close(); return w.open() },
	})
}
