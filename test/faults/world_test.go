//go:build servers

// Package faults breaks real servers and the links to them under load, kills and freezes real
// processes, and checks what arrived: every confirmed event once, under the right person, or in
// the dead letters with its bytes.
//
//	go test -tags servers ./test/faults -run TestKilled -rounds 20
//	go test -tags servers ./test/faults -run TestKilled -seed 42
package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/test/process"
	"github.com/tidemill/tidemill/test/promise"
)

var (
	roundsFlag = flag.Int("rounds", 1, "how often each test runs, each time with the next seed")
	seedFlag   = flag.Uint64("seed", 0, "seed of the first round; 0: from the clock")
)

// TestMain switches the servers on: the build tag asked for them.
func TestMain(m *testing.M) {
	flag.Parse()
	if *seedFlag == 0 {
		*seedFlag = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	if err := os.Setenv(testenv.Variable, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// claim is the idle time after which another instance takes over events.
const claim = 3 * time.Second

// world is a test's own servers, and the instances on them.
type world struct {
	*testing.T
	rnd   *rand.Rand
	began time.Time

	redis, postgres, clickhouse *testenv.Server
	client                      rueidis.Client // past every link
	database                    string         // in ClickHouse
	env                         map[string]string
	binary                      func() (string, error) // of instances; nil: the one that is tested

	people    *promise.People
	instances []*process.Instance
	loads     []*load
	hits      map[string]int
	replayed  int // events that died by the fault and were replayed
}

// eachRound runs a test in rounds, each with its own seed, which its log shows. The name of a
// round is the same in every run, so that a failed one can run again alone.
func eachRound(t *testing.T, do func(t *testing.T, rnd *rand.Rand)) {
	t.Helper()
	for r := range uint64(*roundsFlag) {
		t.Run(fmt.Sprintf("round=%d", r), func(t *testing.T) {
			seed := *seedFlag + r
			t.Logf("seed %d", seed)
			do(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// rounds runs a test in worlds of its own, and its Redis with settings.
func rounds(t *testing.T, do func(w *world), redis ...string) {
	t.Helper()
	eachRound(t, func(t *testing.T, rnd *rand.Rand) { do(newWorld(t, rnd, redis...)) })
}

func newWorld(t *testing.T, rnd *rand.Rand, redis ...string) *world {
	t.Helper()
	w := &world{T: t, rnd: rnd, began: time.Now().UTC().Truncate(time.Second), database: testenv.Name("faults_"), hits: map[string]int{}}
	var up sync.WaitGroup
	start := func(into **testenv.Server, k testenv.Kind, settings ...string) {
		up.Go(func() { *into = testenv.Start(t, k, settings...) })
	}
	start(&w.redis, testenv.PrivateRedis, redis...)
	start(&w.postgres, testenv.PrivatePostgres)
	start(&w.clickhouse, testenv.PrivateClickHouse)
	up.Wait()
	if t.Failed() {
		t.FailNow()
	}
	w.env = map[string]string{
		"REDIS_URL": "redis://" + w.redis.Addr + "/0", "DATABASE_URL": postgresURL(w.postgres.Addr, "postgres"), "CLICKHOUSE_URL": "http://" + w.clickhouse.Addr,
		"CLICKHOUSE_DB": w.database, "TIDEMILL_ANALYTICS_CLAIM": claim.String(), "TIDEMILL_LOG_LEVEL": "warn",
		"TIDEMILL_ANALYTICS_FLUSH_INTERVAL": "100ms", // many flushes: one is always running
	}
	w.dial()
	t.Logf("ready after %v", time.Since(w.began).Round(time.Millisecond))
	return w
}

func postgresURL(addr, user string) string {
	return "postgres://" + user + "@" + addr + "/test?sslmode=disable"
}

// link puts a breakable link between the product and a server.
func (w *world) link(s *testenv.Server) *testenv.Link {
	w.Helper()
	l := testenv.NewLink(w, s.Addr)
	w.through(s, l.Addr)
	return l
}

// through makes future instances reach a server by another address.
func (w *world) through(s *testenv.Server, addr string) {
	for k, v := range w.env {
		w.env[k] = strings.Replace(v, s.Addr, addr, 1)
	}
}

// instance makes an instance on the servers. A repeated name is shared.
func (w *world) instance(name string, env ...string) *process.Instance {
	w.Helper()
	return w.make([]string{"analytics", "--project", project.String() + "=" + ingestKey}, append(env, "PROCESSOR_CONSUMER_NAME="+name)...)
}

// make makes an instance, with settings in addition to those of all.
func (w *world) make(args []string, env ...string) *process.Instance {
	w.Helper()
	var all []string
	for _, k := range slices.Sorted(maps.Keys(w.env)) {
		all = append(all, k+"="+w.env[k])
	}
	in := process.New(w, args, append(all, env...))
	in.Binary = w.binary
	w.instances = append(w.instances, in)
	return in
}

// setUp writes the configuration of a system. JSON is YAML.
func (w *world) setUp(file, system string, settings any) {
	w.Helper()
	b, err := json.MarshalIndent(map[string]any{system: settings}, "", "  ")
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// dial connects to Redis, past every link.
func (w *world) dial() {
	w.Helper()
	var err error
	if w.client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{w.redis.Addr}, DisableRetry: true, DisableCache: true,
		ForceSingleClient: true, PipelineMultiplex: 1}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(w.client.Close)
}

// ready waits until every instance that runs is ready.
func (w *world) ready() {
	w.Helper()
	for _, in := range w.instances {
		if in.Runs() {
			if err := in.WaitReady(time.Minute); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// auditOf asks a running instance for a system's books; unbalanced ones are an answer too.
func auditOf[T any](w *world, system string) (a T, err error) {
	w.Helper()
	out, err := w.running().Try("audit", system, "--json")
	if len(out) > 0 && json.Unmarshal(out, &a) == nil {
		return a, nil
	}
	return a, err
}

// callAPI asks the API of a running instance; an error means no answer.
func (w *world) callAPI(method, path, body string) (int, []byte, error) {
	in := w.running()
	r, err := http.NewRequestWithContext(w.Context(), method, "http://"+in.Addr+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+in.Token())
	r.Header.Set("Accept", operation.LinesType) // of listings
	resp, err := apiClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

var apiClient = endpointClient(16)

// run makes instances, starts them one after the other, and returns them.
func (w *world) run(names ...string) []*process.Instance {
	w.Helper()
	var made []*process.Instance
	for _, n := range names {
		in := w.instance(n)
		in.Start()
		made = append(made, in)
	}
	return made
}

// kill ends a server as kill -9 does, and waits until nothing listens any more: threads of a
// process may outlive its main thread.
func (w *world) kill(s *testenv.Server) {
	w.Helper()
	s.Kill()
	w.until(10*time.Second, "nobody listens at "+s.Addr, func() bool {
		c, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// hit counts that a fault struck.
func (w *world) hit(what string) { w.hits[what]++ }

// struck fails a test whose fault did not happen often enough to show anything.
func (w *world) struck(what string, least, n int) {
	w.Helper()
	w.Logf("%s: %d, of at least %d", what, n, least)
	if n < least {
		w.Errorf("%s: %d times, at least %d are needed for this test to mean anything", what, n, least)
	}
}

// between is a time drawn from a range.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rnd.Int64N(int64(to-from)))
}

// pass lets time pass while the load goes on: the length of a fault, or the time between two.
func (w *world) pass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.Context().Done():
	}
}

// until waits for a condition.
func (w *world) until(within time.Duration, what string, met func() bool) {
	w.Helper()
	for deadline := time.Now().Add(within); !met(); time.Sleep(20 * time.Millisecond) { // it is another process's
		if time.Now().After(deadline) {
			w.Fatalf("not within %v: %s", within, what)
		}
	}
}

// do runs a Redis command past every link.
func (w *world) do(args ...string) rueidis.RedisResult {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return w.client.Do(ctx, w.client.B().Arbitrary(args...).Build())
}

func (w *world) int(args ...string) int64 {
	w.Helper()
	n, err := w.do(args...).AsInt64()
	if err != nil {
		w.Fatalf("%v: %v", args, err)
	}
	return n
}

// sql opens a connection to PostgreSQL past every link.
func (w *world) sql() *pgx.Conn {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, postgresURL(w.postgres.Addr, "postgres"))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// exec runs statements on PostgreSQL.
func (w *world) exec(statements ...string) {
	w.Helper()
	c := w.sql()
	defer c.Close(context.Background())
	for _, s := range statements {
		if _, err := c.Exec(context.Background(), s); err != nil {
			w.Fatalf("%s: %v", s, err)
		}
	}
}

// reports is how often, or for how many entries, the product reported that something happened
// to its stream without it.
func (w *world) reports(what string) float64 {
	w.Helper()
	return w.metric("tidemill_source_reports_total", `what="`+what+`"`)
}

// metric sums up a metric of all running instances.
func (w *world) metric(name, label string) (sum float64) {
	w.Helper()
	for _, in := range w.instances {
		if !in.Runs() {
			continue
		}
		resp, err := http.Get("http://" + in.Addr + "/metrics")
		if err != nil {
			w.Fatal(err)
		}
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if l := lines.Text(); strings.HasPrefix(l, name+"{") && strings.Contains(l, label) {
				n, err := strconv.ParseFloat(l[strings.LastIndexByte(l, ' ')+1:], 64)
				if err != nil {
					w.Fatalf("%v: %s", err, l)
				}
				sum += n
			}
		}
	}
	return sum
}

// itemsOf are the items of a listing of the API, whose last line has to say that they are all there.
func itemsOf[T any](t testing.TB, path string, listing []byte) (all []T) {
	t.Helper()
	for line := range bytes.Lines(listing) {
		var end operation.ListingEnd
		if json.Unmarshal(line, &end) == nil && end.Whole != nil && end.Whole.Items == len(all) {
			return all
		}
		var x T
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatalf("%s: %v: %.300s", path, err, line)
		}
		all = append(all, x)
	}
	t.Fatalf("%s: the listing was cut off after %d items: %.300s", path, len(all), listing)
	return nil
}
