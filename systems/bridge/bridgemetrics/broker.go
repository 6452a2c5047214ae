package bridgemetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/internal/mqttbroker"
)

// Broker is a collector of the embedded MQTT broker.
type Broker struct{ stats func() mqttbroker.Stats }

// NewBroker makes the collector of a broker.
func NewBroker(stats func() mqttbroker.Stats) Broker { return Broker{stats} }

var (
	brokerClients  = brokerDesc("clients", "Clients that are connected and logged in.")
	brokerSessions = brokerDesc("sessions", "Sessions, of clients that are away too.")
	brokerWaiting  = brokerDesc("waiting_bytes", "What waits for the acknowledgement of subscribers.")
	brokerRetained = brokerDesc("retained_messages", "Retained messages.")
	brokerKept     = brokerDesc("retained_bytes", "What the retained messages have together.")
	brokerRefused  = brokerDesc("refused_total", "What was refused: connections without a CONNECT in time (late) or with something else first (wrong), messages without room at a subscriber (full), and sessions, subscriptions and retained messages beyond what there may be (over).", "why")
)

func brokerDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tidemill_broker_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c Broker) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c Broker) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	gauge := func(d *prometheus.Desc, n int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	gauge(brokerClients, s.Clients)
	gauge(brokerSessions, s.Sessions)
	gauge(brokerWaiting, s.Waiting)
	gauge(brokerRetained, s.Retained)
	gauge(brokerKept, s.RetainedSize)
	for _, of := range []struct {
		why string
		n   int64
	}{{"late", s.Late}, {"wrong", s.Wrong}, {"full", s.Refused}, {"over", s.Over}} {
		ch <- prometheus.MustNewConstMetric(brokerRefused, prometheus.CounterValue, float64(of.n), of.why)
	}
}
