// Package deliverymetrics shows partners and their queues to Prometheus.
package deliverymetrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
)

// Collector is a collector of queues and partners, read when Prometheus asks.
type Collector struct {
	system *delivery.System
	queues queue.Store
}

// New makes the collector.
func New(s *delivery.System, q queue.Store) *Collector { return &Collector{s, q} }

func ofPartner(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tidemill_"+name, help, []string{"partner"}, nil)
}

var (
	partnerOpen    = ofPartner("partner_circuit_open", "1 while a partner is left alone, 0.5 while it is tried, 0 otherwise.")
	partnerSuccess = ofPartner("partner_success_ratio", "Requests of the last five minutes that a partner answered as a healthy one does.")
	partnerP50     = ofPartner("partner_latency_p50_seconds", "Median time of its answers in the last five minutes.")
	partnerP99     = ofPartner("partner_latency_p99_seconds", "99th percentile of the time of its answers in the last five minutes.")
	partnerDead    = ofPartner("partner_dead_letters", "Dead letters of a partner.")
	partnerFull    = ofPartner("partner_queue_full", "1 while a partner's queue holds as many jobs as it may, 0 otherwise.")
	partnerLimit   = ofPartner("partner_queue_limit", "Jobs that may wait in a partner's queue.")
	partnerParked  = ofPartner("partner_parked_jobs", "Jobs that found no room in a partner's queue and wait beside it.")
	partnerOff     = ofPartner("partner_off", "1 while a partner is switched off because it failed for too long, 0 otherwise.")
	partnerDropped = ofPartner("partner_dropped_total", "Oldest jobs that this process removed from a partner's full queue.")
	partnerExpired = ofPartner("partner_expired_total", "Jobs that this process ended because they were older than the partner allows.")
	partnerLast    = ofPartner("partner_last_success_timestamp_seconds", "When a partner last took something from this process.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{metrics.QueueJobs, metrics.QueueOldest, metrics.QueuePaused, partnerOpen, partnerSuccess, partnerP50, partnerP99, partnerDead, partnerLast, partnerFull, partnerLimit, partnerParked, partnerOff, partnerDropped, partnerExpired} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	all, err := c.system.Partners(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(partnerOpen, err)
	}
	for i := range all {
		p := &all[i]
		metrics.Queue(ch, delivery.QueueOf(p.Partner), &p.Jobs, p.Held)
		gauge(partnerOpen, map[policy.State]float64{policy.Open: 1, policy.HalfOpen: .5}[p.Circuit], p.Partner)
		if p.SuccessRate >= 0 {
			gauge(partnerSuccess, p.SuccessRate, p.Partner)
			gauge(partnerP50, p.P50.Seconds(), p.Partner)
			gauge(partnerP99, p.P99.Seconds(), p.Partner)
		}
		gauge(partnerDead, float64(p.Dead), p.Partner)
		gauge(partnerFull, metrics.Truth(p.Full()), p.Partner)
		gauge(partnerLimit, float64(p.Limit), p.Partner)
		gauge(partnerParked, float64(p.ParkedJobs()), p.Partner)
		gauge(partnerOff, metrics.Truth(!p.Off.IsZero()), p.Partner)
		ch <- prometheus.MustNewConstMetric(partnerDropped, prometheus.CounterValue, float64(p.Dropped), p.Partner)
		ch <- prometheus.MustNewConstMetric(partnerExpired, prometheus.CounterValue, float64(p.Expired), p.Partner)
		if !p.LastSuccessAt.IsZero() {
			gauge(partnerLast, float64(p.LastSuccessAt.UnixMilli())/1e3, p.Partner)
		}
	}
	for _, name := range delivery.EventQueues() {
		st, err := c.queues.Stats(ctx, name)
		if err != nil {
			ch <- prometheus.NewInvalidMetric(metrics.QueueJobs, err)
			return
		}
		set, err := c.queues.Settings(ctx, name)
		if err != nil {
			ch <- prometheus.NewInvalidMetric(metrics.QueuePaused, err)
			return
		}
		metrics.Queue(ch, name, &st, set.Paused)
	}
}
