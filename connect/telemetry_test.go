package connect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/telemetry/telemetrytest"
)

const (
	sendersTrace = "0af7651916cd43dd8448eb211c80319c"
	sendersSpan  = "b7ad6b7169203331"
)

// traced sends an event whose sender is at work on a trace.
func traced(t *testing.T, in *Instance, id, flags string) {
	t.Helper()
	r := httptest.NewRequest("POST", "/v1/events", strings.NewReader(fmt.Sprintf(viewed, id)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", "shop-key")
	r.Header.Set("X-Idempotency-Key", id)
	if flags != "" {
		r.Header.Set("Traceparent", "00-"+sendersTrace+"-"+sendersSpan+"-"+flags)
		r.Header.Set("Tracestate", "vendor=1")
	}
	w := httptest.NewRecorder()
	if in.ServeHTTP(w, r); w.Code != http.StatusAccepted {
		t.Fatal(w.Code, w.Body)
	}
}

func sentTo(c *telemetrytest.Collector, more ...string) map[string]string {
	vars := map[string]string{"TIDEMILL_TELEMETRY_ENDPOINT": c.URL, "TIDEMILL_TELEMETRY_HEADERS": "x-key=a%20secret", "TIDEMILL_TELEMETRY_METRICS": "1s", "TIDEMILL_TELEMETRY_SAMPLE": "0"}
	for i := 0; i < len(more); i += 2 {
		vars[more[i]] = more[i+1]
	}
	return vars
}

func TestATraceGoesFromTheSenderToThePartner(t *testing.T) {
	c, p := telemetrytest.New(t), newPartner(t)
	in := delivering(t, p, sentTo(c))
	traced(t, in, "0190f3c2-0000-7000-8000-000000000001", "01")
	got := c.UntilNamed(t, sendersTrace, "POST /v1/events", "process ingest.standard", "process s2s.p", "POST")
	want := `POST /v1/events (server) under ` + sendersSpan + `
  process ingest.standard (consumer)
    process s2s.p (consumer)
      POST (client)
`
	if got != want {
		t.Errorf("the trace is\n%swant\n%s", got, want)
	}
	said, state := p.trace()
	i := slices.IndexFunc(c.Spans(), func(s telemetrytest.Span) bool { return s.Kind == "client" })
	if s := c.Spans()[i]; said != "00-"+sendersTrace+"-"+s.ID+"-01" || state != "vendor=1" {
		t.Errorf("the partner was told %q, %q, want the span %s of the request", said, state, s.ID)
	} else if s.With["http.response.status_code"] != "200" || s.With["server.address"] != "127.0.0.1" || s.With["service.name"] != "tidemill" {
		t.Errorf("the request's span has %v", s.With)
	}
	c.Until(t, "metrics", func() bool {
		return c.HasMetric("tidemill_messages_settled_total") || c.HasMetric("tidemill_messages_settled")
	})
	if got := c.Header("X-Key"); got != "a secret" {
		t.Errorf("the collector was sent the key %q", got)
	}
}

func TestWhatFailsIsInATraceThatIsNotSampled(t *testing.T) {
	c, p := telemetrytest.New(t), newPartner(t)
	in := delivering(t, p, sentTo(c))
	traced(t, in, "0190f3c2-0000-7000-8000-000000000001", "00")
	until(t, "the first is delivered", func() bool { return p.got("0190f3c2-0000-7000-8000-000000000001") != "" })
	if said, _ := p.trace(); said != "00-"+sendersTrace+"-"+sendersSpan+"-00" {
		t.Errorf("the partner was told %q", said)
	}
	p.answers(http.StatusBadRequest)
	traced(t, in, "0190f3c2-0000-7000-8000-000000000002", "00")
	traced(t, in, "0190f3c2-0000-7000-8000-000000000003", "")
	c.Until(t, "both failures", func() bool { return len(c.Spans()) >= 2 })
	spans := c.Spans()
	if len(spans) != 2 {
		t.Fatalf("%d spans came, want those of the two that failed:\n%s", len(spans), c)
	}
	for _, s := range spans {
		if s.Name != "process s2s.p" || !s.Failed || s.With["error.type"] != "validation" || s.With["tidemill.end"] != "dead" {
			t.Errorf("span %s of the failure: %+v", s.Name, s)
		}
	}
	if spans[0].Trace == spans[1].Trace || spans[0].Trace != sendersTrace && spans[1].Trace != sendersTrace {
		t.Errorf("the failures are of the traces %s and %s, want one to be the sender's", spans[0].Trace, spans[1].Trace)
	}
}

func TestWithoutACollectorThePartnerIsToldNoTrace(t *testing.T) {
	p := newPartner(t)
	in := delivering(t, p, nil)
	traced(t, in, "0190f3c2-0000-7000-8000-000000000001", "01")
	until(t, "it is delivered", func() bool { return p.got("0190f3c2-0000-7000-8000-000000000001") != "" })
	if said, state := p.trace(); said != "" || state != "" {
		t.Errorf("the partner was told %q, %q", said, state)
	}
}

func TestACollectorThatIsAwayHoldsUpNothing(t *testing.T) {
	c, p := telemetrytest.New(t), newPartner(t)
	release := c.Hold()
	defer release()
	in := delivering(t, p, sentTo(c, "TIDEMILL_TELEMETRY_SAMPLE", "1"))
	for n := range 20 {
		id := fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", n)
		traced(t, in, id, "")
		until(t, id+" is delivered", func() bool { return p.got(id) != "" })
	}
	if n := len(c.Spans()); n != 0 {
		t.Errorf("%d spans came to a collector that does not answer", n)
	}
}
