//go:build unix

package bridgetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

var ofRedis = []scenario{
	{"a stream of a database, read by name and password", []string{"REDIS_ADDRESSES", "REDIS_DB", "REDIS_USERNAME", "REDIS_PASSWORD",
		"REDIS_STREAM", "REDIS_CONSUMER_GROUP", "REDIS_CONSUMER_NAME"}, names},
	{"sentinels say who the master is", []string{"REDIS_MASTER_NAME"}, sentinels},
	{"TLS to Redis", []string{"REDIS_TLS_ENABLED"}, redisTLS},
	{"a Redis that is late", []string{"REDIS_MAX_RETRIES", "REDIS_RETRY_INTERVAL"}, retries},
	{"a Redis that takes connections and says nothing", []string{"REDIS_CONNECT_TIMEOUT"}, connectTimeout},
	{"answers that do not come", []string{"REDIS_READ_TIMEOUT", "REDIS_WRITE_TIMEOUT"}, answers},
	{"connections and their age", []string{"REDIS_POOL_SIZE", "REDIS_MIN_IDLE_CONNS", "REDIS_MAX_CONN_AGE", "REDIS_IDLE_TIMEOUT", "APP_NAME"}, pool},
	{"reads of a size, that wait for a time", []string{"REDIS_BATCH_SIZE", "REDIS_BLOCK_TIME"}, reads},
	{"how often it is looked what is pending", []string{"REDIS_PENDING_CHECK_INTERVAL"}, pendingCheck},
}

func names(t *testing.T, g *given) {
	s := testenv.Start(t, testenv.PrivateRedis)
	settings := env{"REDIS_ADDRESSES": s.Addr, "REDIS_DB": "3", "REDIS_USERNAME": "bridge", "REDIS_PASSWORD": "p@ss:w/rd %", "REDIS_MAX_RETRIES": "0",
		"REDIS_STREAM": "a-stream", "REDIS_CONSUMER_GROUP": "a-group", "REDIS_CONSUMER_NAME": "a-consumer"}
	r := g.prepareOn(t, "redis://"+s.Addr+"/3", settings)
	r.do("ACL", "SETUSER", "bridge", "on", ">"+settings["REDIS_PASSWORD"], "~*", "&*", "+@all")
	id := r.add(1)[0]
	r.env["REDIS_PASSWORD"] = "wrong"
	if err := r.open(); err == nil || strings.Contains(err.Error(), "wrong-") {
		t.Fatalf("a wrong password: %v", err)
	}
	r.env["REDIS_PASSWORD"] = settings["REDIS_PASSWORD"]
	r.run()
	eventually(t, "the entry is published", func() bool { return len(r.broker.messages()) == 1 })
	if got := r.broker.messages()[0].ID(); got != id {
		t.Errorf("published %s, want %s", got, id)
	}
	rows, err := r.do("XINFO", "CONSUMERS", "a-stream", "a-group").ToArray()
	if err != nil || len(rows) != 1 {
		t.Fatalf("consumers: %v %v", rows, err)
	}
	c, _ := rows[0].AsMap()
	name := c["name"]
	if s, _ := name.ToString(); s != "a-consumer" {
		t.Errorf("the consumer is %q", s)
	}
}

func sentinels(t *testing.T, g *given) {
	master := testenv.Start(t, testenv.PrivateRedis)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	host, mport, _ := net.SplitHostPort(master.Addr)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "port %s\nbind 127.0.0.1\nsentinel monitor main %s %s 1\n", port, host, mport), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", conf, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := g.prepareOn(t, master.URL, env{"REDIS_ADDRESSES": addr, "REDIS_MASTER_NAME": "main", "REDIS_MAX_RETRIES": "100", "REDIS_RETRY_INTERVAL": "100ms"})
	r.add(3)
	r.run()
	eventually(t, "what is in the master's stream is published", func() bool { return r.broker.distinct() == 3 })
}

// listen is a server that does with connections what a test says.
func listen(t *testing.T, each func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			serving.Go(func() { each(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return l.Addr().String()
}

func redisTLS(t *testing.T, g *given) {
	for _, on := range []string{"true", "false"} {
		first := make(chan byte, 100)
		addr := listen(t, func(c net.Conn) {
			b := make([]byte, 1)
			if n, _ := c.Read(b); n > 0 {
				first <- b[0]
			}
			_ = c.Close()
		})
		r := g.prepare(t, env{"REDIS_ADDRESSES": addr, "REDIS_TLS_ENABLED": on, "REDIS_MAX_RETRIES": "0"})
		if err := r.open(); err == nil {
			t.Fatal("it opened without a Redis")
		}
		const handshake = 0x16
		if got := <-first; (got == handshake) != (on == "true") {
			t.Errorf("REDIS_TLS_ENABLED=%s: the first byte is %#x", on, got)
		}
	}
}

func retries(t *testing.T, g *given) {
	var tries atomic.Int32
	nobody := listen(t, func(c net.Conn) { tries.Add(1); _ = c.Close() })
	r := g.prepare(t, env{"REDIS_ADDRESSES": nobody, "REDIS_MAX_RETRIES": "2", "REDIS_RETRY_INTERVAL": "300ms"})
	began := time.Now()
	err := r.open()
	if took := time.Since(began); err == nil || took < 600*time.Millisecond || len(r.log.lines("no connection to Redis")) != 2 {
		t.Errorf("it gave up after %v with %v; want two retries, 300ms apart\n%s", took, err, r.log)
	}
	if tries.Load() < 3 {
		t.Errorf("%d connections were tried, want 3", tries.Load())
	}

	late := g.prepare(t, env{"REDIS_MAX_RETRIES": "1000", "REDIS_RETRY_INTERVAL": "50ms"})
	late.add(1)
	link := testenv.NewLink(t, late.env["REDIS_ADDRESSES"])
	link.Refuse()
	late.env["REDIS_ADDRESSES"] = link.Addr
	heal := time.AfterFunc(500*time.Millisecond, link.Heal)
	defer heal.Stop()
	late.run()
	eventually(t, "it begins once Redis is there", func() bool { return late.broker.distinct() == 1 })
}

func connectTimeout(t *testing.T, g *given) {
	full := unanswered(t)
	took := map[string]time.Duration{}
	for _, d := range []string{"200ms", "4s"} {
		r := g.prepare(t, env{"REDIS_ADDRESSES": full, "REDIS_CONNECT_TIMEOUT": d, "REDIS_MAX_RETRIES": "0"})
		began := time.Now()
		if err := r.open(); err == nil {
			t.Fatal("it opened without a Redis")
		}
		took[d] = time.Since(began)
	}
	if took["200ms"] > 3*time.Second || took["4s"] < 3900*time.Millisecond {
		t.Errorf("by REDIS_CONNECT_TIMEOUT, it gave up after %v", took)
	}
}

// unanswered is an address where connecting takes for ever: nobody accepts there, and
// those who wait for that fill the queue.
func unanswered(t *testing.T) (addr string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr = fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
	for range 100 {
		c, err := net.DialTimeout("tcp", addr, 300*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of those who connect is never full")
	return ""
}

func answers(t *testing.T, g *given) {
	took := map[string]time.Duration{}
	for name, c := range map[string][2]string{"both short": {"200ms", "200ms"}, "reading long": {"4s", "200ms"}, "writing long": {"200ms", "4s"}} {
		r := g.prepare(t, env{"REDIS_READ_TIMEOUT": c[0], "REDIS_WRITE_TIMEOUT": c[1], "REDIS_CONSUMER_CLEANUP_ENABLED": "false", "REDIS_DRAIN_ENABLED": "false"})
		link := testenv.NewLink(t, r.env["REDIS_ADDRESSES"])
		r.env["REDIS_ADDRESSES"] = link.Addr
		r.run()
		r.add(1)
		eventually(t, "it runs", func() bool { return r.broker.distinct() == 1 })
		link.BlackHole()
		began := time.Now()
		r.get("/api/v1/audit")
		took[name] = time.Since(began)
		eventually(t, "the error is counted", func() bool { return r.metric("redis_errors_total") > 0 })
		link.Heal()
		r.add(1)
		eventually(t, "it goes on", func() bool { return r.broker.distinct() == 2 })
	}
	// That a connection is dead is seen by the signs of life on it, which are a second apart: one
	// may have been on its way already.
	if took["both short"] >= 3*time.Second || took["reading long"] < 3*time.Second || took["writing long"] < 3*time.Second {
		t.Errorf("an answer was waited for: %v", took)
	}
}

// connections are the ids of those that Redis has under a name.
func (r *rig) connections(name string) (ids []string) {
	r.Helper()
	list, err := r.do("CLIENT", "LIST").ToString()
	if err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(list) {
		if strings.Contains(line, " name="+name+" ") {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			ids = append(ids, id)
		}
	}
	return ids
}

func pool(t *testing.T, g *given) {
	begin := func(settings env) (*rig, string) {
		name := testenv.Name("app-")
		settings["APP_NAME"] = name
		r := g.start(t, settings)
		r.add(1)
		eventually(t, "it runs", func() bool { return r.broker.distinct() == 1 })
		return r, name
	}
	t.Run("age", func(t *testing.T) {
		aging, name := begin(env{"REDIS_MAX_CONN_AGE": "1s", "REDIS_BLOCK_TIME": "100ms"})
		lasting, other := begin(env{"REDIS_MAX_CONN_AGE": "0s", "REDIS_BLOCK_TIME": "100ms"})
		first, stays := aging.connections(name), lasting.connections(other)
		eventually(t, "old connections give way to new ones", func() bool {
			return !slices.ContainsFunc(aging.connections(name), func(id string) bool { return slices.Contains(first, id) })
		})
		if now := lasting.connections(other); slices.ContainsFunc(stays, func(id string) bool { return !slices.Contains(now, id) }) {
			t.Errorf("connections %v became %v, though they may have any age", stays, now)
		}
	})
	t.Run("idle", func(t *testing.T) {
		count := func(minimum string) int {
			r, name := begin(env{"REDIS_POOL_SIZE": "3", "REDIS_MIN_IDLE_CONNS": minimum, "REDIS_IDLE_TIMEOUT": "1s", "REDIS_BLOCK_TIME": "100ms"})
			before := len(r.connections(name))
			r.steer("pause")
			if minimum == "0" {
				eventually(t, "an idle connection is closed", func() bool { return len(r.connections(name)) < before })
			} else {
				never(t, 2500*time.Millisecond, "a connection is closed that is to stay", func() bool { return len(r.connections(name)) < before })
			}
			return before
		}
		const always = 4 // beside those that wait: for commands that do not
		if without, with := count("0"), count("3"); without > 3+always || with > 3+always {
			t.Errorf("%d and %d connections are open, more than the pool has", without, with)
		}
	})
}

func reads(t *testing.T, g *given) {
	r := g.prepare(t, env{"REDIS_BATCH_SIZE": "7", "REDIS_BLOCK_TIME": "230ms"})
	seen := monitor(t, r.env["REDIS_ADDRESSES"], r.stream)
	r.add(100)
	r.run()
	eventually(t, "all is published", func() bool { return r.broker.distinct() == 100 })
	eventually(t, "a read waits", func() bool { return len(seen.lines(`"BLOCK" "230"`, `"COUNT" "7"`)) > 0 })
	for _, m := range regexp.MustCompile(`(?i)"XREADGROUP".*?"COUNT" "(\d+)"(?: "BLOCK" "(\d+)")?`).FindAllStringSubmatch(seen.String(), -1) {
		count, _ := strconv.Atoi(m[1])
		wait, _ := strconv.Atoi(m[2])
		if count > 7 || wait > 230 {
			t.Errorf("it read %s", m[0])
		}
	}
}

func pendingCheck(t *testing.T, g *given) {
	begin := func(interval string) *rig {
		r := g.prepare(t, env{"REDIS_PENDING_CHECK_INTERVAL": interval, "MQTT_SUBSCRIBE_TOPIC": "acks"})
		r.add(2)
		r.run()
		eventually(t, "it was looked once", func() bool { return r.metric("messages_pending") == 2 })
		r.add(3)
		return r
	}
	often, seldom := begin("100ms"), begin("1h")
	eventually(t, "it was looked again", func() bool { return often.metric("messages_pending") == 5 })
	never(t, 500*time.Millisecond, "it was looked again too soon", func() bool { return seldom.metric("messages_pending") != 2 })
}
