package connect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
)

const severalProjects = `
data: %s
projects: [{name: news, key: key-of-more-than-sixteen}, {name: sport, key: key-of-sport-more-than-sixteen}]
windows:
  project: sport
  window: 1h
  files: {folder: %q, quiet: 0s, every: 50ms}
`

func TestWaysInWithoutAKeyAreOneProjects(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { testProjects(t, nil) })
	t.Run("on Redis and Kafka", func(t *testing.T) {
		testenv.Need(t)
		redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction")
		testProjects(t, onWindowsServers(t, redis.URL, nil))
	})
}

func testProjects(t *testing.T, vars map[string]string) {
	w := newWindowsOf(t, severalProjects, vars)
	ask := func(method, path, key, body string) (int, string) {
		r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		if w.byOperator(r); strings.HasPrefix(path, "/v1/") {
			r.Header.Del("Authorization")
			r.Header.Set("X-API-Key", key)
		}
		a := httptest.NewRecorder()
		w.Instance.ServeHTTP(a, r)
		return a.Code, a.Body.String()
	}
	// sports waits until sport has so many records of a batch id, and looks that news has none.
	sports := func(batch string, records int) {
		t.Helper()
		until(t, "sport has no batch "+batch, func() bool {
			code, body := ask("GET", "/v1/windows/"+batch, "key-of-sport-more-than-sixteen", "")
			return code == http.StatusOK && strings.Contains(body, fmt.Sprintf(`"records":%d,`, records))
		})
		if code, body := ask("GET", "/v1/windows/"+batch, windowsKey, ""); code != http.StatusNotFound {
			t.Errorf("news sees the batch %s: %d %s", batch, code, body)
		}
		if _, body := ask("GET", "/api/v1/windows?batch="+batch, "", ""); strings.Count(body, `"project":"sport"`) != 1 {
			t.Errorf("the windows of batch %s are %s", batch, body)
		}
	}
	if _, err := (gdelttest.Batch{Stamp: "20260323151500", Events: 3, First: 1}).Write(w.folder, false); err != nil {
		t.Fatal(err)
	}
	sports("20260323151500", 3)
	if code, body := ask("POST", "/api/v1/windows/records?batch=by-hand&kind=event", "", `{"globalEventId":1}`); code != http.StatusOK {
		t.Fatal(code, body)
	}
	sports("by-hand", 1)
	if brokers := vars["KAFKA_BOOTSTRAP_SERVERS"]; brokers != "" {
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		r := &kgo.Record{Topic: vars["KAFKA_TOPIC_ADAPTER_EVENT"], Value: []byte(`{"globalEventId":1}`), Headers: []kgo.RecordHeader{{Key: "X-Batch-ID", Value: []byte("of-kafka")}}}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		sports("of-kafka", 1)
	}
	if url := vars["TIDEMILL_WINDOWS_REDIS_URL"]; url != "" {
		client, err := redisconn.Open(t.Context(), tidemill.NewSecret(url), redisconn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for _, c := range [][]string{
			{"SADD", "active:batches", "adopted"}, {"SET", "batch:start:adopted", strconv.FormatInt(time.Now().UnixMilli(), 10)}, {"SADD", "batch:events:adopted", "7"},
			{"SET", "data:event:adopted:7", `{"globalEventId":7}`},
		} {
			if err := client.Do(t.Context(), client.B().Arbitrary(c...).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		if code, body := ask("POST", "/api/v1/windows/adopt", "", ""); code != http.StatusOK || strings.TrimSpace(body) != `{"batches":1,"records":1,"lost":0}` {
			t.Fatal(code, body)
		}
		sports("adopted", 1)
		for _, c := range [][]string{{"SADD", "old:ready:batches", "for-news"}, {"SADD", "old:batch:events:for-news", "8"}, {"SET", "old:data:event:for-news:8", `{"globalEventId":8}`}} {
			if err := client.Do(t.Context(), client.B().Arbitrary(c...).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		if code, body := ask("POST", "/api/v1/windows/adopt?prefix=old:&project=nix", "", ""); code != http.StatusNotFound || !strings.Contains(body, "there are news, sport") {
			t.Errorf("%d %s", code, body)
		}
		if code, body := ask("POST", "/api/v1/windows/adopt?prefix=old:&project=news", "", ""); code != http.StatusOK || strings.TrimSpace(body) != `{"batches":1,"records":1,"lost":0}` {
			t.Fatal(code, body)
		}
		if code, body := ask("GET", "/v1/windows/for-news", windowsKey, ""); code != http.StatusOK || !strings.Contains(body, `"records":1,`) {
			t.Errorf("news has not what was taken over for it: %d %s", code, body)
		}
	}
	// What news sends under the same id is its own.
	if code, body := w.send("events", "20260323151500", `{"globalEventId":1}`); code != http.StatusAccepted || !strings.Contains(body, `"accepted":1,"duplicate":0`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask("GET", "/v1/windows/20260323151500", windowsKey, ""); code != http.StatusOK || !strings.Contains(body, `"records":1,`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask("POST", "/api/v1/windows/20260323151500/close", "", ""); code != http.StatusConflict || !strings.Contains(body, "is in the projects news and sport: say which one is meant (--project") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask("GET", "/api/v1/projects", "", ""); code != http.StatusOK || strings.Count(body, `"id":`) != 2 {
		t.Errorf("%d %s", code, body)
	}
}
