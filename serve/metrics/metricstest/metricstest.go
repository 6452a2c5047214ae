// Package metricstest reads metrics as Prometheus does.
package metricstest

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Scrape is what Prometheus would read of these, in a registry of their own.
func Scrape(t testing.TB, of ...prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewRegistry()
	for _, c := range of {
		if err := r.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("answered %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// Series are the lines of metrics whose names begin so.
func Series(text string, prefixes ...string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			b.WriteString(line)
		}
	}
	return b.String()
}
