package records

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
	elsewhere door = iota // paths that there are not
	events
	mentions
	files
	status
	doors
)

var doorNames = [doors]string{"none", "events", "mentions", "files", "status"}

// verdict is what became of a record.
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
	Accepted, Duplicate, Rejected, Limited, Unkept uint64 // records
}

// stats count what the door does. All labels are of fixed sets, never a client's words.
type stats struct {
	requests *prometheus.CounterVec // door, code
	records  [doors][verdicts]prometheus.Counter
	seconds  [doors]prometheus.Observer

	handled atomic.Uint64
	counts  [verdicts]atomic.Uint64
}

func newStats(to prometheus.Registerer) (*stats, error) {
	s := &stats{requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_windows_requests_total",
		Help: "Requests answered by the door of windows, by door and status code."}, []string{"door", "code"})}
	records := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_windows_door_records_total",
		Help: "Records judged by the door of windows, by door and verdict."}, []string{"door", "verdict"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tidemill_windows_request_seconds",
		Help:    "Time from the header of a request to its answer.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"door"})
	for d := range doors {
		s.seconds[d] = seconds.WithLabelValues(doorNames[d])
		for v := range verdicts {
			if d == events || d == mentions || d == files {
				s.records[d][v] = records.WithLabelValues(doorNames[d], verdictNames[v])
			}
		}
	}
	if to == nil {
		return s, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{s.requests, records, seconds} {
		errs = append(errs, to.Register(c))
	}
	return s, errors.Join(errs...)
}

// record counts n records.
func (s *stats) record(d door, v verdict, n int) {
	if n > 0 {
		s.records[d][v].Add(float64(n))
		s.counts[v].Add(uint64(n))
	}
}

// request counts one that was answered.
func (s *stats) request(d door, code int, took time.Duration) {
	s.requests.WithLabelValues(doorNames[d], strconv.Itoa(code)).Inc()
	s.seconds[d].Observe(took.Seconds())
	s.handled.Add(1)
}

// Handled says what the door has done so far.
func (h *Handler) Handled() Handled {
	n := func(v verdict) uint64 { return h.stats.counts[v].Load() }
	return Handled{h.stats.handled.Load(), n(accepted), n(duplicate), n(rejected), n(limited), n(unkept)}
}
