//go:build unix

package redisconn

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

// sentinel watches a master for one test.
func sentinel(t *testing.T, master string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	host, mport, _ := net.SplitHostPort(master)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n", port, host, mport)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", conf, "--sentinel")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return addr
}

// eventually calls do until it succeeds.
func eventually(t *testing.T, what string, do func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // other processes, which do not notify
		if err = do(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func TestSentinelsSayWhoIsMaster(t *testing.T) {
	first, second := testenv.Start(t, testenv.PrivateRedis), testenv.Start(t, testenv.PrivateRedis)
	host, port, _ := net.SplitHostPort(first.Addr)
	replica := open(t, "redis://"+second.Addr)
	if err := replica.Do(t.Context(), replica.B().Replicaof().Host(host).Port(atoi(t, port)).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica is in step", func() error {
		s, err := replica.Do(t.Context(), replica.B().Info().Section("replication").Build()).ToString()
		if err == nil && !strings.Contains(s, "master_link_status:up") {
			err = fmt.Errorf("%s", s)
		}
		return err
	})
	watch := sentinel(t, first.Addr)
	url := tidemill.NewSecret("redis+sentinel://" + watch + "/main/0")
	var client rueidis.Client
	eventually(t, "the sentinel answers", func() (err error) {
		client, err = Open(t.Context(), url, Options{})
		return err
	})
	defer client.Close()
	set := func(value string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return client.Do(ctx, client.B().Set().Key("k").Value(value).Build()).Error()
	}
	if err := set("1"); err != nil {
		t.Fatal(err)
	}
	for _, f := range Inspect(t.Context(), client) {
		if f.Check == "redis: role" && !strings.Contains(f.Detail, "master") {
			t.Errorf("it is connected to %s", f.Detail)
		}
	}
	eventually(t, "the sentinel knows the replica", func() error {
		c := open(t, "redis://"+watch)
		n, err := c.Do(t.Context(), c.B().Arbitrary("SENTINEL", "REPLICAS", "main").Build()).ToArray()
		if err == nil && len(n) == 0 {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	first.Kill()
	eventually(t, "writes go to the new master", func() error { return set("2") })
	if got, err := replica.Do(t.Context(), replica.B().Get().Key("k").Build()).ToString(); err != nil || got != "2" {
		t.Errorf("the new master has %q, %v", got, err)
	}
}

func atoi(t *testing.T, s string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
