//go:build unix

package bridgetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/logbook"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
)

// env are settings by their variables.
type env map[string]string

// rig is a bridge under test, between a Redis and a broker.
type rig struct {
	testing.TB
	given  *given
	redis  rueidis.Client
	env    env
	stream string
	group  string
	broker *broker
	in     *connect.Instance
	log    *logs
	ended  chan error
	cancel context.CancelFunc
	stop   func() error
}

// plain are settings that suit a test: nothing is on a port, and a stop does not wait.
func plain(t testing.TB, addr string, broker string) env {
	name := testenv.Name("bridge-")
	return env{"REDIS_ADDRESSES": addr, "REDIS_STREAM": name, "REDIS_CONSUMER_GROUP": name + "-group", "MQTT_BROKERS": broker, "MQTT_CLIENT_ID": name,
		"MQTT_SUBSCRIBE_TOPIC": "none", "MQTT_PUBLISH_TOPIC": name, "PIPELINE_DLQ_TOPIC": name + "/dlq", "MQTT_QOS": "1", "RESOURCE_MAX_WORKERS": "2",
		"HEALTH_ENABLED": "false", "METRICS_ENABLED": "false", "APP_SHUTDOWN_TIMEOUT": "2s", "APP_PENDING_OPS_GRACE": "0s", "MQTT_MAX_RECONNECT_DELAY": "200ms"}
}

// address of a Redis without its scheme.
func address(t testing.TB, raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// prepare makes a rig whose bridge is not started yet, on the scenarios' Redis.
func (g *given) prepare(t testing.TB, settings env) *rig {
	t.Helper()
	return g.prepareOn(t, g.redis, settings)
}

// prepareOn is prepare on another Redis. A setting that is empty is not set at all.
func (g *given) prepareOn(t testing.TB, redisURL string, settings env) *rig {
	t.Helper()
	r := &rig{TB: t, given: g, log: &logs{}, broker: newBroker(t, nil)}
	r.redis = redistest.Connect(t, redisURL)
	r.env = plain(t, address(t, redisURL), r.broker.URL)
	maps.Copy(r.env, settings)
	g.note(settings)
	r.stream, r.group = r.env["REDIS_STREAM"], r.env["REDIS_CONSUMER_GROUP"]
	return r
}

// start is prepare and run.
func (g *given) start(t testing.TB, settings env) *rig {
	t.Helper()
	r := g.prepare(t, settings)
	r.run()
	return r
}

// set changes a setting of one that does not run yet.
func (r *rig) set(name, value string) {
	r.env[name] = value
	r.given.note(env{name: value})
}

// open opens the bridge without running it.
func (r *rig) open() error {
	r.Helper()
	c, err := systems.All().Settings().Load(config.Layers{Getenv: func(k string) string { return r.env[k] }, Flags: map[string]string{"data": r.TB.TempDir()}})
	if err != nil {
		return err
	}
	r.in, err = connect.Open(r.Context(), systems.All(), c, connect.Options{Systems: []string{"bridge"}, Token: token, Log: logbook.Watch(r.TB, slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})))})
	return err
}

// run opens the bridge and runs it until the test ends, or stop.
func (r *rig) run() {
	r.Helper()
	if err := r.open(); err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	ready := make(chan struct{})
	r.ended, r.cancel = make(chan error, 1), cancel
	in, ended := r.in, r.ended
	go func() { ended <- in.Run(ctx, nil, sync.OnceFunc(func() { close(ready) })) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		if e := in.Close(); err == nil {
			err = e
		}
		return err
	})
	stop := r.stop
	r.TB.Cleanup(func() {
		if err := stop(); err != nil {
			r.Logf("stop: %v", err)
		}
		if r.Failed() {
			r.Logf("what the bridge said:\n%s", r.log)
		}
	})
	if r.broker.look(new(int)) == 0 && !r.waits() {
		select {
		case <-ready:
		case <-time.After(limit):
			r.Fatalf("the bridge is not ready:\n%s", r.log)
		}
	}
}

// waits says whether the bridge has nobody to subscribe with, and so is not ready.
func (r *rig) waits() bool {
	r.broker.mu.Lock()
	defer r.broker.mu.Unlock()
	return r.broker.deaf || r.broker.slams
}

// do sends a command to Redis.
func (r *rig) do(args ...string) rueidis.RedisResult {
	r.Helper()
	res := r.redis.Do(r.Context(), r.redis.B().Arbitrary(args[0]).Args(args[1:]...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		r.Fatalf("%q: %v", args, err)
	}
	return res
}

// add writes n entries; their payloads say which they are.
func (r *rig) add(n int) (ids []string) {
	r.Helper()
	for i := range n {
		ids = append(ids, r.entry("payload", fmt.Sprintf(`{"n":%d}`, i)))
	}
	return ids
}

// entry writes one.
func (r *rig) entry(fields ...string) string {
	r.Helper()
	id, err := r.do(append([]string{"XADD", r.stream, "*"}, fields...)...).ToString()
	if err != nil {
		r.Fatal(err)
	}
	return id
}

// abandon writes n entries that another consumer reads at once, and then goes away: so
// long ago. It is one step, so that nobody else reads them.
func (r *rig) abandon(n int, idle time.Duration) {
	r.Helper()
	r.taken(n, "gone", "redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', "+strconv.FormatInt(idle.Milliseconds(), 10)+", 'JUSTID')")
}

// orphan leaves n entries in the stream that are neither new nor anybody's.
func (r *rig) orphan(n int) {
	r.Helper()
	r.taken(n, "other", "redis.call('XACK', KEYS[1], ARGV[1], id)")
}

func (r *rig) taken(n int, consumer, then string) {
	r.Helper()
	r.makeGroup()
	r.do("EVAL", `for n = 1, tonumber(ARGV[3]) do
  local id = redis.call('XADD', KEYS[1], '*', 'payload', '{"n":' .. n .. '}')
  redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', '10000', 'STREAMS', KEYS[1], '>')
  `+then+`
end`, "1", r.stream, r.group, consumer, strconv.Itoa(n))
}

func (r *rig) makeGroup() {
	r.redis.Do(r.Context(), r.redis.B().XgroupCreate().Key(r.stream).Group(r.group).Id("0-0").Mkstream().Build()) // it may be there
}

// length of the stream.
func (r *rig) length() int {
	r.Helper()
	n, err := r.do("XLEN", r.stream).AsInt64()
	if err != nil {
		r.Fatal(err)
	}
	return int(n)
}

// token is what the API asks for.
var token = tidemill.NewSecret("the-token-0123456789")

// get asks the common listener.
func (r *rig) get(path string) *httptest.ResponseRecorder { return r.ask(http.MethodGet, path) }

func (r *rig) ask(method, path string) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, "http://localhost"+path, nil)
	q.Header.Set("Authorization", "Bearer "+token.Reveal())
	w := httptest.NewRecorder()
	r.in.ServeHTTP(w, q)
	return w
}

// steer pauses or resumes it.
func (r *rig) steer(word string) {
	r.Helper()
	if w := r.ask(http.MethodPost, "/api/v1/pipelines/bridge/"+word); w.Code != http.StatusOK {
		r.Fatalf("%s: %d %s", word, w.Code, w.Body)
	}
}

// metric is the sum of one, whatever its labels; -1: there is none.
func (r *rig) metric(name string) float64 {
	return metricIn(r.get("/metrics").Body.String(), "syslog_consumer_"+name)
}

func metricIn(page, name string) float64 {
	sum, found := 0.0, false
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if err == nil {
			sum, found = sum+v, true
		}
	}
	if !found {
		return -1
	}
	return sum
}

// breaker is the state of the breaker.
func (r *rig) breaker() string {
	var s struct {
		Systems []struct {
			Pipelines []struct{ Breaker string }
		}
	}
	if err := json.Unmarshal(r.get("/api/v1/status").Body.Bytes(), &s); err != nil || len(s.Systems) == 0 || len(s.Systems[0].Pipelines) == 0 {
		return ""
	}
	return s.Systems[0].Pipelines[0].Breaker
}

// limit is how long anything that is to happen may take on a machine that is busy.
const limit = 30 * time.Second

// eventually waits until something is so.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(5 * time.Millisecond) { // servers tell nobody
		if time.Now().After(end) {
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// never sees that something does not come to be so for a time.
func never(t testing.TB, d time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if is() {
			t.Fatalf("it comes to this, and must not: %s", what)
		}
	}
}

// logs keep what was logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *logs) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// lines are those with all these words.
func (l *logs) lines(words ...string) (found []string) {
next:
	for line := range strings.Lines(l.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// monitor writes down the commands that a Redis gets that have a word in them.
func monitor(t testing.TB, addr, word string) *logs {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	seen := &logs{}
	var reading sync.WaitGroup
	began := make(chan struct{})
	reading.Go(func() {
		begin := sync.OnceFunc(func() { close(began) })
		defer begin()
		var rest []byte
		buf := make([]byte, 64<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			begin()
			rest = append(rest, buf[:n]...)
			for {
				line, more, ok := bytes.Cut(rest, []byte("\n"))
				if !ok {
					break
				}
				if bytes.Contains(line, []byte(word)) {
					_, _ = seen.Write(append(bytes.Clone(line), '\n'))
				}
				rest = more
			}
		}
	})
	<-began
	t.Cleanup(func() { _ = conn.Close(); reading.Wait() })
	return seen
}
