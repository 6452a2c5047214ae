package crm

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// How much is held depends on how long handlers take: an urgent event waits behind at most
// paceTime of their work, or as much as a batch waits for sync log and profiles, if that is more.
// Enough is always held that no worker waits. More held events share the calls of sync log, profiles
// and queue, which makes fast handlers fast; where databases are slow, they share them all the more.
const (
	paceTime = 25 * time.Millisecond
	slowTime = 10 * paceTime // instead, where databases are slower than that
	paceMost = 25            // times the least; more made it no faster
)

// pace works out how many events an instance holds: the least at first, and more while handlers are
// fast.
type pace struct {
	workers, least, most int
	grant                atomic.Int64

	mu              sync.Mutex // guards what follows; held for short work in memory only
	handled, beside lap
}

// lap is how long something took, so often.
type lap struct{ took, times float64 }

func (l *lap) add(d time.Duration, times int) {
	l.took, l.times = l.took+float64(d), l.times+float64(times)
}

// mean is 0 where nothing was measured.
func (l *lap) mean() float64 { return l.took / max(1, l.times) }

// halve lets what comes next count as much as all before.
func (l *lap) halve() { l.took, l.times = l.took/2, l.times/2 }

func newPace(workers, least int) *pace {
	p := &pace{workers: workers, least: least, most: paceMost * least}
	p.grant.Store(int64(least))
	return p
}

// hold is how many events may be held now.
func (p *pace) hold() int { return int(p.grant.Load()) }

// batch notes how long a worker was busy with a batch beside its handlers.
func (p *pace) batch(beside time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beside.add(beside, 1)
}

// call notes how long a handler took for so many events, and decides anew after twice as many as there
// are workers, or paceTime of their work. Events that need no handler say nothing of those that do.
func (p *pace) call(d time.Duration, events int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handled.add(d, events)
	if p.handled.times < float64(2*p.workers) && p.handled.took < float64(paceTime) {
		return
	}
	wish := float64(p.most)
	if each := p.handled.mean(); each > 0 {
		wish = min(wish, float64(p.workers)*min(max(float64(paceTime), p.beside.mean()), float64(slowTime))/each)
	}
	p.grant.Store(int64(max(p.least, int(math.Round(wish)))))
	p.handled.halve()
	p.beside.halve()
}
