// Package crmmetrics shows CRM to Prometheus.
package crmmetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/flow/once"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

// Collector is a collector of the CRM system, under the names that its dashboards and alerts know.
// What has ended is counted as it ends; how the system stands is asked when Prometheus does:
//
//	c := crmmetrics.New()
//	sys, err := crm.New(parts, crm.Options{Finished: c.Finished})
//	c.Watch(sys)
//	registry.MustRegister(c)
//
// Types of events are told apart as far as crm.System.Label does: whoever sends events
// makes no series by it.
type Collector struct {
	system *crm.System

	processed, failed *prometheus.CounterVec
	duration          *prometheus.HistogramVec
	skipped, replayed *prometheus.CounterVec
	created           prometheus.Counter
	counted           []prometheus.Collector // all of the above

	labels sync.Map // those of types that were met, as keys
	state  metrics.Glance[crm.State]
}

var (
	crmDepth    = prometheus.NewDesc("crm_event_queue_depth", "Jobs that wait in a queue, those put off included; of the dead letter queue: its letters.", []string{"queue"}, nil)
	crmMatched  = prometheus.NewDesc("crm_identity_resolution_rate", "Percentage (0 to 100) of this instance's events of the last five minutes that met a profile which was there; left out where there were none.", nil, nil)
	crmDead     = prometheus.NewDesc("crm_dlq_depth", "Dead letters.", nil, nil)
	crmWaiting  = prometheus.NewDesc("tidemill_crm_waiting_jobs", "Jobs that are due, by priority.", []string{"priority"}, nil)
	crmExpired  = prometheus.NewDesc("tidemill_crm_dead_letters_expired_total", "Dead letters that this instance deleted for their age.", nil, nil)
	crmDraining = prometheus.NewDesc("tidemill_crm_draining", "1 while the queue takes no new events, 0 otherwise.", nil, nil)
)

// New makes the collector.
func New() *Collector {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	c := &Collector{
		processed: counter("crm_events_processed_total", "Attempts of events that have ended, by how: completed, skipped, failed.", "type", "status"),
		failed:    counter("crm_events_failed_total", "Attempts of events that failed.", "type"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "crm_event_processing_duration_seconds",
			Help:    "How long an attempt took: identity and handler, of all events of one call together.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10}}, []string{"type"}),
		skipped:  counter("tidemill_crm_skipped_total", "Events that were skipped, by why.", "reason"),
		replayed: counter("tidemill_crm_replayed_total", "Attempts that a replay asked for, by how they ended.", "status"),
		created:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemill_crm_profiles_created_total", Help: "Profiles that were made for an event."}),
	}
	c.counted = []prometheus.Collector{c.processed, c.failed, c.duration, c.skipped, c.replayed, c.created}
	// Alerts compare sums: these are there, and 0, before the first event is.
	c.meet(crm.Other)
	for _, reason := range []string{once.Duplicate, crm.NoHandler, crm.ReplayStopped} {
		c.skipped.WithLabelValues(reason)
	}
	for _, status := range statuses {
		c.replayed.WithLabelValues(string(status))
	}
	return c
}

var statuses = []crm.Status{crm.Completed, crm.Skipped, crm.Failed}

// meet begins the series of a type at 0, so that its first failure is seen as a growth.
func (c *Collector) meet(label string) {
	if _, met := c.labels.LoadOrStore(label, true); met {
		return
	}
	for _, status := range statuses {
		c.processed.WithLabelValues(label, string(status))
	}
	c.failed.WithLabelValues(label)
	c.duration.WithLabelValues(label)
}

// Finished counts an attempt: it is the system's option of that name. Many may call it at once.
func (c *Collector) Finished(a crm.Attempt) {
	c.meet(a.Label)
	c.processed.WithLabelValues(a.Label, string(a.Status)).Inc()
	c.duration.WithLabelValues(a.Label).Observe(a.Took.Seconds())
	switch a.Status {
	case crm.Failed:
		c.failed.WithLabelValues(a.Label).Inc()
	case crm.Skipped:
		reason := a.Reason
		if reason != once.Duplicate && reason != crm.NoHandler && reason != crm.ReplayStopped {
			reason = crm.Other
		}
		c.skipped.WithLabelValues(reason).Inc()
	}
	if a.Replay != "" {
		c.replayed.WithLabelValues(string(a.Status)).Inc()
	}
	if a.New {
		c.created.Inc()
	}
}

// Watch says whose state is to be shown, before the first reading. Without it there is what
// Finished was told, and nothing else.
func (c *Collector) Watch(s *crm.System) { c.system = s }

// Describe implements prometheus.Collector. The three metrics of its queue that delivery has
// of its own are not described: they are of both, and one registry takes each from one only.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.counted {
		m.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{crmDepth, crmMatched, crmDead, crmWaiting, crmExpired, crmDraining} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.counted {
		m.Collect(ch)
	}
	if c.system == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if percent, ok := c.system.Matched(); ok {
		gauge(crmMatched, percent)
	}
	st, err := c.state.Look(c.system.Look)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(crmDepth, err)
		return
	}
	gauge(crmDepth, float64(st.Waiting()), crm.Queue)
	gauge(crmDepth, float64(st.Dead), crm.DeadQueue)
	gauge(crmDead, float64(st.Dead))
	gauge(crmDraining, metrics.Truth(st.Closed))
	ch <- prometheus.MustNewConstMetric(crmExpired, prometheus.CounterValue, float64(st.Expired))
	for _, p := range []struct {
		level uint8
		name  string
	}{{priority.High, "high"}, {priority.Normal, "normal"}, {priority.Low, "low"}, {priority.Replay, "replay"}} {
		waiting := int64(0)
		for _, d := range st.Depths {
			if d.Priority == p.level {
				waiting += d.Waiting
			}
		}
		gauge(crmWaiting, float64(waiting), p.name)
	}
	metrics.Queue(ch, crm.Queue, &st.Jobs, st.Paused)
}
