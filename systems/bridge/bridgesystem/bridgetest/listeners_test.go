//go:build unix

package bridgetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

var ofListeners = []scenario{
	{"probes", []string{"HEALTH_ENABLED", "HEALTH_PORT"}, probes},
	{"what a probe may take", []string{"HEALTH_READ_TIMEOUT", "HEALTH_WRITE_TIMEOUT"}, probeLimits},
	{"how it is looked after the servers", []string{"HEALTH_CHECK_INTERVAL", "HEALTH_REDIS_TIMEOUT", "HEALTH_MQTT_TIMEOUT"}, checks},
	{"metrics", []string{"METRICS_ENABLED", "METRICS_PORT", "METRICS_NAMESPACE", "METRICS_SUBSYSTEM", "METRICS_HISTOGRAM_BUCKETS"}, metrics},
	{"where probes and metrics listen", nil, addresses},
	{"how often the load is measured", []string{"METRICS_COLLECT_INTERVAL"}, collect},
}

// runOn runs it with a setting that is a port that nobody has.
func (r *rig) runOn(setting string) (url string) {
	r.Helper()
	for range 10 {
		n := port(r)
		r.env[setting] = strconv.Itoa(n)
		err := r.open()
		if err == nil {
			if err := r.in.Close(); err != nil {
				r.Fatal(err)
			}
			r.run()
			return fmt.Sprintf("http://127.0.0.1:%d", n)
		}
		if !strings.Contains(err.Error(), "in use") {
			r.Fatal(err)
		}
	}
	r.Fatal("no port is free")
	return ""
}

// fetch asks over the network; a status of 0 means that nobody answers.
func fetch(url string) (status int, body string) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(b))
}

// Other machines reach probes and metrics where they reach the rest, or where they are told to.
func addresses(t *testing.T, g *given) {
	for _, c := range []struct {
		listen, address string
		elsewhere       bool
	}{{"127.0.0.1:0", "", false}, {"127.0.0.1:0", "127.0.0.2", true}, {"127.0.0.2:0", "", true}, {"0.0.0.0:0", "", true}} {
		r := g.prepare(t, env{"HEALTH_ENABLED": "true", "METRICS_ENABLED": "true", "METRICS_PORT": strconv.Itoa(port(t)), "TIDEMILL_LISTEN": c.listen,
			"TIDEMILL_TOKEN": "a-token-for-a-test", "TIDEMILL_PORTS_ADDRESS": c.address})
		r.runOn("HEALTH_PORT")
		for _, at := range []string{r.env["HEALTH_PORT"] + "/live", r.env["METRICS_PORT"] + "/metrics"} {
			if status, _ := fetch("http://127.0.0.2:" + at); (status == 200) != c.elsewhere {
				t.Errorf("listen %s, address %q: 127.0.0.2:%s answers %d", c.listen, c.address, at, status)
			}
		}
	}
}

func probes(t *testing.T, g *given) {
	r := g.prepare(t, env{"HEALTH_ENABLED": "true", "HEALTH_PORT": "1", "HEALTH_CHECK_INTERVAL": "50ms"})
	url := r.runOn("HEALTH_PORT")
	for _, path := range []string{"/health", "/healthz", "/heathz"} {
		eventually(t, path+" says that it is healthy", func() bool {
			status, body := fetch(url + path)
			var a struct{ Status, Message, Timestamp string }
			return status == 200 && json.Unmarshal([]byte(body), &a) == nil && a.Status == "healthy" && a.Timestamp != "" && a.Message == ""
		})
	}
	is := func(path string, status int, body string) {
		t.Helper()
		if s, b := fetch(url + path); s != status || b != body {
			t.Errorf("%s: %d %s, want %d %s", path, s, b, status, body)
		}
	}
	is("/ready", 200, "ready")
	is("/live", 200, "alive")
	r.steer("pause")
	is("/ready", 503, "not_ready")
	is("/live", 200, "alive")
	if s, b := fetch(url + "/health"); s != 503 || !strings.Contains(b, `"unhealthy"`) || !strings.Contains(b, `"message"`) {
		t.Errorf("paused: %d %s", s, b)
	}
	r.steer("resume")
	is("/ready", 200, "ready")
	off := g.prepare(t, env{"HEALTH_ENABLED": "false", "HEALTH_PORT": "1"})
	if s, _ := fetch(off.runOn("HEALTH_PORT") + "/health"); s != 0 {
		t.Errorf("it answers with %d, though health is off", s)
	}
}

func probeLimits(t *testing.T, g *given) {
	dial := func(url string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	begin := func(settings env) string {
		settings["HEALTH_ENABLED"], settings["HEALTH_PORT"] = "true", "1"
		return g.prepare(t, settings).runOn("HEALTH_PORT")
	}
	// lasts is how long a client that never ends its request is borne with.
	lasts := func(url string, within time.Duration) bool {
		c := dial(url)
		if _, err := c.Write([]byte("GET /live HTTP/1.1\r\nHost: ")); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(within))
		_, err := io.ReadAll(c)
		n, timeout := err.(net.Error)
		return timeout && n.Timeout()
	}
	if lasts(begin(env{"HEALTH_READ_TIMEOUT": "200ms"}), limit) {
		t.Error("a request that never ends is waited for")
	}
	if !lasts(begin(env{"HEALTH_READ_TIMEOUT": "1h"}), time.Second) {
		t.Error("a request that takes its time is cut off")
	}
	// takes is whether a client is borne with that asks until nothing more goes through and only
	// then reads: reading it finds the end of the connection, or answers for as long as within.
	takes := func(url string, within time.Duration) bool {
		c := dial(url)
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		asks := bytes.Repeat([]byte("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), 1000)
		for {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := c.Write(asks); err != nil {
				break
			}
		}
		_ = c.SetReadDeadline(time.Now().Add(within))
		_, err := io.Copy(io.Discard, c)
		n, timeout := err.(net.Error)
		return timeout && n.Timeout()
	}
	if takes(begin(env{"HEALTH_WRITE_TIMEOUT": "200ms"}), limit) {
		t.Error("a client that does not read its answers is waited for")
	}
	if !takes(begin(env{"HEALTH_WRITE_TIMEOUT": "1h"}), 2*time.Second) {
		t.Error("a client that reads slowly is cut off")
	}
}

func checks(t *testing.T, g *given) {
	healthy := func(url string) func() bool {
		return func() bool { s, _ := fetch(url + "/health"); return s == 200 }
	}
	sick := func(url, word string) func() bool {
		return func() bool { s, b := fetch(url + "/health"); return s == 503 && strings.Contains(b, word) }
	}
	base := func(more ...string) env {
		e := env{"HEALTH_ENABLED": "true", "HEALTH_PORT": "1", "HEALTH_CHECK_INTERVAL": "50ms", "HEALTH_REDIS_TIMEOUT": "200ms", "HEALTH_MQTT_TIMEOUT": "200ms"}
		for i := 0; i < len(more); i += 2 {
			e[more[i]] = more[i+1]
		}
		return e
	}
	redis := func(t *testing.T, settings env) (string, *testenv.Link) {
		r := g.prepare(t, settings)
		link := testenv.NewLink(t, r.env["REDIS_ADDRESSES"])
		r.env["REDIS_ADDRESSES"] = link.Addr
		url := r.runOn("HEALTH_PORT")
		eventually(t, "it is healthy", healthy(url))
		link.BlackHole()
		return url, link
	}
	mqtt := func(t *testing.T, settings env) (string, *testenv.Link) {
		r := g.prepare(t, settings)
		link := r.proxied()
		url := r.runOn("HEALTH_PORT")
		eventually(t, "it is healthy", healthy(url))
		link.Refuse()
		return url, link
	}
	const wait = 3 * time.Second // longer than the defaults
	t.Run("Redis is silent", func(t *testing.T) {
		url, link := redis(t, base())
		eventually(t, "it is unhealthy", sick(url, "Redis"))
		link.Heal()
		eventually(t, "it is healthy again", healthy(url))
	})
	t.Run("Redis may be silent for long", func(t *testing.T) {
		url, link := redis(t, base("HEALTH_REDIS_TIMEOUT", "20s", "REDIS_READ_TIMEOUT", "20s"))
		never(t, wait, "it is unhealthy", sick(url, ""))
		link.Refuse()
		link.Heal()
	})
	t.Run("the broker is away", func(t *testing.T) {
		url, link := mqtt(t, base())
		eventually(t, "it is unhealthy", sick(url, ""))
		link.Heal()
		eventually(t, "it is healthy again", healthy(url))
	})
	t.Run("the broker may be away for long", func(t *testing.T) {
		url, link := mqtt(t, base("HEALTH_MQTT_TIMEOUT", "1h"))
		never(t, wait, "it is unhealthy", sick(url, ""))
		link.Heal()
	})
	t.Run("it is seldom looked", func(t *testing.T) {
		url, link := mqtt(t, base("HEALTH_CHECK_INTERVAL", "1h"))
		never(t, wait, "it is unhealthy", sick(url, ""))
		link.Heal()
	})
}

// named are the metrics that receivers of them know.
var named = []string{"messages_received_total", "messages_published_total", "messages_acked_total", "messages_nacked_total", "unknown_acks_total",
	"messages_dropped_total", "backpressure_drops_total", "processing_errors_total", "redis_errors_total", "mqtt_errors_total", "messages_claimed_total",
	"messages_drained_total", "messages_dead_total", "consumers_removed_total", "buffer_utilization_percent", "active_workers", "queue_depth", "memory_percent",
	"cpu_percent", "state", "processing_seconds_count", "processing_seconds_sum", "publish_latency_seconds_count", "ack_latency_seconds_count"}

func metrics(t *testing.T, g *given) {
	r := g.prepare(t, env{"METRICS_ENABLED": "true", "METRICS_PORT": "1", "METRICS_NAMESPACE": "acme", "METRICS_SUBSYSTEM": "bridge_7", "METRICS_HISTOGRAM_BUCKETS": "0.5,20", "MQTT_SUBSCRIBE_TOPIC": "acks"})
	r.broker.set(func() { r.broker.far = yes })
	url := r.runOn("METRICS_PORT")
	r.add(5)
	eventually(t, "all is acknowledged", func() bool { return r.length() == 0 && r.broker.distinct() == 5 })
	var page string
	value := func(name string) float64 { return metricIn(page, "acme_bridge_7_"+name) }
	eventually(t, "it is counted", func() bool { _, page = fetch(url + "/metrics"); return value("messages_acked_total") == 5 })
	for _, name := range named {
		if value(name) < 0 {
			t.Errorf("there is no metric %s", name)
		}
	}
	for name, want := range map[string]float64{"messages_received_total": 5, "messages_published_total": 5, "processing_seconds_count": 5, "publish_latency_seconds_count": 5,
		"ack_latency_seconds_count": 5, `messages_dropped_total{place="buffer",policy="oldest"}`: 0, `state{state="running"}`: 1, `state{state="paused"}`: 0,
		`ack_latency_seconds_bucket{le="20"}`: 5, "unknown_acks_total": 0} {
		if got := value(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if value(`ack_latency_seconds_bucket{le="0.001"}`) >= 0 || value(`ack_latency_seconds_bucket{le="0.5"}`) < 0 || strings.Contains(page, "syslog_consumer") {
		t.Error("buckets or names are not those that were given")
	}
	off := g.prepare(t, env{"METRICS_ENABLED": "false", "METRICS_PORT": "1"})
	if s, _ := fetch(off.runOn("METRICS_PORT") + "/metrics"); s != 0 {
		t.Errorf("it answers with %d, though metrics are off", s)
	}
	plain := g.prepare(t, env{"METRICS_ENABLED": "true", "METRICS_PORT": "1"})
	if _, page := fetch(plain.runOn("METRICS_PORT") + "/metrics"); metricIn(page, "syslog_consumer_messages_received_total") != 0 || metricIn(page, `syslog_consumer_ack_latency_seconds_bucket{le="0.001"}`) != 0 {
		t.Error("the default names or buckets are others")
	}
}

func collect(t *testing.T, g *given) {
	often, seldom := g.start(t, env{"METRICS_COLLECT_INTERVAL": "50ms"}), g.start(t, env{"METRICS_COLLECT_INTERVAL": "1h"})
	for _, r := range []*rig{often, seldom} {
		eventually(t, "the memory is measured", func() bool { return r.metric("memory_percent") > 0 })
	}
	eventually(t, "the load since then is measured", func() bool { return often.metric("cpu_percent") > 0 })
	first := seldom.metric("cpu_percent")
	never(t, 300*time.Millisecond, "it is measured again", func() bool { return seldom.metric("cpu_percent") != first })
}
