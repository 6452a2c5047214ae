package analyticssystem

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/systems/analytics"
)

// warningMetrics count the warnings by type: what was refused after they were accepted, merges too.
type warningMetrics struct{ of *analytics.Warnings }

var warnings = prometheus.NewDesc("tidemill_warnings_total", "Events refused after they were accepted, and merges refused, by reason.", []string{"type"}, nil)

// Describe implements prometheus.Collector.
func (w warningMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- warnings }

// Collect implements prometheus.Collector.
func (w warningMetrics) Collect(ch chan<- prometheus.Metric) {
	for typ, n := range w.of.Counts() {
		ch <- prometheus.MustNewConstMetric(warnings, prometheus.CounterValue, float64(n), typ)
	}
}
