// Package testenv gives tests real servers. They are installed and started by
// scripts/services, once for all packages of a run, on loopback ports of their own:
//
//	url := testenv.Redis(t)               // shared: name your keys so that they are yours alone
//	s := testenv.Start(t, testenv.PrivateRedis) // of this test: to kill, to stop, to restart
//
// Servers are used only if TIDEMILL_TEST_SERVERS is 1 (make servers sets it); then a server
// that cannot be started is a failure, never a skip.
package testenv

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable switches tests on real servers on, when it is 1.
const Variable = "TIDEMILL_TEST_SERVERS"

// Enabled reports whether this run uses real servers. Where it does not, the test has the attribute
// of that in go test -json: it has more to do in a run that does (command stage, -after).
func Enabled(t testing.TB) bool {
	t.Helper()
	on := os.Getenv(Variable) == "1"
	if !on {
		t.Attr("servers", "none")
	}
	return on
}

// Need skips a test if real servers are not used.
func Need(t testing.TB) {
	t.Helper()
	if !Enabled(t) {
		t.Skipf("real servers are used where %s=1 (make servers)", Variable)
	}
}

// Dir has the data and logs of the servers that all packages share.
func Dir() string { return filepath.Join(os.TempDir(), "tidemill-services") }

// shared are the settings of the shared servers. Each of these ports is tried first, and a free
// one is used if it is taken: scripts/services keeps the choice in Dir. None is a server's
// default port, so that no test ever meets another's server.
var shared = []string{
	"SERVICES_PORTS=free",
	"REDIS_PORT=26379", "REDIS_CLUSTER_PORT=17100", "POSTGRES_PORT=25432", "PGBOUNCER_PORT=26432", "CLICKHOUSE_PORT=28123", "MQTT_PORT=21883",
	"KAFKA_PORT=29092", "KAFKA_PROXIED_PORT=29094", "KAFKA_CONTROLLER_PORT=29093", "KAFKA_PROXIED_ADVERTISED=127.0.0.1:29095",
	"PROMETHEUS_PORT=29090", "OPENSEARCH_PORT=29200", "OPENSEARCH_TRANSPORT_PORT=29300",
	"ELASTICSEARCH_PORT=29201", "ELASTICSEARCH_TRANSPORT_PORT=29301",
	// No test kills this Redis: it leaves the disk, and its pauses, to the operating system.
	"REDIS_SETTINGS=--maxmemory-policy noeviction --databases 64 --appendfsync no",
	"POSTGRES_SETTINGS=-c max_connections=300",
}

var (
	mu      sync.Mutex // guards started
	started = map[string]map[string]string{}

	installed = map[string]bool{} // under mu
)

// Shared starts a server of scripts/services if it does not run, and returns its env. It keeps
// running for the next package; make servers-down ends it.
func Shared(t testing.TB, name string) map[string]string {
	t.Helper()
	Need(t)
	mu.Lock()
	defer mu.Unlock()
	if env, ok := started[name]; ok {
		return env
	}
	settings := append([]string{"SERVICES_DIR=" + Dir()}, shared...)
	if err := os.MkdirAll(Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := services(t, settings, "up", name); err != nil {
		t.Fatalf("start %s: %v\n%s", name, err, out)
	}
	env := environment(t, settings, name)
	started[name] = env
	return env
}

// Install installs a server and its tools if they are missing, and starts nothing.
func Install(t testing.TB, name string) {
	t.Helper()
	Need(t)
	mu.Lock()
	defer mu.Unlock()
	if err := os.MkdirAll(Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if installed[name] {
		return
	}
	if out, err := services(t, []string{"SERVICES_DIR=" + Dir()}, "install", name); err != nil {
		t.Fatalf("install %s: %v\n%s", name, err, out)
	}
	installed[name] = true
}

// Tool installs a program that tests run, helm or compose-spec, and returns its path.
func Tool(t testing.TB, name string) string {
	t.Helper()
	Install(t, name)
	env := environment(t, []string{"SERVICES_DIR=" + Dir()}, name)
	return env[strings.ToUpper(strings.ReplaceAll(name, "-", "_"))]
}

// services runs scripts/services/services.sh.
func services(t testing.TB, settings []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", append([]string{script(t)}, args...)...)
	cmd.Env = append(os.Environ(), settings...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// script is the path of services.sh, found from the folder of the package under test: builds
// with -trimpath do not know where their source was.
func script(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "scripts", "services", "services.sh")
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the tests run outside the module: no go.mod above the working directory")
		}
	}
}

// environment reads the lines `export NAME='value'`.
func environment(t testing.TB, settings []string, name string) map[string]string {
	t.Helper()
	out, err := services(t, settings, "env", name)
	if err != nil {
		t.Fatalf("env of %s: %v\n%s", name, err, out)
	}
	env := map[string]string{}
	for line := range strings.Lines(out) {
		if k, v, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok {
			env[k] = strings.Trim(v, "'")
		}
	}
	return env
}

// Name is a name that no other test has: for keys, topics, databases.
func Name(prefix string) string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

// Redis is the URL of a Redis that all tests share.
func Redis(t testing.TB) string { t.Helper(); return Shared(t, "redis")["REDIS_URL"] }

// RedisCluster is the URL of a cluster of three masters that all tests share, in the form
// that redisconn reads: several hosts with commas between.
func RedisCluster(t testing.TB) string {
	t.Helper()
	return "redis://" + Shared(t, "redis-cluster")["REDIS_CLUSTER_ADDRS"] + "?cluster=true"
}

// Kafka is a broker that all tests share.
func Kafka(t testing.TB) []string {
	t.Helper()
	return strings.Split(Shared(t, "kafka")["KAFKA_BROKERS"], ",")
}

// MQTT is the address of a Mosquitto that all tests share, as tcp://host:port.
func MQTT(t testing.TB) string { t.Helper(); return Shared(t, "mosquitto")["MQTT_URL"] }

// OpenSearch is the URL of an OpenSearch that all tests share: name your indices so that
// they are yours alone, and delete them.
func OpenSearch(t testing.TB) string {
	t.Helper()
	return Shared(t, "opensearch")["OPENSEARCH_URL"]
}

// Elasticsearch is the URL of an Elasticsearch that all tests share.
func Elasticsearch(t testing.TB) string {
	t.Helper()
	return Shared(t, "elasticsearch")["ELASTICSEARCH_URL"]
}

// Postgres is the URL of a fresh database, dropped with the test.
func Postgres(t testing.TB) string {
	t.Helper()
	return FreshDatabase(t, Shared(t, "postgres")["POSTGRES_URL"])
}

// PgBouncer is the URL of a fresh database behind a PgBouncer that gives each transaction another
// session, and the same database without it. It is dropped with the test.
func PgBouncer(t testing.TB) (pooled, direct string) {
	t.Helper()
	direct = Postgres(t)
	at, err1 := url.Parse(Shared(t, "pgbouncer")["PGBOUNCER_URL"])
	u, err2 := url.Parse(direct)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	u.Host = at.Host
	return u.String(), direct
}

// FreshDatabase makes a database of its own on the PostgreSQL at a URL, dropped with the
// test.
func FreshDatabase(t testing.TB, raw string) string {
	t.Helper()
	name := Name("t")
	run := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, raw)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = c.Exec(ctx, sql)
		return err
	}
	if err := run("CREATE DATABASE " + name); err != nil {
		t.Fatalf("make a database: %v", err)
	}
	t.Cleanup(func() {
		if err := run("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			t.Logf("drop database %s: %v", name, err)
		}
	})
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// ClickHouse is the URL of the real engine behind the HTTP interface, and the name of a
// database that no other test has and that does not exist yet.
func ClickHouse(t testing.TB) (rawURL, database string) {
	t.Helper()
	rawURL, database = Shared(t, "clickhouse")["CLICKHOUSE_URL"], Name("t")
	t.Cleanup(func() {
		if err := query(rawURL, fmt.Sprintf("DROP DATABASE IF EXISTS %s", database)); err != nil {
			t.Logf("drop database %s: %v", database, err)
		}
	})
	return rawURL, database
}
