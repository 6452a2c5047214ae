// Package telemetry sends spans and metrics to an OpenTelemetry collector, by OTLP over HTTP. It alone
// knows the SDK of OpenTelemetry; who follows messages knows a tidemill.Tracer.
//
//	e, err := telemetry.Open(ctx, telemetry.Options{Endpoint: "http://localhost:4318", Sample: 0.01})
//	engine.Trace(e)
//	system.Repeat(e.Loops()...)
//
// Nothing waits for the collector: spans wait in a bounded queue, and those that find no room are
// dropped and counted.
package telemetry

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options say where to send to, and what. Endpoint, Registry and Now are required.
type Options struct {
	Endpoint string            // of a collector, http or https; /v1/traces and /v1/metrics are added to its path
	Headers  map[string]string // of every request
	Sample   float64           // the share of traces that are begun here and sampled, from 0 to 1
	Metrics  time.Duration     // how often metrics are sent; 0: never
	Version  string            // of this program
	Instance string            // names this process among others of its kind; empty: the collector is not told

	Registry *prometheus.Registry // whose metrics are sent; its own are registered there
	Log      *slog.Logger         // nil: nothing is logged
	Now      func() time.Time
	Random   func() uint64     // ids and samples are made of it, from any goroutine; nil: from chance
	Via      http.RoundTripper // sends the requests; nil: http.DefaultTransport
}
