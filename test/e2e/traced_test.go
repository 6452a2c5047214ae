//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/telemetry/telemetrytest"
	"github.com/tidemill/tidemill/test/process"
)

// TestOneEventIsOneTrace follows an event of a sender's trace through the binary to a partner, with a
// kill -9 between its acceptance and its delivery: the trace is in the job.
func TestOneEventIsOneTrace(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	c := telemetrytest.New(t)
	said := make(chan string, 100)
	well := make(chan struct{})
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-well:
			said <- r.Header.Get("Traceparent")
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer partner.Close()
	file := filepath.Join(t.TempDir(), "tidemill.yaml")
	text := fmt.Sprintf(`
telemetry: {endpoint: %q, sample: 0, metrics: 1s}
delivery:
  sites:
    - {id: shop, keys: [%s]}
  partners:
    - {name: ads, endpoint: %q, allowHttp: true, allowPrivate: [127.0.0.0/8], retry: {base: 5s}}
`, c.URL, key, partner.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in := process.New(t, []string{"delivery", "--config", file}, []string{"TIDEMILL_LOG_LEVEL=warn"})
	in.Start()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+in.Addr+"/v1/events",
		strings.NewReader(`{"eventType":"page_view","timestamp":"2026-01-15T10:00:00Z","siteId":"shop","context":{"page":{"url":"https://shop.example/"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {key}, "X-Idempotency-Key": {"one"}, "Traceparent": {"00-" + trace + "-" + span + "-01"}}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(a.Body)
	if a.Body.Close(); a.StatusCode != http.StatusAccepted {
		t.Fatal(a.StatusCode, string(body))
	}
	c.UntilNamed(t, trace, "POST /v1/events", "process ingest.standard", "process s2s.ads", "POST") // which the partner refused
	in.Kill()
	close(well)
	in.Start()
	var told string
	select {
	case told = <-said:
	case <-time.After(time.Minute):
		t.Fatal("the partner was not asked again")
	}
	c.Until(t, "the span of the request that the partner took", func() bool { return strings.Contains(c.Tree(trace), "      POST (client)\n") })
	tree := c.Tree(trace)
	if strings.Count(tree, " under ") != 1 || !strings.HasPrefix(tree, "POST /v1/events (server) under "+span+"\n  process ingest.standard (consumer)\n    process s2s.ads (consumer)") || !strings.Contains(tree, "      POST (client) failed: partner_error\n") {
		t.Errorf("the trace is no single tree with a failed and a good request:\n%s", tree)
	}
	for _, s := range c.Spans() {
		if s.Kind == "client" && !s.Failed && told != "00-"+trace+"-"+s.ID+"-01" {
			t.Errorf("the partner was told %q, want the span %s", told, s.ID)
		}
	}
	c.Until(t, "metrics", func() bool {
		return c.HasMetric("tidemill_messages_settled") || c.HasMetric("tidemill_messages_settled_total")
	})
	if err := in.Stop(time.Minute); err != nil {
		t.Error(err)
	}
}
