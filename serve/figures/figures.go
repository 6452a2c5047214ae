// Package figures keeps in memory how things that are counted went: for an hour in steps of 10
// seconds, and for a day in steps of 5 minutes. Latest is beside it: a value that takes its time to
// be read, for however many ask.
//
//	f := figures.New()
//	f.Sample(now, map[string]figures.Count{"queue:orders": {In: 812, Out: 800}})
//	points, ok := f.History("queue:orders", figures.Hour)
package figures

import (
	"math"
	"slices"
	"sync"
	"time"
)

// What is kept. A series takes 16 bytes a step: all together at most 16 MB.
const (
	Step     = 10 * time.Second // of an hour
	LongStep = 5 * time.Minute  // of a day
	Most     = 1500             // series; what comes later is left out
)

// Count is how much was counted ever, as a store has it.
type Count struct {
	In, Out, Failed uint64
	Oldest          time.Duration // age of the oldest that has not ended; 0: there is none, or it is not known
}

// Span is how far back a history goes.
type Span uint8

// The spans.
const (
	Hour Span = iota
	Day
)

// Point is what was counted in a step.
type Point struct {
	At              time.Time // when the step began
	In, Out, Failed uint32
	Oldest          time.Duration // the greatest age in it
}

// Rates are averages for a second, of the last minute.
type Rates struct{ In, Out, Failed float64 }

// Store keeps series by name. Its clock is that of the samples.
type Store struct {
	mu      sync.Mutex // guards what follows
	series  map[string]*series
	since   time.Time
	leftOut int
}

// New makes a store that knows nothing yet.
func New() *Store { return &Store{series: map[string]*series{}} }

// series is what is kept of one name.
type series struct {
	was   Count
	at    time.Time // of the last sample
	since time.Time
	hour  ring
	day   ring
}

// ring has the newest steps.
type ring struct {
	step   time.Duration
	last   int64 // number of the newest step
	points []point
}

// point is a Point in 16 bytes.
type point struct{ in, out, failed, age uint32 } // age in ms, and one more; 0: nothing is known of this step

// gapMost is how many steps may pass between two samples: what was counted is shared out among them.
// Of longer ones nothing is known.
const gapMost = 6

// Sample takes what is counted now. A name that it sees first, or that counts less than before, has
// rates from the next sample on. One that has not come for a day is forgotten.
func (s *Store) Sample(at time.Time, counts map[string]Count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = at
	}
	for name, one := range s.series {
		if _, ok := counts[name]; !ok && at.Sub(one.at) > 24*time.Hour {
			delete(s.series, name)
		}
	}
	s.leftOut = 0
	for name, c := range counts {
		one := s.series[name]
		switch {
		case one != nil:
			one.sample(at, c)
		case len(s.series) >= Most:
			s.leftOut++
		default:
			s.series[name] = &series{was: c, at: at, since: at, hour: newRing(time.Hour, Step), day: newRing(24*time.Hour, LongStep)}
		}
	}
}

func newRing(span, step time.Duration) ring {
	return ring{step: step, points: make([]point, span/step)}
}

// slot is the number of the step that a time is in.
func (r *ring) slot(at time.Time) int64 { return at.UnixNano() / int64(r.step) }

// sample shares what was counted since the last sample among the steps since then.
func (s *series) sample(at time.Time, c Count) {
	was, from := s.was, s.hour.slot(s.at)
	to := s.hour.slot(at)
	if !at.After(s.at) {
		return
	}
	s.was, s.at = c, at
	if c.In < was.In || c.Out < was.Out || c.Failed < was.Failed || to-from > gapMost {
		s.hour.move(to)
		s.day.move(s.day.slot(at))
		return
	}
	age := fit(uint64(max(c.Oldest, 0).Milliseconds()) + 1)
	all := Count{In: c.In - was.In, Out: c.Out - was.Out, Failed: c.Failed - was.Failed}
	first := min(from+1, to) // several samples in one step are added up
	for n, slot := uint64(to-first+1), first; slot <= to; slot, n = slot+1, n-1 {
		p := point{fit(all.In / n), fit(all.Out / n), fit(all.Failed / n), age}
		s.hour.add(slot, p)
		s.day.add(slot*int64(Step)/int64(LongStep), p)
		all.In, all.Out, all.Failed = all.In-all.In/n, all.Out-all.Out/n, all.Failed-all.Failed/n
	}
}

// fit is a number in 32 bits, the greatest one where it is greater.
func fit(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }

// move makes a step the newest: nothing is known of those between.
func (r *ring) move(slot int64) {
	for n := min(slot-r.last, int64(len(r.points))); n > 0; n-- {
		r.points[(slot-n+1)%int64(len(r.points))] = point{}
	}
	r.last = max(slot, r.last)
}

func (r *ring) add(slot int64, p point) {
	r.move(slot)
	to := &r.points[slot%int64(len(r.points))]
	to.in, to.out, to.failed = fit(uint64(to.in)+uint64(p.in)), fit(uint64(to.out)+uint64(p.out)), fit(uint64(to.failed)+uint64(p.failed))
	to.age = max(to.age, p.age)
}

// known are the steps of which something is known, the oldest first, at most the newest n.
func (r *ring) known(n int) (all []Point) {
	for slot := r.last - int64(min(n, len(r.points))) + 1; slot <= r.last; slot++ {
		if slot < 0 {
			continue
		}
		if p := r.points[slot%int64(len(r.points))]; p.age > 0 {
			all = append(all, Point{time.Unix(0, slot*int64(r.step)).UTC(), p.in, p.out, p.failed, time.Duration(p.age-1) * time.Millisecond})
		}
	}
	return all
}

// History are the steps of a span of which something is known, the oldest first. A step that is
// missing is one in which nothing was looked at. False: there is no such series.
func (s *Store) History(name string, span Span) (points []Point, since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.series[name]
	if one == nil {
		return nil, time.Time{}, false
	}
	r := &one.hour
	if span == Day {
		r = &one.day
	}
	return r.known(len(r.points)), one.since, true
}

// Rates are those of a series; false: they are not known yet, or not any more.
func (s *Store) Rates(name string) (Rates, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.series[name]
	if one == nil {
		return Rates{}, false
	}
	var sum Rates
	points := one.hour.known(int(time.Minute / Step))
	for _, p := range points {
		sum.In, sum.Out, sum.Failed = sum.In+float64(p.In), sum.Out+float64(p.Out), sum.Failed+float64(p.Failed)
	}
	if len(points) == 0 {
		return Rates{}, false
	}
	t := float64(len(points)) * Step.Seconds()
	return Rates{sum.In / t, sum.Out / t, sum.Failed / t}, true
}

// Names are those of all series, sorted, and how many were left out of the last sample because there
// are too many.
func (s *Store) Names() (names []string, leftOut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.series {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, s.leftOut
}

// Since is when the first sample was taken; zero: none was.
func (s *Store) Since() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}
