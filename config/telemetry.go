package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// Telemetry is what an OpenTelemetry collector is sent.
type Telemetry struct {
	Endpoint URL             `yaml:"endpoint" env:"TIDEMILL_TELEMETRY_ENDPOINT,OTEL_EXPORTER_OTLP_ENDPOINT" help:"an OpenTelemetry collector, which is sent traces and metrics by OTLP over HTTP; empty: nothing is sent, and nothing is followed" allow:"http://host:port or https://host:port; /v1/traces and /v1/metrics are added"`
	Headers  tidemill.Secret `yaml:"headers" env:"TIDEMILL_TELEMETRY_HEADERS,OTEL_EXPORTER_OTLP_HEADERS" help:"headers of every request to it, such as a key" allow:"name=value, several with commas; values percent-encoded"`
	Sample   float64         `yaml:"sample" env:"TIDEMILL_TELEMETRY_SAMPLE" default:"0.01" help:"share of the events that came without a traceparent whose trace is sent; with one, its sender decides. What fails for good is sent always" allow:"0 to 1"`
	Metrics  time.Duration   `yaml:"metrics" env:"TIDEMILL_TELEMETRY_METRICS" default:"1m" help:"how often the metrics are sent to it; 0: never" allow:"0, or 1s to 1h"`
}

// Sent are the headers of every request. The error shows no value.
func (t *Telemetry) Sent() (map[string]string, error) {
	all := map[string]string{}
	for i, part := range strings.Split(t.Headers.Reveal(), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || name == "" || err != nil {
			return nil, fmt.Errorf("telemetry.headers: header %d is not name=value", i+1)
		}
		all[name] = value
	}
	return all, nil
}

// check refuses what cannot be sent to.
func (t *Telemetry) check(ok func(good bool, path string)) {
	_, err := t.Sent()
	ok(err == nil, "telemetry.headers")
	ok(t.Endpoint.Has("http", "https"), "telemetry.endpoint")
	ok(t.Sample >= 0 && t.Sample <= 1, "telemetry.sample")
	ok(t.Metrics == 0 || t.Metrics >= time.Second && t.Metrics <= time.Hour, "telemetry.metrics")
}
