package endpoint

import (
	"errors"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics name what an endpoint counts. All labels are of fixed sets, never a client's words.
// A name that is empty is not counted.
type Metrics struct {
	Requests, RequestsHelp string // of answers, by path and code
	Items, ItemsHelp       string // of events or records, by path and verdict
	Seconds                string // of requests, by path
	Buckets                []float64

	Label    string   // the path's; empty: there is none, and one path
	Paths    []string // values of the label
	Verdicts []string // that are shown from the start on
	Quiet    int      // how many of Paths, from the first, never have items
	Usual    int      // the code that is shown from the start on; 0: none
}

// Buckets are those of the seconds that most requests take.
func Buckets(more ...float64) []float64 {
	return append([]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, more...)
}

// what is counted: a code or a verdict, of a path.
type what struct {
	path    int
	code    int
	verdict string
}

// counter is one that can be asked.
type counter struct {
	prometheus.Counter
	n atomic.Uint64
}

func (c *counter) add(n int) {
	c.Add(float64(n))
	c.n.Add(uint64(n))
}

// counters are those of a vector. Finding one that was used before takes no memory.
type counters struct {
	vec  *prometheus.CounterVec
	path func(int) []string // values of the label

	mu    sync.Mutex // guards writing known
	known atomic.Pointer[map[what]*counter]
}

func (c *counters) of(w what) *counter {
	if n := (*c.known.Load())[w]; n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(*c.known.Load())
	if all[w] == nil {
		value := w.verdict
		if w.code > 0 || value == "" {
			value = strconv.Itoa(w.code)
		}
		all[w] = &counter{Counter: c.vec.WithLabelValues(append(c.path(w.path), value)...)}
		c.known.Store(&all)
	}
	return all[w]
}

// total is how many there are of a verdict, in all paths; empty: of all.
func (c *counters) total(verdict string) (n uint64) {
	for w, k := range *c.known.Load() {
		if verdict == "" || w.verdict == verdict {
			n += k.n.Load()
		}
	}
	return n
}

// stats count what an endpoint does.
type stats struct {
	requests, items *counters
	seconds         []prometheus.Observer // by path
}

func newStats(m *Metrics, to prometheus.Registerer) (*stats, error) {
	paths, labels := m.Paths, []string{m.Label}
	value := func(path int) []string { return []string{m.Paths[path]} }
	if m.Label == "" {
		paths, labels = []string{""}, nil
		value = func(int) []string { return nil }
	}
	vector := func(name, help, label string) *counters {
		c := &counters{vec: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels[:len(labels):len(labels)], label)), path: value}
		c.known.Store(&map[what]*counter{})
		return c
	}
	s := &stats{requests: vector(m.Requests, m.RequestsHelp, "code"), items: vector(m.Items, m.ItemsHelp, "verdict")}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Seconds, Help: "Time from the header of a request to its answer.", Buckets: m.Buckets}, labels)
	for path := range paths {
		s.seconds = append(s.seconds, seconds.WithLabelValues(value(path)...))
		if m.Usual != 0 {
			s.requests.of(what{path: path, code: m.Usual})
		}
		for _, v := range m.Verdicts {
			if path >= m.Quiet {
				s.items.of(what{path: path, verdict: v})
			}
		}
	}
	if to == nil || m.Requests == "" {
		return s, nil
	}
	if err := errors.Join(to.Register(s.requests.vec), to.Register(s.items.vec), to.Register(seconds)); err != nil {
		return nil, errors.Join(errors.New("register metrics"), err)
	}
	return s, nil
}

func (s *stats) answered(path, code int, took time.Duration) {
	s.requests.of(what{path: path, code: code}).add(1)
	s.seconds[path].Observe(took.Seconds())
}

// Count notes what became of n items of a path, which came in no request.
func (c *core) Count(path int, verdict string, n int) {
	if c.count(path, verdict, n); n > 0 && c.watched() {
		c.o.Watch.Came(c.system, "", verdict, n, "")
	}
}

func (c *core) count(path int, verdict string, n int) {
	if n > 0 {
		c.stats.items.of(what{path: path, verdict: verdict}).add(n)
	}
}

// Requests is how many were answered.
func (c *core) Requests() uint64 { return c.stats.requests.total("") }

// Items is how many there were with a verdict; empty: in all.
func (c *core) Items(verdict string) uint64 { return c.stats.items.total(verdict) }
