package testenv

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// somebody listens on a port and never answers: a server that is not ours.
func somebody(t *testing.T, port int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestServersTakeFreePortsWhereSomebodyHasTheirs(t *testing.T) {
	Need(t)
	free, err := strconv.Atoi(FreePort(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(Dir(), "ports", strconv.Itoa(free))) // the listener blocks it, not our reservation
	preferred := strconv.Itoa(free)
	foreign := somebody(t, free)

	// Two checkouts start their servers at once, each in its own folder.
	var dirs [2][]string
	for i := range dirs {
		dirs[i] = []string{"SERVICES_DIR=" + t.TempDir(), "SERVICES_CACHE=" + filepath.Join(Dir(), "cache"), "SERVICES_PORTS=free",
			"REDIS_PORT=" + preferred, "REDIS_CLUSTER_PORT=" + preferred}
		t.Cleanup(func() {
			if out, err := services(t, dirs[i], "down"); err != nil {
				t.Errorf("down: %v\n%s", err, out)
			}
		})
	}
	up := func(settings []string) map[string]string {
		if out, err := services(t, settings, "up", "redis", "redis-cluster"); err != nil {
			t.Errorf("up: %v\n%s", err, out)
			return nil
		}
		env := environment(t, settings, "redis")
		for k, v := range environment(t, settings, "redis-cluster") {
			env[k] = v
		}
		return env
	}
	var envs [2]map[string]string
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() { envs[i] = up(dirs[i]) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	first, second := envs[0], envs[1]
	seen := map[string]bool{foreign.Addr().String(): true}
	for _, env := range envs {
		for _, addr := range append(strings.Split(env["REDIS_CLUSTER_ADDRS"], ","), strings.TrimSuffix(strings.TrimPrefix(env["REDIS_URL"], "redis://"), "/0")) {
			if seen[addr] {
				t.Errorf("%s is somebody's already: %v, %v", addr, first, second)
			}
			seen[addr] = true
			if got := ping(addr); got != "+PONG" {
				t.Errorf("%s answers %q, want +PONG", addr, got)
			}
		}
	}

	// A running server keeps its port, even if its preferred one is free again.
	_ = foreign.Close()
	if again := up(dirs[0]); again["REDIS_URL"] != first["REDIS_URL"] {
		t.Errorf("it moved from %s to %s", first["REDIS_URL"], again["REDIS_URL"])
	}
	// Only named servers are ended.
	if out, err := services(t, dirs[0], "down", "redis-cluster"); err != nil {
		t.Fatalf("down: %v\n%s", err, out)
	}
	if got := ping(strings.TrimSuffix(strings.TrimPrefix(first["REDIS_URL"], "redis://"), "/0")); got != "+PONG" {
		t.Errorf("ending one server ended another: %q", got)
	}
}

func ping(addr string) string {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	b := make([]byte, 64)
	if _, err = c.Write([]byte("PING\r\n")); err != nil {
		return err.Error()
	}
	n, err := c.Read(b)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[:n]))
}
