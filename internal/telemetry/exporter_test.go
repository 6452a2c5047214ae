//go:build !embedded

package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/telemetry"
	"github.com/tidemill/tidemill/internal/telemetry/telemetrytest"
)

func open(t *testing.T, o telemetry.Options) *telemetry.Exporter {
	t.Helper()
	o.Now = time.Now
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	e, err := telemetry.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// loop does what one of the exporter's loops does, once.
func loop(t *testing.T, e *telemetry.Exporter, n int) {
	t.Helper()
	if err := e.Loops()[n].Do(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestSpansAreAsTheyWereGiven(t *testing.T) {
	c := telemetrytest.New(t)
	e := open(t, telemetry.Options{Endpoint: c.URL + "/", Sample: 1, Version: "v1", Instance: "i"})
	first := e.Under(nil)
	second := e.Under(&first)
	if !first.Sampled || !second.Sampled || first.ID != second.ID || first.Span == second.Span {
		t.Fatalf("a trace goes on as %+v, %+v", first, second)
	}
	e.Ended(&tidemill.Span{Trace: first, Name: "first", Kind: tidemill.SpanServer, Begin: time.Unix(1, 0), End: time.Unix(2, 0)})
	e.Ended(&tidemill.Span{Trace: second, Parent: first.Span, Name: "second", Kind: tidemill.SpanConsumer, Begin: time.Unix(1, 0), End: time.Unix(2, 0),
		Error: "timeout", Links: []tidemill.Trace{first}, Attributes: []tidemill.Attribute{{Name: "a", Text: "b\xff"}, {Name: "n", Number: 7}}})
	if err := e.Close(); err != nil { // which sends what waits
		t.Fatal(err)
	}
	spans := c.Spans()
	if len(spans) != 2 {
		t.Fatalf("%d spans came", len(spans))
	}
	if got, want := c.Tree(spans[0].Trace), "first (server) under \n  second (consumer) failed: timeout\n"; got != want {
		t.Errorf("the trace is\n%swant\n%s", got, want)
	}
	s := spans[1]
	if with := s.With; with["a"] != "b\uFFFD" || with["n"] != "7" || with["error.type"] != "timeout" || with["service.version"] != "v1" || with["service.instance.id"] != "i" {
		t.Errorf("the span has %v", with)
	}
	if len(s.Links) != 1 || s.Links[0] != spans[0].ID {
		t.Errorf("the span has the links %q", s.Links)
	}
}

func TestTracesAreSampledByTheirShare(t *testing.T) {
	for sample, want := range map[float64]int{0: 0, 0.25: 250, 1: 1000} {
		n := uint64(0)
		e := open(t, telemetry.Options{Endpoint: "http://127.0.0.1:1", Sample: sample, Random: func() uint64 { n += 1 << 60; return n }})
		sampled := 0
		for range 1000 {
			if e.Under(nil).Sampled {
				sampled++
			}
		}
		if sampled != want {
			t.Errorf("of 1000 traces %d are sampled, want %d", sampled, want)
		}
	}
}

func TestSpansThatFindNoRoomAreDroppedAndCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	e := open(t, telemetry.Options{Endpoint: "http://127.0.0.1:1", Sample: 1, Registry: r})
	for range 10_000 { // nobody sends
		e.Ended(&tidemill.Span{Trace: e.Under(nil), Name: "x"})
	}
	const want = `# HELP tidemill_telemetry_spans_total Spans by what became of them: exported, dropped because too many waited, failed because the collector did not take them.
# TYPE tidemill_telemetry_spans_total counter
tidemill_telemetry_spans_total{outcome="dropped"} 1808
tidemill_telemetry_spans_total{outcome="exported"} 0
tidemill_telemetry_spans_total{outcome="failed"} 0
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestACollectorThatIsAwayIsLoggedOnce(t *testing.T) {
	c := telemetrytest.New(t)
	c.Away(true)
	var log bytes.Buffer
	r := prometheus.NewRegistry()
	e := open(t, telemetry.Options{Endpoint: c.URL, Sample: 1, Registry: r, Metrics: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))})
	send := func() {
		e.Ended(&tidemill.Span{Trace: e.Under(nil), Name: "x"})
		loop(t, e, 0)
		loop(t, e, 1)
	}
	send()
	send()
	c.Away(false)
	send()
	send()
	var got []string
	for line := range strings.Lines(log.String()) {
		_, text, _ := strings.Cut(line, "msg=\"")
		text, _, _ = strings.Cut(text, "\"")
		got = append(got, text)
	}
	want := "spans cannot be exported: they are dropped until the collector takes them; metrics cannot be sent to the collector; spans are exported again; metrics are sent to the collector again"
	if strings.Join(got, "; ") != want {
		t.Errorf("the log says %q", got)
	}
	if n := len(c.Spans()); n != 2 || !c.HasMetric("tidemill_telemetry_spans") && !c.HasMetric("tidemill_telemetry_spans_total") {
		t.Errorf("%d spans came, want 2, and metrics", n)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
