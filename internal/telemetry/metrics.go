//go:build !embedded

package telemetry

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// metrics sends what a Prometheus registry has.
type metrics struct {
	reader   *metric.ManualReader
	provider *metric.MeterProvider
	send     *otlpmetrichttp.Exporter
	heard    *heard
	log      *slog.Logger
}

func newMetrics(ctx context.Context, o *Options, of *resource.Resource) (*metrics, error) {
	m := &metrics{log: o.Log, heard: newHeard(o.Via), reader: metric.NewManualReader(metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(all(o.Registry)))))}
	m.provider = metric.NewMeterProvider(metric.WithReader(m.reader), metric.WithResource(of))
	var err error
	m.send, err = otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(place(o.Endpoint, "/v1/metrics")), otlpmetrichttp.WithHeaders(o.Headers), otlpmetrichttp.WithTimeout(timeout),
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression), otlpmetrichttp.WithHTTPClient(m.heard.client()),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: timeout / 10, MaxInterval: timeout, MaxElapsedTime: timeout}))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return m, nil
}

// all has a registry leave out what cannot be told now, as where Prometheus reads it.
func all(r *prometheus.Registry) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, _ := r.Gather()
		return families, nil
	})
}

// export sends all metrics once. What cannot be sent is not kept: the next ones have it.
func (m *metrics) export(ctx context.Context) {
	var all metricdata.ResourceMetrics
	err := m.reader.Collect(ctx, &all)
	if err == nil {
		err = m.send.Export(ctx, &all)
	}
	switch failed := err != nil && ctx.Err() == nil; {
	case !m.heard.turns(failed):
	case failed:
		// Logged when the collector does not take metrics; once for each outage.
		// To do: make the collector answer, or correct `telemetry.endpoint` and its headers.
		m.log.WarnContext(ctx, "metrics cannot be sent to the collector", "error", m.heard.why())
	default:
		// Logged when the collector takes metrics again.
		m.log.InfoContext(ctx, "metrics are sent to the collector again")
	}
}

func (m *metrics) close(ctx context.Context) error {
	if err := m.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	return m.send.Shutdown(ctx)
}
