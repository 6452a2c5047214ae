package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/internal/sockets"
)

// Sockets is a collector of the connections of listeners. The zero value is ready to use.
type Sockets struct {
	mu  sync.Mutex // guards what follows
	all []listener
}

type listener struct {
	name  string
	stats func() sockets.Stats
}

var (
	socketsOpen    = prometheus.NewDesc("tidemill_connections", "Connections that are open, by the setting that names the listener.", []string{"listener"}, nil)
	socketsClosed  = prometheus.NewDesc("tidemill_connections_closed_total", "Connections that were closed to make room for others, by what they were doing: silent ones had said nothing yet, idle and known ones were between two requests (known: with a key), sending ones had a body without a key on its way.", []string{"listener", "state"}, nil)
	socketsRefused = prometheus.NewDesc("tidemill_connections_refused_total", "Connections that were refused: because their address had too many (address), or because all were at work (all).", []string{"listener", "why"}, nil)
)

// Add adds a listener.
func (c *Sockets) Add(name string, stats func() sockets.Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, listener{name, stats})
}

// Describe implements prometheus.Collector.
func (c *Sockets) Describe(ch chan<- *prometheus.Desc) {
	ch <- socketsOpen
	ch <- socketsClosed
	ch <- socketsRefused
}

// Collect implements prometheus.Collector.
func (c *Sockets) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.all {
		s := l.stats()
		ch <- prometheus.MustNewConstMetric(socketsOpen, prometheus.GaugeValue, float64(s.Open), l.name)
		for state, n := range s.Closed {
			ch <- prometheus.MustNewConstMetric(socketsClosed, prometheus.CounterValue, float64(n), l.name, sockets.Names[state])
		}
		ch <- prometheus.MustNewConstMetric(socketsRefused, prometheus.CounterValue, float64(s.Capped), l.name, "address")
		ch <- prometheus.MustNewConstMetric(socketsRefused, prometheus.CounterValue, float64(s.Refused), l.name, "all")
	}
}
