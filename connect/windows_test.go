package connect

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
)

// windowsWorld is the windows system as a configuration makes it, and who talks to it.
type windowsWorld struct {
	*Instance
	t      *testing.T
	config *config.Loaded
	folder string // of files that are read
	end    func()
}

const windowsKey = "key-of-more-than-sixteen"

const windowsConfig = `
data: %s
projects: [{name: news, key: key-of-more-than-sixteen}]
windows:
  window: 300ms
  sweep: 50ms
  files: {folder: %q, quiet: 0s, every: 50ms}
  processors:
    - filter: {keep: 'kind == "mention" || eventCode != "000"', reason: boring}
    - validate: [{must: '(actionGeoLat ?? 0) <= 90', why: the place is on no globe}]
    - map: [{name: via, from: '"tidemill"'}]
`

// newWindows loads a configuration with what vars say more, and runs it.
func newWindows(t *testing.T, vars map[string]string) *windowsWorld {
	t.Helper()
	return newWindowsOf(t, windowsConfig, vars)
}

// newWindowsOf does so with a configuration of which the data and the folder of files are left
// open.
func newWindowsOf(t *testing.T, text string, vars map[string]string) *windowsWorld {
	t.Helper()
	w := &windowsWorld{t: t, folder: t.TempDir()}
	file := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, text, filepath.Join(t.TempDir(), "data"), w.folder), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.config, err = systems.All().Settings().Load(config.Layers{File: file, Getenv: func(name string) string { return vars[name] }}); err != nil {
		t.Fatal(err)
	}
	if err := windowsconfig.Of(w.config).Check(); err != nil {
		t.Fatal(err)
	}
	w.start()
	t.Cleanup(func() { w.end() })
	return w
}

func (w *windowsWorld) start() {
	w.t.Helper()
	in := open(w.t, w.config, Options{Version: "v1", Systems: []string{"windows"}})
	stop := running(w.t, in, nil)
	w.Instance = in
	w.end = sync.OnceFunc(func() {
		if err := stop(); err != nil {
			w.t.Error(err)
		}
		if err := in.Close(); err != nil {
			w.t.Error(err)
		}
	})
}

// send posts records of a batch.
func (w *windowsWorld) send(kind, batch, body string) (int, string) {
	w.t.Helper()
	r := httptest.NewRequest("POST", "http://localhost/v1/windows/"+kind, strings.NewReader(body))
	r.Header.Set("X-API-Key", windowsKey)
	r.Header.Set("X-Batch-ID", batch)
	r.Header.Set("Content-Type", "application/json")
	a := httptest.NewRecorder()
	w.Instance.ServeHTTP(a, r)
	return a.Code, a.Body.String()
}

// found are the documents that a query finds.
func (w *windowsWorld) found(family, query string) (total int, docs []map[string]any) {
	w.t.Helper()
	a := get(w.Instance, "/api/v1/search?size=1000&family="+family+"&q="+query)
	var page struct {
		Total int
		Hits  []struct{ Document map[string]any }
	}
	if err := json.Unmarshal(a.Body.Bytes(), &page); err != nil || a.Code != http.StatusOK {
		return 0, nil // the index is not there yet
	}
	for _, h := range page.Hits {
		docs = append(docs, h.Document)
	}
	return page.Total, docs
}

func (w *windowsWorld) finds(family, query string, want int) (docs []map[string]any) {
	w.t.Helper()
	total := 0
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%s %s: found %d, want %d; %s", family, query, total, want, get(w.Instance, "/api/v1/audit").Body)
		}
	}()
	until(w.t, fmt.Sprintf("%s %s are not %d", family, query, want), func() bool {
		total, docs = w.found(family, query)
		return total == want
	})
	return docs
}

func TestWindows(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { testWindows(t, nil) })
	t.Run("on Redis, Kafka and OpenSearch", func(t *testing.T) {
		testenv.Need(t)
		search := testenv.Start(t, testenv.PrivateOpenSearch, "SEARCH_HEAP=256m") // index templates are the whole server's
		redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction")
		testWindows(t, onWindowsServers(t, redis.URL, map[string]string{"OPENSEARCH_URL": search.URL}))
	})
	t.Run("in transactions", func(t *testing.T) {
		testenv.Need(t)
		redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction")
		testWindows(t, onWindowsServers(t, redis.URL, map[string]string{"TIDEMILL_WINDOWS_TRANSACTIONAL": "true", "TIDEMILL_WINDOWS_INSTANCE": "one"}))
	})
	t.Run("on Redis alone", func(t *testing.T) {
		testenv.Need(t)
		redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction")
		testWindows(t, map[string]string{"TIDEMILL_REDIS_URL": redis.URL})
	})
}

// onWindowsServers are variables for topics of this test's own.
func onWindowsServers(t *testing.T, redis string, more map[string]string) map[string]string {
	vars := map[string]string{"TIDEMILL_WINDOWS_REDIS_URL": redis, "KAFKA_BOOTSTRAP_SERVERS": strings.Join(testenv.Kafka(t), ","), "SERVICE_NAME": testenv.Name("windows"),
		"TIDEMILL_KAFKA_PARTITIONS": "2"}
	for _, topic := range []string{"ADAPTER_EVENT", "ADAPTER_MENTION", "PROCESSOR_EVENT", "PROCESSOR_MENTION", "DLQ_CONNECT_EVENT_NAME", "DLQ_CONNECT_MENTION_NAME"} {
		vars["KAFKA_TOPIC_"+topic] = testenv.Name("windows")
	}
	for name, value := range more {
		vars[name] = value
	}
	return vars
}

// testWindows is a batch's whole life, whatever it is on.
func testWindows(t *testing.T, vars map[string]string) {
	w := newWindows(t, vars)
	batch := testenv.Name("") // ids are of this run alone: an index on a server has those of others
	base := int64(1_000_000_000) + int64(len(batch))
	for _, c := range batch {
		base = base*31 + int64(c)
	}
	base &= 1<<40 - 1

	// Files, each key once, with a mapping's value.
	b := gdelttest.Batch{Stamp: "20260323151500", Events: 20, Mentions: 60, First: base}
	if _, err := b.Write(w.folder, true); err != nil {
		t.Fatal(err)
	}
	ids := fmt.Sprintf("globalEventId:%d..%d", base, base+19)
	for _, d := range w.finds("events", ids, 20) {
		if d["via"] != "tidemill" || d["elasticIndexDate"] != nil {
			t.Errorf("a document is %v", d)
		}
	}

	// By HTTP: good ones are taken, a bad one has its reason.
	code, body := w.send("events", "b-1", fmt.Sprintf(`[{"globalEventId":%d,"day":20260401,"actionGeoLat":48.5,"actionGeoLong":11.5,"eventCode":"141","actor1Name":"UNITED STATES"},{"day":20260401},
		{"globalEventId":%d,"day":20260401,"eventCode":"000"},{"globalEventId":%d,"day":20260401,"actionGeoLat":91,"actionGeoLong":1}]`, base+100, base+101, base+102))
	if code != http.StatusAccepted || !strings.Contains(body, "globalEventId") {
		t.Errorf("records by HTTP: %d %s", code, body)
	}
	got := w.finds("events", fmt.Sprintf("globalEventId:%d..%d", base+100, base+199), 1)
	if place, _ := json.Marshal(got[0]["actionLocation"]); string(place) != `{"lat":48.5,"lon":11.5}` || got[0]["eventDate"] != "2026-04-01T00:00:00Z" {
		t.Errorf("the document is %v", got)
	}
	until(t, "there is no letter of the record on no globe", func() bool {
		return strings.Contains(get(w.Instance, "/api/v1/dead?pipeline=windows-delivery").Body.String(), "on no globe")
	})

	// From topics, where there are some.
	if brokers := vars["KAFKA_BOOTSTRAP_SERVERS"]; brokers != "" {
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		value := func(n int64) []byte { return fmt.Appendf(nil, `{"globalEventId":%d,"day":20260402}`, n) }
		stamp := []kgo.RecordHeader{{Key: "batchId", Value: []byte(`"20260402000000"`)}}
		for _, r := range []*kgo.Record{{Value: value(base + 200), Headers: stamp}, {Value: value(base + 201), Headers: stamp}, {Value: []byte("no record"), Headers: stamp}, {Value: value(base + 202)}} {
			r.Topic = vars["KAFKA_TOPIC_ADAPTER_EVENT"]
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		w.finds("events", fmt.Sprintf("globalEventId:%d..%d", base+200, base+299), 2)
		until(t, "there are no letters of what cannot be read and of what has no batch id", func() bool {
			letters := get(w.Instance, "/api/v1/dead?pipeline=windows-events").Body.String()
			return strings.Contains(letters, "X-Batch-ID") && strings.Count(letters, vars["KAFKA_TOPIC_ADAPTER_EVENT"]+"/") >= 2
		})
	}

	// After a restart nothing has changed, and the books balance.
	w.end()
	w.start()
	w.finds("events", ids, 20)
	until(t, "the books do not balance", func() bool {
		var a struct {
			Balanced bool
			Systems  []struct {
				Pipelines []struct {
					InFlight int `json:"in_flight"`
				}
			}
		}
		if err := json.Unmarshal(get(w.Instance, "/api/v1/audit").Body.Bytes(), &a); err != nil || len(a.Systems) != 1 {
			return false
		}
		flight := 0
		for _, p := range a.Systems[0].Pipelines {
			flight += p.InFlight
		}
		return a.Balanced && flight == 0
	})
	var doctor struct {
		Findings []struct{ Check, Verdict, Detail string }
	}
	if err := json.Unmarshal(get(w.Instance, "/api/v1/doctor").Body.Bytes(), &doctor); err != nil {
		t.Fatal(err)
	}
	for _, f := range doctor.Findings {
		if f.Verdict == "fail" && !strings.HasPrefix(f.Check, "kafka") { // there is one broker
			t.Errorf("the doctor finds %+v", f)
		}
	}
}

func TestPortsOfWindowsAreOpenedWhereTheyAreSet(t *testing.T) {
	server, actuator := freePort(t), freePort(t)
	w := newWindows(t, map[string]string{"SERVER_PORT": server, "ACTUATOR_PORT": actuator})
	for url, want := range map[string]int{
		"http://127.0.0.1:" + server + "/v1/windows/nothing":    http.StatusUnauthorized,
		"http://127.0.0.1:" + server + "/api/v1/windows":        http.StatusNotFound, // operators' things are not for everybody
		"http://127.0.0.1:" + server + "/readyz":                http.StatusOK,
		"http://127.0.0.1:" + actuator + "/actuator/health":     http.StatusOK,
		"http://127.0.0.1:" + actuator + "/actuator/prometheus": http.StatusOK,
		"http://127.0.0.1:" + actuator + "/v1/windows/nothing":  http.StatusNotFound,
	} {
		a, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("%s: %d, want %d", url, a.StatusCode, want)
		}
	}
	w.end()
	if _, err := http.Get("http://127.0.0.1:" + actuator + "/actuator/health"); err == nil {
		t.Error("it listens still")
	}
}

// freePort is one that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestWhatTheOtherProgramHasCollectedIsTakenOver(t *testing.T) {
	testenv.Need(t)
	redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction")
	client, err := redisconn.Open(t.Context(), tidemill.NewSecret(redis.URL), redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, c := range [][]string{
		{"SADD", "ready:batches", "20260323151500"}, {"SET", "batch:start:20260323151500", "1774278900000"}, {"SADD", "batch:events:20260323151500", "7", "8"},
		{"SET", "data:event:20260323151500:7", `{"globalEventId":7,"day":20260323,"actor1Name":"LEFT BEHIND"}`},
	} {
		if err := client.Do(t.Context(), client.B().Arbitrary(c...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	w := newWindows(t, map[string]string{"TIDEMILL_WINDOWS_REDIS_URL": redis.URL})
	for _, c := range []struct{ query, want string }{
		{"?dry_run=true", `{"batches":1,"records":1,"lost":1}`}, {"?dry_run=true", `{"batches":1,"records":1,"lost":1}`},
		{"", `{"batches":1,"records":1,"lost":1}`}, {"", `{"batches":0,"records":0,"lost":0}`}, {"?dry_run=true", `{"batches":0,"records":0,"lost":0}`},
	} {
		r := httptest.NewRequest("POST", "http://localhost/api/v1/windows/adopt"+c.query, nil)
		w.byOperator(r)
		a := httptest.NewRecorder()
		if w.Instance.ServeHTTP(a, r); strings.TrimSpace(a.Body.String()) != c.want {
			t.Errorf("adopt%s: %d %s, want %s", c.query, a.Code, a.Body, c.want)
		}
	}
	w.finds("events", "behind", 1)
}

func TestEmbeddedWindowsHaveNothingToTakeOver(t *testing.T) {
	w := newWindows(t, nil)
	r := httptest.NewRequest("POST", "http://localhost/api/v1/windows/adopt", nil)
	w.byOperator(r)
	a := httptest.NewRecorder()
	if w.Instance.ServeHTTP(a, r); a.Code != http.StatusConflict || !strings.Contains(a.Body.String(), "windows.redis.url") {
		t.Errorf("%d %s", a.Code, a.Body)
	}
}

func TestTopicsThatAreQueuesAreOrderedBeforeAnythingIsInThem(t *testing.T) {
	c, err := systems.All().Settings().Load(config.Layers{Flags: map[string]string{"data": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	in := open(t, c, Options{Systems: []string{"windows"}}) // which does not run: nobody has received
	defer in.Close()
	file := in.Opened()
	for _, topic := range []string{"processor-event", "processor-mention"} {
		if s, err := file.Queues.Settings(t.Context(), topic); err != nil || !s.Ordered {
			t.Errorf("%s: %+v, %v", topic, s, err)
		}
	}
	// One that holds records without order is drained all the same.
	err = file.Queues.Add(t.Context(), []*tidemill.Message{{ID: "1", To: "other", Key: []byte("1"), Payload: []byte(`{"globalEventId":1,"elasticIndexDate":"2026-01-01","eventDate":"2026-01-01T00:00:00Z"}`)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	windowsconfig.Of(c).Topics.ProcessorEvent = "other"
	w := &windowsWorld{t: t, config: c}
	w.start()
	defer w.end()
	w.finds("events", "globalEventId:1", 1)
}
