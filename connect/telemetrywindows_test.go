package connect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill/internal/telemetry/telemetrytest"
	"github.com/tidemill/tidemill/internal/testenv"
)

const tracedKey = "00-" + sendersTrace + "-" + sendersSpan + "-01"

func TestATraceGoesThroughAWindowIntoTheIndex(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		c := telemetrytest.New(t)
		w := newWindows(t, sentTo(c))
		testTracedWindow(t, c, w, "processor-event", func(batch, body string) error {
			r := httptest.NewRequest("POST", "http://localhost/v1/windows/events", strings.NewReader(body))
			r.Header = http.Header{"X-Api-Key": {windowsKey}, "X-Batch-Id": {batch}, "Content-Type": {"application/json"}, "Traceparent": {tracedKey}}
			a := httptest.NewRecorder()
			if w.Instance.ServeHTTP(a, r); a.Code != http.StatusAccepted {
				return fmt.Errorf("%d %s", a.Code, a.Body)
			}
			return nil
		})
	})
	t.Run("from Node by Redis, Kafka and OpenSearch", func(t *testing.T) {
		testenv.Need(t)
		c := telemetrytest.New(t)
		search := testenv.Start(t, testenv.PrivateOpenSearch, "SEARCH_HEAP=256m") // index templates are the whole server's
		redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction")
		vars := onWindowsServers(t, redis.URL, sentTo(c, "OPENSEARCH_URL", search.URL))
		w := newWindows(t, vars)
		senders := httptest.NewServer(w.Instance)
		defer senders.Close()
		testTracedWindow(t, c, w, vars["KAFKA_TOPIC_PROCESSOR_EVENT"], func(batch, body string) error {
			out, err := exec.CommandContext(t.Context(), "node", "../test/sdk/traced.mjs", senders.URL, windowsKey, batch, tracedKey, body).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		testTracedTopic(t, c, vars)
	})
}

// testTracedWindow sends two records in a trace, of which a processor drops neither, and one that it
// refuses.
func testTracedWindow(t *testing.T, c *telemetrytest.Collector, w *windowsWorld, topic string, send func(batch, body string) error) {
	if err := send("traced", `[{"globalEventId":1,"day":20260401,"eventCode":"141"},{"globalEventId":2,"day":20260401,"eventCode":"141"},{"globalEventId":3,"day":20260401,"actionGeoLat":91,"actionGeoLong":1}]`); err != nil {
		t.Fatal(err)
	}
	w.finds("events", "globalEventId:1..3", 2)
	read, sent := 0, 0
	c.Until(t, "the spans of two documents", func() bool {
		tree := c.Tree(sendersTrace)
		read, sent = strings.Count(tree, "\n    process windows-index-events "), strings.Count(tree, "  send "+topic+" (producer)")
		return read == 2 && sent == 2 && strings.Contains(tree, "\n  process record (internal) failed: validation\n")
	})
	tree := c.Tree(sendersTrace)
	if !strings.HasPrefix(tree, "POST /v1/windows/events (server) under "+sendersSpan+"\n") || strings.Count(tree, " under ") != 1 || strings.Count(tree, "\n") != 6 {
		t.Errorf("the trace is no single tree of the request, two records that were sent and indexed, and one that was refused:\n%s", tree)
	}
	c.Until(t, "the window's span", func() bool {
		return slices.ContainsFunc(c.Spans(), func(s telemetrytest.Span) bool {
			return s.Name == "process windows-delivery" && s.Trace != sendersTrace
		})
	})
	for _, s := range c.Spans() {
		switch {
		case s.Name == "process windows-delivery" && s.Trace != sendersTrace && len(s.Links) != 2:
			t.Errorf("the window's span has the links %q, want those of two records", s.Links)
		case s.Name == "send "+topic && len(s.Links) != 1:
			t.Errorf("a record's span has the links %q, want its window's", s.Links)
		}
	}
	r := httptest.NewRequest("POST", "http://localhost/api/v1/dead/replay?pipeline=windows-delivery", nil)
	w.byOperator(r)
	a := httptest.NewRecorder()
	if w.Instance.ServeHTTP(a, r); a.Code != http.StatusOK {
		t.Fatal(a.Code, a.Body)
	}
	c.Until(t, "the replay of the record that was refused", func() bool {
		return strings.Contains(c.Tree(sendersTrace), "process windows-delivery.replay (consumer)")
	})
}

// testTracedTopic brings a record in a trace by a topic.
func testTracedTopic(t *testing.T, c *telemetrytest.Collector, vars map[string]string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(vars["KAFKA_BOOTSTRAP_SERVERS"], ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	r := &kgo.Record{Topic: vars["KAFKA_TOPIC_ADAPTER_EVENT"], Value: []byte(`{"globalEventId":9,"day":20260402}`), Headers: []kgo.RecordHeader{
		{Key: "batchId", Value: []byte(`"20260402000000"`)}, {Key: "traceparent", Value: []byte("00-" + trace + "-" + sendersSpan + "-01")}}}
	if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got := ""
	c.Until(t, "the record's spans", func() bool { got = c.Tree(trace); return strings.Count(got, "\n") == 3 })
	want := "process windows-events (consumer) under " + sendersSpan + "\n  send " + vars["KAFKA_TOPIC_PROCESSOR_EVENT"] + " (producer)\n    process "
	if !strings.HasPrefix(got, want) {
		t.Errorf("the trace is\n%swant\n%s…", got, want)
	}
}
