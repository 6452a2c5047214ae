package analyticsingest

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// What a client speaks, by which its requests and events are counted.
const (
	none = iota // health, stubs, paths that there are not
	native
	postHog
	postHogV1
	segment
	cloudEvents
)

var protocols = []string{"none", "native", "posthog", "posthog_v1", "segment", "cloudevents"}

// Handled is what the endpoint has done since it was made.
type Handled struct {
	Requests uint64 // answered
	Accepted uint64 // events that became durable
	Known    uint64 // events that were durable already
	Refused  uint64 // events that are wrong
	Limited  uint64 // events of projects over their rate or quota
	Unkept   uint64 // events that could not be kept then; their senders were asked to retry
	Bytes    uint64 // of bodies as sent
	Inflated uint64 // of bodies as read
}

// Handled says what the endpoint has done so far.
func (h *Handler) Handled() Handled {
	n := Handled{Requests: h.Requests(), Accepted: h.Items("accepted"), Known: h.Items("known"), Limited: h.Items("rate_limited") + h.Items("quota_limited"),
		Unkept: h.Items("full") + h.Items("failed"), Bytes: h.volume.sent.Load(), Inflated: h.volume.inflated.Load()}
	n.Refused = h.Items("") - n.Accepted - n.Known - n.Limited - n.Unkept
	return n
}

// volume is what bodies had.
type volume struct {
	bytes          *prometheus.CounterVec // protocol, form
	sent, inflated atomic.Uint64
}

func newVolume(to prometheus.Registerer) (*volume, error) {
	v := &volume{bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_ingest_bytes_total", Help: "Bytes of bodies, as sent and inflated."}, []string{"protocol", "form"})}
	if to == nil {
		return v, nil
	}
	return v, to.Register(v.bytes)
}

func (v *volume) add(protocol, sent, inflated int) {
	if sent > 0 {
		v.bytes.WithLabelValues(protocols[protocol], "sent").Add(float64(sent))
		v.bytes.WithLabelValues(protocols[protocol], "inflated").Add(float64(inflated))
		v.sent.Add(uint64(sent))
		v.inflated.Add(uint64(inflated))
	}
}
