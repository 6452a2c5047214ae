package connect

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
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
	errors := s.errors.WithLabelValues(stage) // there from the start: a rate sees the first error
	if err != nil {
		errors.Inc()
	}
}
