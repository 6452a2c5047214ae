// Package telemetrytest is a collector for tests: it takes OTLP over HTTP, as the messages of the
// protocol's own module have it, and says what came.
package telemetrytest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one that came.
type Span struct {
	Trace, ID, Parent string // in hexadecimal digits; Parent is empty where there is none
	Name, Kind        string // the kind as client, server, producer, consumer
	Failed            bool
	With              map[string]string // attributes, and service.name of its resource
	Links             []string          // ids of spans
}

// Collector is one that runs.
type Collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []Span
	metrics map[string]bool
	headers []http.Header
	came    chan struct{}
	away    bool
	hold    chan struct{} // not nil: answers wait until it is closed
}

// New runs a collector until the test ends.
func New(t testing.TB) *Collector {
	c := &Collector{metrics: map[string]bool{}, came: make(chan struct{}, 1)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// Away has the collector refuse everything, or take it again.
func (c *Collector) Away(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

// Hold has answers wait until the function is called that it returns.
func (c *Collector) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hold := make(chan struct{})
	c.hold = hold
	return sync.OnceFunc(func() { close(hold) })
}

// ServeHTTP takes spans and metrics.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	away, hold := c.away, c.hold
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	body, err := read(r)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case away:
		w.WriteHeader(http.StatusForbidden) // after which nothing is repeated
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header.Clone())
	switch r.URL.Path {
	case "/v1/traces":
		err = c.takeSpans(body)
	case "/v1/metrics":
		err = c.takeMetrics(body)
	default:
		err = fmt.Errorf("path %s", r.URL.Path)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	select {
	case c.came <- struct{}{}:
	default:
	}
}

func read(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func (c *Collector) takeSpans(body []byte) error {
	var m collecttrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &m); err != nil {
		return err
	}
	for _, rs := range m.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				got := Span{Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(),
					Kind: strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")), Failed: s.GetStatus().GetCode().String() == "STATUS_CODE_ERROR", With: map[string]string{}}
				for _, a := range append(slices.Clone(s.GetAttributes()), rs.GetResource().GetAttributes()...) {
					if got.With[a.GetKey()] = a.GetValue().GetStringValue(); got.With[a.GetKey()] == "" {
						got.With[a.GetKey()] = fmt.Sprint(a.GetValue().GetIntValue())
					}
				}
				for _, l := range s.GetLinks() {
					got.Links = append(got.Links, hex.EncodeToString(l.GetSpanId()))
				}
				c.spans = append(c.spans, got)
			}
		}
	}
	return nil
}

func (c *Collector) takeMetrics(body []byte) error {
	var m collectmetrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &m); err != nil {
		return err
	}
	for _, rm := range m.GetResourceMetrics() {
		for _, sm := range rm.GetScopeMetrics() {
			for _, metric := range sm.GetMetrics() {
				c.metrics[metric.GetName()] = true
			}
		}
	}
	return nil
}

// Spans are all that came.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Header is the value of a header of the last request.
func (c *Collector) Header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.headers) == 0 {
		return ""
	}
	return c.headers[len(c.headers)-1].Get(name)
}

// HasMetric says whether a metric of this name came.
func (c *Collector) HasMetric(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

// Until waits until is holds, which is asked whenever something came.
func (c *Collector) Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	for !is() {
		select {
		case <-c.came:
		case <-end:
			t.Fatalf("not within a minute: %s; the collector has\n%s", what, c)
		}
	}
}

// UntilNamed waits for a span with each of these names in a trace, and returns its tree.
func (c *Collector) UntilNamed(t testing.TB, trace string, names ...string) string {
	t.Helper()
	c.Until(t, fmt.Sprintf("spans %q in trace %s", names, trace), func() bool {
		spans := c.Spans()
		return !slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(spans, func(s Span) bool { return s.Trace == trace && s.Name == name })
		})
	})
	return c.Tree(trace)
}

// Tree shows the spans of a trace, each on a line, those under another one indented beneath it, in the
// order of their names. The first ones say under which span of others they are.
func (c *Collector) Tree(trace string) string {
	var spans []Span
	ids := map[string]bool{}
	for _, s := range c.Spans() {
		if s.Trace == trace {
			spans, ids[s.ID] = append(spans, s), true
		}
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	var show func(s *Span, depth int)
	show = func(s *Span, depth int) {
		fmt.Fprintf(&b, "%s%s (%s)", strings.Repeat("  ", depth), s.Name, s.Kind)
		if depth == 0 {
			fmt.Fprintf(&b, " under %s", s.Parent)
		}
		if s.Failed {
			fmt.Fprintf(&b, " failed: %s", s.With["error.type"])
		}
		b.WriteString("\n")
		for i := range spans {
			if spans[i].Parent == s.ID {
				show(&spans[i], depth+1)
			}
		}
	}
	for i := range spans {
		if !ids[spans[i].Parent] {
			show(&spans[i], 0)
		}
	}
	return b.String()
}

// String shows all traces.
func (c *Collector) String() string {
	seen := map[string]bool{}
	var b strings.Builder
	for _, s := range c.Spans() {
		if !seen[s.Trace] {
			seen[s.Trace] = true
			fmt.Fprintf(&b, "trace %s\n%s", s.Trace, c.Tree(s.Trace))
		}
	}
	return b.String()
}
