// Package metrics exposes what runs to Prometheus: the engines' numbers, the durable
// books, and whatever a part registers itself. Labels never come from payloads.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// Engines is a collector of the pipelines of all systems, read when Prometheus asks. The
// zero value has none.
type Engines struct{ systems []Now }

// Now are the pipelines of a system, and their sources' durable books by the pipelines' names.
type Now func() ([]*flow.Engine, map[string]tidemill.Bookkeeper)

// Add adds a system's, before the first reading.
func (c *Engines) Add(now Now) { c.systems = append(c.systems, now) }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tidemill_"+name, help, append([]string{"pipeline"}, labels...), nil)
}

var (
	received = desc("messages_received_total", "Messages handed out by the source, redeliveries included.")
	settled  = desc("messages_settled_total", "Messages ended since the start, by fate.", "fate")
	again    = desc("messages_again_total", "Messages handed back, by why: retried (a try failed), returned (unburnt), left (still pending).", "why")
	stale    = desc("settlements_stale_total", "Settlements that came too late: the lease was lost.")
	failures = desc("failures_total", "Failed messages by kind.", "kind")
	inFlight = desc("messages_in_flight", "Messages held by the engine.")
	buffered = desc("messages_buffered", "Messages held that wait for a lane.")
	running  = desc("pipeline_running", "1 while the pipeline runs, 0 otherwise.")
	breaker  = desc("breaker_open", "1 while the breaker keeps messages back, also those behind a probe, 0 otherwise.")
	errorRow = desc("errors_in_a_row", "Errors of source, dead letters and emits in a row.")
	turned   = desc("turned_timestamp_seconds", "When the pipeline's loop last turned.")
	accepted = desc("books_accepted", "Messages the source ever accepted (durable).")
	booked   = desc("books_settled", "Messages ended ever, by fate (durable).", "fate")
	pending  = desc("books_pending", "Messages waiting, handed out or put off, found by looking.")
	lost     = desc("books_lost", "Messages lost at the source.")
	off      = desc("books_off", "Messages unaccounted for: 0 when the books balance.")
)

// Describe implements prometheus.Collector.
func (c *Engines) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{received, settled, again, stale, failures, inFlight, buffered, running, breaker, errorRow, turned, accepted, booked, pending, lost, off} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Engines) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // for all of them: Prometheus waits 10 s
	defer cancel()
	for _, now := range c.systems {
		engines, books := now()
		for _, e := range engines {
			collect(ctx, ch, e, books[e.Name()])
		}
	}
}

// collect collects one pipeline's; source nil: it has no books.
func collect(ctx context.Context, ch chan<- prometheus.Metric, e *flow.Engine, source tidemill.Bookkeeper) {
	s, name := e.Stats(), e.Name()
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{name}, labels...)...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
	}
	count(received, s.Received)
	fates(s.Settled, func(fate string, n uint64) { count(settled, n, fate) })
	count(again, s.Retried, "retried")
	count(again, s.Returned, "returned")
	count(again, s.Left, "left")
	count(stale, s.Stale)
	for k := tidemill.Validation; k <= tidemill.Unknown; k++ {
		count(failures, s.Failures[k], k.String())
	}
	gauge(inFlight, float64(s.InFlight))
	gauge(buffered, float64(s.Buffered))
	gauge(running, Truth(s.State == flow.Running))
	gauge(breaker, Truth(!s.Until.IsZero() || s.Breaker == policy.HalfOpen && s.InFlight > 0))
	gauge(errorRow, float64(s.Errors))
	if !s.Turned.IsZero() {
		gauge(turned, float64(s.Turned.UnixMilli())/1e3)
	}
	if source == nil {
		return
	}
	books, err := source.Books(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(off, err)
		return
	}
	gauge(accepted, float64(books.Accepted))
	fates(books.Settled, func(fate string, n uint64) { gauge(booked, float64(n), fate) })
	gauge(pending, float64(books.Pending))
	gauge(lost, float64(books.Lost))
	gauge(off, float64(books.Off()))
}

func fates(c tidemill.Count, each func(string, uint64)) {
	each(tidemill.Delivered.String(), c.Delivered)
	each(tidemill.Skipped.String(), c.Skipped)
	each(tidemill.Dead.String(), c.Dead)
}

// Truth is 1 or 0.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
