package testenv

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Kind is a server that a test may have for itself.
type Kind struct {
	service string // its name in scripts/services
	port    string // the variable of its port
	extra   []string
	address string // the variable of its env with the address
}

// Servers that a test may have for itself.
var (
	PrivateRedis      = Kind{service: "redis", port: "REDIS_PORT", address: "REDIS_URL"}
	PrivatePostgres   = Kind{service: "postgres", port: "POSTGRES_PORT", address: "POSTGRES_URL"}
	PrivatePgBouncer  = Kind{service: "pgbouncer", port: "PGBOUNCER_PORT", address: "PGBOUNCER_URL"} // with POSTGRES_PORT of a server
	PrivateClickHouse = Kind{service: "clickhouse", port: "CLICKHOUSE_PORT", address: "CLICKHOUSE_URL"}
	PrivateKafka      = Kind{service: "kafka", port: "KAFKA_PORT", address: "KAFKA_BROKERS", extra: []string{"KAFKA_PROXIED_PORT", "KAFKA_CONTROLLER_PORT"}}
	PrivateMosquitto  = Kind{service: "mosquitto", port: "MQTT_PORT", address: "MQTT_URL"}
	PrivateOpenSearch = Kind{service: "opensearch", port: "OPENSEARCH_PORT", address: "OPENSEARCH_URL", extra: []string{"OPENSEARCH_TRANSPORT_PORT"}}
)

// Server is one test's own server.
type Server struct {
	URL  string
	Addr string // host:port

	t        testing.TB
	kind     Kind
	dir      string
	settings []string
}

// Start starts a server for this test alone, with settings as scripts/services takes them
// ("REDIS_SETTINGS=--appendonly no"), and ends it with the test.
func Start(t testing.TB, k Kind, settings ...string) *Server {
	t.Helper()
	Need(t)
	dir, err := os.MkdirTemp("", "tidemill-server-") // not t.TempDir: PostgreSQL's user must reach it
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, kind: k, dir: dir}
	port := FreePort(t)
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	s.settings = append([]string{"SERVICES_DIR=" + dir, "SERVICES_CACHE=" + filepath.Join(Dir(), "cache"), k.port + "=" + port}, settings...)
	for _, name := range k.extra {
		s.settings = append(s.settings, name+"="+FreePort(t))
	}
	t.Cleanup(func() {
		if out, err := services(t, s.settings, "down", k.service); err != nil {
			t.Errorf("end %s: %v\n%s", k.service, err, out)
		}
		_ = os.RemoveAll(dir)
	})
	s.Restart()
	s.URL = environment(t, s.settings, k.service)[k.address]
	return s
}

// Restart starts the server if it does not run, on the same port and data.
func (s *Server) Restart() {
	s.t.Helper()
	if out, err := services(s.t, s.settings, "up", s.kind.service); err != nil {
		s.t.Fatalf("start %s: %v\n%s", s.kind.service, err, out)
	}
}

// Kill ends it as kill -9 does, and waits until it is gone.
func (s *Server) Kill() {
	s.t.Helper()
	pid := s.pid()
	s.signal(kill)
	s.until("end", func() bool { return !alive(pid) && !s.listens() }) // a JVM's main thread ends before its sockets do
}

// until waits for the effect of a signal, at most 20 seconds.
func (s *Server) until(does string, done func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s does not %s", s.kind.service, does)
		}
		time.Sleep(time.Millisecond) // no event to wait for: it is not our child
	}
}

func (s *Server) listens() bool {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// Freeze stops the server as SIGSTOP does: connections stay, nothing is answered. It returns
// when none of its threads runs any more: after the signal alone, threads other than the first
// to see it go on, and answer, for a while.
func (s *Server) Freeze() {
	s.t.Helper()
	pid := s.pid()
	s.signal(freeze)
	s.until("stop", func() bool { return still(pid) })
}

// Thaw lets it go on.
func (s *Server) Thaw() { s.t.Helper(); s.signal(thaw) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	p, err := os.FindProcess(s.pid())
	if err == nil {
		err = p.Signal(sig)
	}
	if err != nil {
		s.t.Fatalf("signal %v to %s: %v", sig, s.kind.service, err)
	}
}

func (s *Server) pid() int {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "run", s.kind.service+".pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// alive reports whether a process runs: a zombie does not.
func alive(pid int) bool {
	s := state(fmt.Sprintf("/proc/%d/stat", pid))
	return s != "" && s != "Z"
}

// still reports whether all threads of a process are stopped, or it has none left.
func still(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, t := range threads {
		if s := state(t); s != "" && s != "T" && s != "Z" {
			return false
		}
	}
	return true
}

// state reads the state of a process or thread, one character, from its stat file; "" when it
// is gone.
func state(stat string) string {
	b, _ := os.ReadFile(stat)
	_, rest, _ := strings.Cut(string(b), ") ")
	letter, _, _ := strings.Cut(rest, " ")
	return letter
}

// FreePort finds a port that is this test's until it ends, whatever other tests and their
// processes do. It lies below the system's range for outgoing connections, so that it is still
// free when a server starts again on it.
func FreePort(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(Dir(), "ports")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		port := strconv.Itoa(11_000 + rand.IntN(6_000))
		release, ok := reserve(filepath.Join(dir, port))
		if !ok {
			continue
		}
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			t.Cleanup(release)
			return port
		}
		release()
	}
	t.Fatal("no port is free")
	return ""
}

// query sends one statement to a ClickHouse.
func query(rawURL, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, rawURL, strings.NewReader(statement))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s: %s", resp.Status, b)
	}
	return nil
}
