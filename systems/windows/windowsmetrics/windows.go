// Package windowsmetrics shows windows, their processors and their files to Prometheus.
package windowsmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
)

// Collector is a collector of the windows system, read when Prometheus asks: how many windows
// and records there are in each state and how old the oldest is, and what each processor has
// done with records. Ages are by the store's clock. What is counted of all windows is the same
// at every instance that shares the store; what this instance has done is its own.
type Collector struct {
	system *windows.System
	stats  metrics.Glance[windows.Stats]
}

// New makes the collector.
func New(s *windows.System) *Collector { return &Collector{system: s} }

func ofState(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tidemill_windows"+name, help, []string{"state"}, nil)
}

func ofProcessor(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tidemill_windows_processor_"+name, help, []string{"processor"}, nil)
}

var (
	windowsCount   = ofState("", "Windows, by state: active ones collect, ready ones wait for their delivery, leased ones are delivered, parked ones are dead until they are replayed.")
	windowsRecords = ofState("_records", "Records of windows, by the state of their window.")
	windowsOldest  = ofState("_oldest_seconds", "Age of the oldest window, since its first record, by state; 0: there is none.")
	windowsLost    = prometheus.NewDesc("tidemill_windows_lost_records_total", "Records that were found missing in their window's store, and are booked as dead.", nil, nil)
	windowsClosed  = prometheus.NewDesc("tidemill_windows_closed_total", "Windows that this instance has closed because their time was over or all of their records had come.", nil, nil)

	processorRecords = ofProcessor("records_total", "Records that were shown to a processor, those of repeated tries included; read is the reading of stored records.")
	processorSkipped = ofProcessor("skipped_total", "Records that a processor has skipped.")
	processorDead    = ofProcessor("dead_total", "Records that died of a processor: it refused them, or failed.")
	processorFailed  = ofProcessor("failed_total", "Records that a processor failed at; what that means is its setting.")
	processorSeconds = ofProcessor("seconds_total", "Time spent in a processor.")
)

// NewIndexOverflow makes the counter of documents that share an index since the new ones of an
// hour are used up.
func NewIndexOverflow(count func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "tidemill_windows_index_overflow_total",
		Help: "Documents of kept days that this instance put into a common index, since the new indices of the hour were used up."},
		func() float64 { return float64(count()) })
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{windowsCount, windowsRecords, windowsOldest, windowsLost, windowsClosed,
		processorRecords, processorSkipped, processorDead, processorFailed, processorSeconds} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Processors are shown also while the store is away.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for _, p := range c.system.Processors() {
		count(processorRecords, float64(p.Records), p.Processor)
		count(processorSkipped, float64(p.Skipped), p.Processor)
		count(processorDead, float64(p.Dead), p.Processor)
		count(processorFailed, float64(p.Failed), p.Processor)
		count(processorSeconds, p.Took.Seconds(), p.Processor)
	}
	st, err := c.stats.Look(c.system.Stats)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(windowsCount, err)
		return
	}
	count(windowsLost, float64(st.Lost))
	count(windowsClosed, float64(st.Closed))
	for _, state := range window.States() {
		d, age := st.Of(state), 0.0
		if !d.Oldest.IsZero() {
			age = max(st.Now.Sub(d.Oldest).Seconds(), 0)
		}
		gauge(windowsCount, float64(d.Windows), string(state))
		gauge(windowsRecords, float64(d.Records), string(state))
		gauge(windowsOldest, age, string(state))
	}
}
