package crm

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/systems/crm/accept"
)

// verdict is what became of an event.
type verdict uint8

const (
	accepted verdict = iota
	duplicate
	rejected
	limited
	unkept // it could not be kept then; its sender was asked to retry
	verdicts
)

var verdictNames = [verdicts]string{"accepted", "duplicate", "rejected", "limited", "unkept"}

// Handled is what the door has done since it was made.
type Handled struct {
	Requests                                       uint64 // answered
	Accepted, Duplicate, Rejected, Limited, Unkept uint64 // events
}

// stats count what the door does. All labels are of fixed sets, never a client's words.
type stats struct {
	requests *prometheus.CounterVec // code
	events   [verdicts]prometheus.Counter
	seconds  prometheus.Histogram

	handled atomic.Uint64
	counts  [verdicts]atomic.Uint64
}

func newStats(to prometheus.Registerer) (*stats, error) {
	s := &stats{requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_crm_requests_total",
		Help: "Requests answered by the door of CRM, by status code."}, []string{"code"})}
	events := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_crm_door_events_total",
		Help: "Events judged by the door of CRM, by verdict."}, []string{"verdict"})
	s.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tidemill_crm_request_seconds",
		Help:    "Time from the header of a request to its answer.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}})
	for v := range verdicts {
		s.events[v] = events.WithLabelValues(verdictNames[v])
	}
	if to == nil {
		return s, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{s.requests, events, s.seconds} {
		errs = append(errs, to.Register(c))
	}
	return s, errors.Join(errs...)
}

// event counts n events.
func (s *stats) event(v verdict, n int) {
	if n > 0 {
		s.events[v].Add(float64(n))
		s.counts[v].Add(uint64(n))
	}
}

// results counts events that were judged.
func (s *stats) results(all []accept.Result) {
	var n [verdicts]int
	for i := range all {
		switch all[i].Status {
		case accept.Accepted:
			n[accepted]++
		case accept.Duplicate:
			n[duplicate]++
		default:
			n[rejected]++
		}
	}
	for v := range verdicts {
		s.event(v, n[v])
	}
}

// request counts one that was answered.
func (s *stats) request(status int, took time.Duration) {
	s.requests.WithLabelValues(strconv.Itoa(status)).Inc()
	s.seconds.Observe(took.Seconds())
	s.handled.Add(1)
}

// Handled says what the door has done so far.
func (h *Handler) Handled() Handled {
	n := func(v verdict) uint64 { return h.stats.counts[v].Load() }
	return Handled{h.stats.handled.Load(), n(accepted), n(duplicate), n(rejected), n(limited), n(unkept)}
}
