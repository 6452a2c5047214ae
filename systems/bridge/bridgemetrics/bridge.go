// Package bridgemetrics shows the bridge and its embedded broker to Prometheus.
package bridgemetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/systems/bridge"
)

// Parts are what a bridge's metrics are read from. Bridge is required.
type Parts struct {
	Bridge  *bridge.Bridge
	Prefix  string // of every name, without the last _
	Dropped string // the drop policy
	Reports func() Reports
	Load    func() (cpu, mem float64)      // percent; nil: not measured
	Used    func() float64                 // percent of the buffer, as it was last looked at; nil: now
	Pending func() (pending, lost float64) // of the group, as it was last looked at; nil: not looked at
}

// Reports counts what the source says of itself.
type Reports struct{ Claimed, Drained, Removed, Errors uint64 }

// Collector is a collector of a bridge's metrics under the names that its users know.
type Collector struct {
	p     Parts
	descs map[string]*prometheus.Desc
	order []*prometheus.Desc
}

// New makes the collector.
func New(p Parts) *Collector {
	c := &Collector{p: p, descs: map[string]*prometheus.Desc{}}
	for _, d := range []struct {
		name, help string
		labels     []string
	}{
		{"messages_received_total", "Entries handed out by the stream, those that came again included.", nil},
		{"messages_published_total", "Messages that the MQTT broker has acknowledged, repetitions included.", nil},
		{"messages_acked_total", "Entries acknowledged and deleted in the stream: by the receiver's ack, or by the broker's where there is no topic of acks.", nil},
		{"messages_nacked_total", "Negative acks of receivers.", nil},
		{"unknown_acks_total", "Acks of entries that are not pending: acked before, or never handed out.", nil},
		{"invalid_acks_total", "Payloads on the topic of acks that are no acks.", nil},
		{"messages_dropped_total", "Entries dropped, by place: buffer (by the drop policy), dead_letters (tries are used up and dead letters are off). They stay pending and come again.", []string{"policy", "place"}},
		{"backpressure_drops_total", "Entries dropped because the buffer was at its threshold.", nil},
		{"messages_dead_total", "Entries published to the topic of the dead, and deleted in the stream.", nil},
		{"messages_claimed_total", "Entries taken over from consumers that went away, or published and not acked in time.", nil},
		{"messages_drained_total", "Entries found in the stream that were neither new nor pending for anybody.", nil},
		{"consumers_removed_total", "Idle consumers removed from the group.", nil},
		{"processing_errors_total", "Messages whose processing failed, by kind.", []string{"kind"}},
		{"redis_errors_total", "Calls of the stream that failed.", nil},
		{"mqtt_errors_total", "Messages and calls that the MQTT broker or the way to it failed.", nil},
		{"buffer_utilization_percent", "Part of the buffer in use.", nil},
		{"active_workers", "Workers that messages are dealt to.", nil},
		{"queue_depth", "Messages in memory that wait for a worker.", nil},
		{"unanswered_entries", "Entries published three times or more whose ack has not come.", nil},
		{"awaiting_acks", "Messages published whose ack has not come yet, as far as this process knows.", nil},
		{"messages_pending", "Entries of the stream that have not ended: waiting, handed out, or put off.", nil},
		{"messages_lost", "Entries that were deleted or trimmed at the stream before they ended.", nil},
		{"memory_percent", "Part of the memory that the process uses.", nil},
		{"cpu_percent", "Part of the processors that the process uses.", nil},
		{"state", "1 for the state that the bridge is in.", []string{"state"}},
		{"processing_seconds", "How long a batch took to be framed and published, for each message.", nil},
		{"publish_latency_seconds", "From sending a message until the broker acknowledged it.", nil},
		{"ack_latency_seconds", "From publishing a message until the receiver's ack was applied.", nil},
	} {
		c.descs[d.name] = prometheus.NewDesc(p.Prefix+"_"+d.name, d.help, d.labels, nil)
		c.order = append(c.order, c.descs[d.name])
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.order {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s, e := c.p.Bridge.Stats(), c.p.Bridge.Pipeline.Stats()
	count := func(name string, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, v, labels...)
	}
	histogram := func(name string, h bridge.Histogram) {
		buckets := make(map[float64]uint64, len(h.Bounds))
		for i, b := range h.Bounds {
			buckets[b] = h.Counts[i]
		}
		ch <- prometheus.MustNewConstHistogram(c.descs[name], h.Count, h.Sum, buckets)
	}
	count("messages_received_total", e.Received)
	count("messages_published_total", s.Published)
	count("messages_acked_total", s.Acked)
	count("messages_nacked_total", s.Refused)
	count("unknown_acks_total", s.Unknown)
	count("invalid_acks_total", s.Garbage)
	count("messages_dropped_total", e.Shed, c.p.Dropped, "buffer")
	count("messages_dropped_total", s.Dropped, "none", "dead_letters")
	count("backpressure_drops_total", e.Shed)
	count("messages_dead_total", s.Dead)
	for k := tidemill.Validation; k <= tidemill.Unknown; k++ {
		count("processing_errors_total", e.Failures[k], k.String())
	}
	count("mqtt_errors_total", s.Errors)
	var r Reports
	if c.p.Reports != nil {
		r = c.p.Reports()
	}
	count("messages_claimed_total", r.Claimed)
	count("messages_drained_total", r.Drained)
	count("consumers_removed_total", r.Removed)
	count("redis_errors_total", r.Errors)
	if c.p.Used != nil {
		gauge("buffer_utilization_percent", c.p.Used())
	} else {
		gauge("buffer_utilization_percent", c.p.Bridge.Utilization())
	}
	gauge("active_workers", float64(e.Workers))
	gauge("queue_depth", float64(e.Buffered))
	gauge("unanswered_entries", float64(s.Unanswered.Entries))
	gauge("awaiting_acks", float64(e.Awaited))
	if c.p.Pending != nil {
		pending, lost := c.p.Pending()
		gauge("messages_pending", pending)
		gauge("messages_lost", lost)
	}
	if c.p.Load != nil {
		cpu, mem := c.p.Load()
		gauge("cpu_percent", cpu)
		gauge("memory_percent", mem)
	}
	for _, st := range []flow.State{flow.Idle, flow.Running, flow.Paused, flow.Stopping, flow.Stopped} {
		gauge("state", metrics.Truth(e.State == st), st.String())
	}
	histogram("processing_seconds", s.Processing)
	histogram("publish_latency_seconds", s.Publishing)
	histogram("ack_latency_seconds", s.Acking)
}
