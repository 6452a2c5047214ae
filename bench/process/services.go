package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Services are servers of one run: scripts/services installs and starts them in a folder of
// their own, on free ports of the loopback interface.
type Services struct {
	dir   string
	names []string
	addr  map[string]string // host:port by name
	env   []string
}

// ports are the variables of scripts/services for a server's ports; the first is what it is reached at.
var ports = map[string][]string{"redis": {"REDIS_PORT"}, "redis-cluster": {"REDIS_CLUSTER_PORT"}, "postgres": {"POSTGRES_PORT"}, "clickhouse": {"CLICKHOUSE_PORT"},
	"mosquitto": {"MQTT_PORT"}, "kafka": {"KAFKA_PORT", "KAFKA_CONTROLLER_PORT", "KAFKA_PROXIED_PORT"}}

// StartServices starts servers by their names in scripts/services, with settings in its form
// ("REDIS_SETTINGS=--appendonly no"). Call it from the root of the repository. Stop must follow
// if it returns no error.
func StartServices(ctx context.Context, dir string, settings []string, names ...string) (*Services, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // the servers' own users must reach it
		return nil, err
	}
	cache := filepath.Join(os.TempDir(), "tidemill-services", "cache")
	s := &Services{dir: dir, names: names, addr: map[string]string{}, env: append(os.Environ(), "SERVICES_DIR="+dir, "SERVICES_CACHE="+cache)}
	s.env = append(s.env, settings...)
	for _, name := range names {
		for i, variable := range ports[name] {
			port, err := freePort(highest(name))
			if err != nil {
				return nil, err
			}
			if i == 0 {
				s.addr[name] = net.JoinHostPort("127.0.0.1", port)
			}
			s.env = append(s.env, variable+"="+port)
		}
	}
	if out, err := s.run(ctx, "up"); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start %s: %w\n%s", strings.Join(names, ", "), err, out)
	}
	return s, nil
}

func (s *Services) run(ctx context.Context, verb string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "bash", append([]string{filepath.Join("scripts", "services", "services.sh"), verb}, s.names...)...)
	cmd.Env = s.env
	return cmd.CombinedOutput()
}

// Stop ends the servers. Their data stays.
func (s *Services) Stop() { _, _ = s.run(context.Background(), "down") }

// Addr is a server's host:port.
func (s *Services) Addr(name string) string { return s.addr[name] }

// CPU is what a server and all its children have used so far.
func (s *Services) CPU(name string) time.Duration { return CPU(s.pids(name)...) }

// CPUs is what all servers have used so far.
func (s *Services) CPUs() (all time.Duration) {
	for _, name := range s.names {
		all += s.CPU(name)
	}
	return all
}

// Rest waits until servers have written what they had not written yet: a measurement must not pay for its
// preparation.
func (s *Services) Rest(ctx context.Context) error {
	for before := time.Duration(-1); ; {
		now := s.CPUs()
		if before >= 0 && now-before <= 20*time.Millisecond {
			return nil
		}
		before = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond): // between two looks at other processes
		}
	}
}

// Postgres is the URL of the database on its server.
func (s *Services) Postgres() string {
	return "postgres://postgres@" + s.Addr("postgres") + "/test?sslmode=disable"
}

// Settings are those by which the product uses all servers, in the form of its environment.
func (s *Services) Settings() (all []string) {
	for _, name := range s.names {
		switch name {
		case "redis":
			all = append(all, "REDIS_URL=redis://"+s.Addr(name))
		case "postgres":
			all = append(all, "DATABASE_URL="+s.Postgres())
		case "clickhouse":
			all = append(all, "CLICKHOUSE_URL=http://"+s.Addr(name), "CLICKHOUSE_DB=bench")
		case "redis-cluster":
			all = append(all, "REDIS_URL=redis://"+s.Addr(name)+"?cluster=true")
		case "kafka":
			all = append(all, "KAFKA_BROKERS="+s.Addr(name))
		case "mosquitto":
			all = append(all, "MQTT_BROKERS=tcp://"+s.Addr(name))
		}
	}
	return all
}

// Written is how many bytes a server and all its children have had the kernel write to disks so far.
func (s *Services) Written(name string) float64 { return Written(s.pids(name)...) }

// pids of a server, of all nodes where it is a cluster, and of all its children.
func (s *Services) pids(name string) (all []int) {
	for _, of := range []string{name + ".pid", name + ".*.pid"} {
		files, _ := filepath.Glob(filepath.Join(s.dir, "run", of))
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil {
				pid, _ := strconv.Atoi(strings.Fields(string(b))[0])
				all = append(all, pid)
			}
		}
	}
	for i := 0; i < len(all); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, t := range tasks {
			b, _ := os.ReadFile(t)
			for _, f := range strings.Fields(string(b)) {
				if pid, err := strconv.Atoi(f); err == nil {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}

// most is below the system's range for outgoing connections.
const most = 26_000

// highest is the highest port that a server may have. Nodes of a Redis Cluster talk at ports 10,000
// above theirs.
func highest(name string) int {
	if name == "redis-cluster" {
		return most - 10_000
	}
	return most
}

// FreePort finds a port below the system's range for outgoing connections.
func FreePort() (string, error) { return freePort(most) }

func freePort(most int) (string, error) {
	for range 100 {
		port := strconv.Itoa(11_000 + rand.IntN(most-11_000))
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("no port is free")
}
