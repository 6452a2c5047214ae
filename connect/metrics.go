package connect

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tidemill/tidemill/systems/analytics"
)

// newRegistry has what every process shows.
func newRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemill_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// stageMetrics count what the stages of a pipeline do.
type stageMetrics struct {
	took     *prometheus.HistogramVec
	messages *prometheus.CounterVec
	errors   *prometheus.CounterVec
}

func newStageMetrics(r prometheus.Registerer) *stageMetrics {
	s := &stageMetrics{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tidemill_stage_seconds", Help: "Time of one call of a stage over a batch.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}, []string{"stage"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_stage_messages_total", Help: "Messages that stages worked on."}, []string{"stage"}),
		errors:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_stage_errors_total", Help: "Calls of stages that failed."}, []string{"stage"}),
	}
	r.MustRegister(s.took, s.messages, s.errors)
	return s
}

func (s *stageMetrics) observe(stage string, messages int, took time.Duration, err error) {
	s.took.WithLabelValues(stage).Observe(took.Seconds())
	s.messages.WithLabelValues(stage).Add(float64(messages))
	if err != nil {
		s.errors.WithLabelValues(stage).Inc()
	}
}

// warningMetrics count the warnings by type: what was refused behind the door, merges too.
type warningMetrics struct{ of *analytics.Warnings }

var warnings = prometheus.NewDesc("tidemill_warnings_total", "Events refused behind the door and merges refused, by reason.", []string{"type"}, nil)

// Describe implements prometheus.Collector.
func (w warningMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- warnings }

// Collect implements prometheus.Collector.
func (w warningMetrics) Collect(ch chan<- prometheus.Metric) {
	for typ, n := range w.of.Counts() {
		ch <- prometheus.MustNewConstMetric(warnings, prometheus.CounterValue, float64(n), typ)
	}
}
