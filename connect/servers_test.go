package connect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
)

// onServers are settings with all three URLs, on servers and databases of this test's own.
func onServers(t *testing.T, more ...string) *config.Loaded {
	t.Helper()
	redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--maxmemory-policy noeviction")
	clickhouse, database := testenv.ClickHouse(t)
	c := settings(t, append([]string{"redis.url", redis.URL, "postgres.url", testenv.Postgres(t), "clickhouse.url", clickhouse, "clickhouse.database", database}, more...)...)
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("key-of-more-than-sixteen")}}
	return c
}

func TestThreeURLsMoveEverything(t *testing.T) {
	c := onServers(t, "strict", "true", "analytics.overflow", "shop")
	in := open(t, c, Options{})
	stop := running(t, in, nil)
	post(t, in, `{"events":[{"event":"bought","distinct_id":"ann","user_properties":{"plan":"pro"}},{"event":"$identify","distinct_id":"ann","anonymous_id":"device"}]}`)
	var a struct {
		Balanced bool
		Systems  []struct {
			Delivered int
			Stored    int
			InFlight  int `json:"in_flight"`
		}
	}
	for end := time.Now().Add(20 * time.Second); len(a.Systems) == 0 || a.Systems[0].Delivered < 2; {
		if time.Now().After(end) {
			t.Fatalf("not delivered: %+v", a)
		}
		if err := json.Unmarshal(get(in, "/api/v1/audit").Body.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
	}
	if !a.Balanced || a.Systems[0].Stored != 2 {
		t.Errorf("audit: %+v", a)
	}
	if body := get(in, "/api/v1/doctor").Body.String(); !strings.Contains(body, "redis: appendonly") || !strings.Contains(body, "postgres: fsync") || !strings.Contains(body, "clickhouse: version") {
		t.Errorf("the doctor did not look at every server: %s", body)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(DatabasePath(c.Data)); err == nil {
		t.Error("the embedded database was opened although nothing is in it")
	}
}

func post(t *testing.T, in *Instance, body string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/batch", strings.NewReader(body))
	r.Header.Set("x-api-key", "key-of-more-than-sixteen")
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	if w.Code != http.StatusAccepted {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
}

func TestStrictRefusesWhatCouldLoseEvents(t *testing.T) {
	redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendonly no --maxmemory-policy allkeys-lru")
	_, err := Open(t.Context(), systems.All(), settings(t, "redis.url", redis.URL, "strict", "true"), Options{})
	if err == nil || !strings.Contains(err.Error(), "appendonly") || !strings.Contains(err.Error(), "maxmemory-policy") {
		t.Errorf("strict took a Redis that forgets: %v", err)
	}
	in := open(t, settings(t, "redis.url", redis.URL), Options{})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func TestServersThatAreNotThereAreNamed(t *testing.T) {
	for key, url := range map[string]string{"redis.url": "redis://user:canary@127.0.0.1:1/0", "postgres.url": "postgres://user:canary@127.0.0.1:1/x",
		"clickhouse.url": "http://user:canary@127.0.0.1:1", "kafka.brokers": "127.0.0.1:1"} {
		_, err := Open(t.Context(), systems.All(), settings(t, key, url), Options{})
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v; want an error with the address and without the password", key, err)
		}
	}
}

// TestSystemsShareTheirConnections counts what one process has open at its servers: each system
// had a client of its own at Redis, and a pool of its own at PostgreSQL.
func TestSystemsShareTheirConnections(t *testing.T) {
	count := func(systems ...string) (redis, postgres int) {
		server, address := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--maxmemory-policy noeviction"), testenv.Postgres(t)
		c := settings(t, "redis.url", server.URL, "postgres.url", address, "postgres.connections", "2")
		in := open(t, c, Options{Systems: systems})
		defer in.Close()
		// Not running: nobody waits at the Redis on a connection of its own.
		for range 20 {
			for _, path := range []string{"/api/v1/status", "/api/v1/audit", "/api/v1/doctor", "/metrics"} {
				if w := get(in, path); w.Code != http.StatusOK {
					t.Fatalf("%s: %d %s", path, w.Code, w.Body)
				}
			}
		}
		client, err := redisconn.Open(t.Context(), tidemill.NewSecret(server.URL), redisconn.Options{Name: "counting"})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		list, err := client.Do(t.Context(), client.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(address), postgresdb.Options{Name: "counting"})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&postgres) },
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tidemill'"); err != nil {
			t.Fatal(err)
		}
		return strings.Count(list, " name=tidemill "), postgres
	}
	one, _ := count("delivery")
	redis, postgres := count("analytics", "delivery", "crm", "windows")
	t.Logf("delivery alone has %d connections to Redis; four systems have %d, and %d to PostgreSQL", one, redis, postgres)
	if redis > 4 || redis == 0 { // a client has up to four for commands that do not wait
		t.Errorf("four systems have %d connections to their Redis, one has %d", redis, one)
	}
	if postgres > 2 || postgres == 0 {
		t.Errorf("four systems have %d connections to their PostgreSQL, and postgres.connections is 2", postgres)
	}
}
