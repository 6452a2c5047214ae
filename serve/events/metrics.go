package events

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// door is a way in.
type door uint8

const (
	elsewhere door = iota // paths that there are not, status, schemas
	api
	collect
	pixel
	convert
	doors
)

var doorNames = [doors]string{"none", "events", "collect", "pixel", "convert"}

// verdict is what became of an event.
type verdict uint8

const (
	accepted verdict = iota
	duplicate
	rejected
	repeated // of a request that was answered before
	limited
	unkept // it could not be kept then; its sender was asked to retry
	verdicts
)

var verdictNames = [verdicts]string{"accepted", "duplicate", "rejected", "repeated", "limited", "unkept"}

// Handled is what the door has done since it was made.
type Handled struct {
	Requests                                                 uint64 // answered
	Accepted, Duplicate, Rejected, Repeated, Limited, Unkept uint64 // events
}

// stats count what the door does. All labels are of fixed sets, never a client's words.
type stats struct {
	requests *prometheus.CounterVec // door, code
	usual    [doors]prometheus.Counter
	events   [doors][verdicts]prometheus.Counter
	seconds  [doors]prometheus.Observer

	handled atomic.Uint64
	counts  [verdicts]atomic.Uint64
}

// usualStatus is what nearly every request is answered.
const usualStatus = 202

func newStats(to prometheus.Registerer) (*stats, error) {
	s := &stats{requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_events_requests_total",
		Help: "Requests answered by the door of delivery, by door and status code."}, []string{"door", "code"})}
	events := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_events_total",
		Help: "Events judged by the door of delivery, by door and verdict."}, []string{"door", "verdict"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tidemill_events_request_seconds",
		Help:    "Time from the header of a request to its answer.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, []string{"door"})
	for d := range doors {
		for v := range verdicts {
			s.events[d][v] = events.WithLabelValues(doorNames[d], verdictNames[v])
		}
		s.seconds[d] = seconds.WithLabelValues(doorNames[d])
		s.usual[d] = s.requests.WithLabelValues(doorNames[d], strconv.Itoa(usualStatus))
	}
	if to == nil {
		return s, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{s.requests, events, seconds} {
		errs = append(errs, to.Register(c))
	}
	return s, errors.Join(errs...)
}

// event counts n events.
func (s *stats) event(d door, v verdict, n int) {
	if n > 0 {
		s.events[d][v].Add(float64(n))
		s.counts[v].Add(uint64(n))
	}
}

// request counts one that was answered.
func (s *stats) request(d door, status int, took time.Duration) {
	if status == usualStatus {
		s.usual[d].Inc()
	} else {
		s.requests.WithLabelValues(doorNames[d], strconv.Itoa(status)).Inc()
	}
	s.seconds[d].Observe(took.Seconds())
	s.handled.Add(1)
}

// Handled says what the door has done so far.
func (h *Handler) Handled() Handled {
	n := func(v verdict) uint64 { return h.stats.counts[v].Load() }
	return Handled{h.stats.handled.Load(), n(accepted), n(duplicate), n(rejected), n(repeated), n(limited), n(unkept)}
}
