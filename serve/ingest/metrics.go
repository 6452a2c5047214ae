package ingest

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// protocol is what a client speaks.
type protocol uint8

const (
	none protocol = iota // health, stubs, paths that there are not
	native
	postHog
	postHogV1
	segment
	cloudEvents
	protocols
)

var protocolNames = [protocols]string{"none", "native", "posthog", "posthog_v1", "segment", "cloudevents"}

func (p protocol) String() string { return protocolNames[p] }

// Handled is what the door has done since it was made.
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

// stats count what the door does. All labels are of fixed sets, never a client's words.
type stats struct {
	requests *prometheus.CounterVec   // protocol, code
	verdicts *prometheus.CounterVec   // protocol, verdict
	bytes    *prometheus.CounterVec   // protocol, form
	seconds  *prometheus.HistogramVec // protocol

	nRequests, nAccepted, nKnown, nRefused, nLimited, nUnkept, nBytes, nInflated atomic.Uint64
}

func newStats(to prometheus.Registerer) (*stats, error) {
	s := &stats{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_ingest_requests_total",
			Help: "Requests answered, by protocol and status code."}, []string{"protocol", "code"}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_ingest_events_total",
			Help: "Events judged, by protocol and verdict: accepted, known, the reason of a refusal, or why they were not kept."}, []string{"protocol", "verdict"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_ingest_bytes_total",
			Help: "Bytes of bodies, as sent and inflated."}, []string{"protocol", "form"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tidemill_ingest_request_seconds",
			Help:    "Time from the header of a request to its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, []string{"protocol"}),
	}
	if to == nil {
		return s, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{s.requests, s.verdicts, s.bytes, s.seconds} {
		errs = append(errs, to.Register(c))
	}
	return s, errors.Join(errs...)
}

// events counts n events under a verdict.
func (s *stats) events(p protocol, verdict string, n int) {
	if n == 0 {
		return
	}
	s.verdicts.WithLabelValues(p.String(), verdict).Add(float64(n))
	total := &s.nRefused
	switch verdict {
	case "accepted":
		total = &s.nAccepted
	case "known":
		total = &s.nKnown
	case "rate_limited", "quota_limited":
		total = &s.nLimited
	case "full", "failed":
		total = &s.nUnkept
	}
	total.Add(uint64(n))
}

// request counts one that was answered.
func (s *stats) request(p protocol, status, sent, inflated int, took time.Duration) {
	s.requests.WithLabelValues(p.String(), strconv.Itoa(status)).Inc()
	s.seconds.WithLabelValues(p.String()).Observe(took.Seconds())
	s.nRequests.Add(1)
	if sent > 0 {
		s.bytes.WithLabelValues(p.String(), "sent").Add(float64(sent))
		s.bytes.WithLabelValues(p.String(), "inflated").Add(float64(inflated))
		s.nBytes.Add(uint64(sent))
		s.nInflated.Add(uint64(inflated))
	}
}

func (s *stats) handled() Handled {
	return Handled{Requests: s.nRequests.Load(), Accepted: s.nAccepted.Load(), Known: s.nKnown.Load(), Refused: s.nRefused.Load(),
		Limited: s.nLimited.Load(), Unkept: s.nUnkept.Load(), Bytes: s.nBytes.Load(), Inflated: s.nInflated.Load()}
}
