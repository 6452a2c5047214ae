package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/state/queue"
)

func ofQueue(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tidemill_"+name, help, append([]string{"queue"}, labels...), nil)
}

// What every queue shows, whatever system's it is.
var (
	QueueJobs   = ofQueue("queue_jobs", "Jobs of a queue, by state.", "state")
	QueueOldest = ofQueue("queue_oldest_seconds", "Age of the oldest job that has not ended; 0: there is none.")
	QueuePaused = ofQueue("queue_paused", "1 while a queue is paused, 0 otherwise.")
)

// Queue shows how a queue stands.
func Queue(ch chan<- prometheus.Metric, name string, st *queue.Stats, paused bool) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for state, n := range map[queue.State]int64{queue.Waiting: st.Waiting, queue.Delayed: st.Delayed, queue.Leased: st.Leased, queue.Completed: st.Completed, queue.Failed: st.Failed} {
		gauge(QueueJobs, float64(n), name, string(state))
	}
	age := 0.0
	if !st.Oldest.IsZero() {
		age = max(time.Since(st.Oldest).Seconds(), 0)
	}
	gauge(QueueOldest, age, name)
	gauge(QueuePaused, Truth(paused), name)
}
