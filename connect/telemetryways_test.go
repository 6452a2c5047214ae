package connect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/telemetry/telemetrytest"
)

// follow posts a body as part of the sender's trace.
func follow(t *testing.T, in *Instance, path, body string, header http.Header) {
	t.Helper()
	r := httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(body))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Traceparent": {tracedKey}}
	if header == nil {
		in.byOperator(r)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	if in.ServeHTTP(w, r); w.Code/100 != 2 {
		t.Fatal(w.Code, w.Body)
	}
}

func isTree(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the trace is\n%swant\n%s", got, want)
	}
}

func TestATraceGoesToTheHandlersOfTheCRM(t *testing.T) {
	c := telemetrytest.New(t)
	w := newCRM(t, sentTo(c))
	follow(t, w.Instance, "/v1/crm/events", anEvent("club", "e1", "order.paid", `{"total":12.50}`), http.Header{"X-Api-Key": {"club-key"}})
	got := c.UntilNamed(t, sendersTrace, "POST /v1/crm/events", "process crm-events", "POST")
	isTree(t, got, "POST /v1/crm/events (server) under "+sendersSpan+"\n  process crm-events (consumer)\n    POST (client)\n")
	if parent := w.app.traced(); !strings.HasPrefix(parent, "00-"+sendersTrace+"-") || !strings.HasSuffix(parent, "-01") {
		t.Errorf("the endpoint was told %q", parent)
	}
}

func TestATraceGoesToTheWarehouse(t *testing.T) {
	c := telemetrytest.New(t)
	set := settings(t, "analytics.flush_interval", "1ms", "telemetry.endpoint", c.URL)
	set.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("key-of-more-than-sixteen")}}
	in := open(t, set, Options{Systems: []string{"analytics"}})
	defer in.Close()
	stop := running(t, in, nil)
	defer stop()
	follow(t, in, "/batch/", `{"api_key":"key-of-more-than-sixteen","batch":[{"event":"seen","distinct_id":"a","properties":{}}]}`, http.Header{})
	got := c.UntilNamed(t, sendersTrace, "POST /batch/", "process analytics")
	isTree(t, got, "POST /batch/ (server) under "+sendersSpan+"\n  process analytics (consumer)\n")
}

// bridged is a bridge with its own broker whose traces a collector gets, and a client that has subscribed to
// the topics of a filter. Settings may follow.
func bridged(t *testing.T, c *telemetrytest.Collector, filter string, more ...string) (context.Context, *Instance, *mqttconn.Client) {
	t.Helper()
	addr := "127.0.0.1:" + freePort(t)
	in := open(t, settings(t, append([]string{"bridge.broker.listen", addr, "bridge.broker.user", "device", "bridge.broker.password", "canary", "telemetry.endpoint", c.URL}, more...)...), Options{Systems: []string{"bridge"}})
	t.Cleanup(func() { _ = in.Close() })
	stop := running(t, in, nil)
	t.Cleanup(func() { _ = stop() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	client, err := mqttconn.Open(ctx, []string{"tcp://" + addr}, mqttconn.Options{User: "device", Password: tidemill.NewSecret("canary")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.WithoutCancel(ctx)) })
	if err := client.Subscribe(ctx, mqttconn.Subscription{Filter: filter, QoS: 1}); err != nil {
		t.Fatal(err)
	}
	return ctx, in, client
}

func TestATraceGoesToTheSubscriberOfTheBridge(t *testing.T) {
	c := telemetrytest.New(t)
	ctx, in, client := bridged(t, c, "syslog")
	follow(t, in, "/api/v1/bridge/entries", `{"a":1}`, nil)
	into := make([]mqttconn.Delivery, 1)
	if _, err := client.Receive(ctx, into); err != nil || !strings.HasPrefix(string(into[0].Payload), `{"message":{"payload":{"a":1}},`) {
		t.Fatalf("the subscriber got %s, %v", into[0].Payload, err)
	}
	said := tidemill.Message{Header: into[0].User(nil)}
	parent, ok := tidemill.TraceOf(&said)
	tree := c.UntilNamed(t, sendersTrace, "POST /api/v1/bridge/entries", "process bridge")
	isTree(t, tree, "POST /api/v1/bridge/entries (server) under "+sendersSpan+"\n  process bridge (consumer)\n")
	for _, s := range c.Spans() {
		if s.Name == "process bridge" && (!ok || parent.String() != "00-"+sendersTrace+"-"+s.ID+"-01") {
			t.Errorf("the subscriber was told %v, want the span %s", said.Header, s.ID)
		}
	}
}
