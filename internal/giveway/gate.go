package giveway

import (
	"cmp"
	"context"
	"sync"
	"time"
)

const (
	// quiet is after how long without a call for a request work has all the time: the next of
	// requests that follow each other comes within it.
	quiet = 3 * time.Millisecond
	// longest is how long a call for work waits at most, where the gate does not say. Where so many wait
	// that their share is less, they go on together then.
	longest = time.Second
	// learned is how many calls for work the guess of the next one's time is of.
	learned = 8
	// apart is how long the least that a call took is remembered, twice that at most: it is taken for
	// the way there and back, in which nothing waits for the call.
	apart = 10 * time.Second
)

// Gate is before what does one thing after the other, or is to do so while requests come. The zero value
// is ready to use, by any number of goroutines.
type Gate struct {
	Way     *Way          // work waits while requests take long there, too; nil: only while some are called here
	Lanes   int           // calls for work that are made at once; 0: one after the other
	Longest time.Duration // that a call for work waits; 0: a second

	mu    sync.Mutex    // guards what follows; not held during a call
	under int           // calls for requests that are under way
	came  time.Time     // when one began or ended
	free  time.Time     // when the next call for work may begin, while requests come
	takes time.Duration // a call for work, on average, without the way there and back

	least [2]time.Duration // that a call took: since a time, and before
	since time.Time
}

// Enter waits until a call may begin. What it returns is called when the call has ended.
func (g *Gate) Enter(ctx context.Context) (leave func()) {
	if IsFirst(ctx) {
		began := time.Now()
		g.first(began)
		return func() { g.answered(began, time.Now()) }
	}
	if hasWaited(ctx) {
		return func() {}
	}
	at, guessed := g.reserve(time.Now())
	for wait := g.wait(at); wait > 0; wait = g.wait(at) {
		t, until := time.NewTimer(wait), time.Now().Add(wait)
		select {
		case <-t.C:
			if g.Way != nil {
				g.Way.ended(time.Since(until))
			}
		case <-ctx.Done(): // no call is made
			t.Stop()
			return func() { g.gaveUp(guessed, time.Now()) }
		}
	}
	began := time.Now()
	return func() { g.worked(began, time.Now(), guessed) }
}

// wait is how long work that may begin at a time waits now, before it asks again.
func (g *Gate) wait(at time.Time) time.Duration {
	now := time.Now()
	contended := g.lock(now)
	defer g.mu.Unlock()
	return until(at, now, contended)
}

// until is how long work that may begin at a time waits before it asks again; 0: it may begin, or no
// request comes any more.
func until(at, now time.Time, contended bool) time.Duration {
	if !contended {
		return 0
	}
	return max(0, min(at.Sub(now), quiet))
}

// lock takes mu, and says whether requests come.
func (g *Gate) lock(now time.Time) (contended bool) {
	pressed := g.Way != nil && g.Way.pressed(now) // which may look at the machine: no request's call waits for that
	g.mu.Lock()
	return pressed || g.under > 0 || now.Sub(g.came) < quiet
}

// first notes that a request's call begins.
func (g *Gate) first(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under++
	g.came = now
}

// answered notes the end of a request's call.
func (g *Gate) answered(began, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
	g.came = now
	g.took(now.Sub(began), now)
}

// reserve is when a call for work may begin; zero: now, as no request comes. Its own time, as far as it
// can be guessed, and the rest after it are taken from those that come later.
func (g *Gate) reserve(now time.Time) (at time.Time, guessed time.Duration) {
	contended := g.lock(now)
	defer g.mu.Unlock()
	if !contended {
		g.free = now
		return at, 0
	}
	if g.free.Before(now) {
		g.free = now
	}
	if at, guessed = now.Add(g.longest()), g.takes; g.free.Before(at) {
		at = g.free
	}
	g.free = g.free.Add(g.whole(guessed))
	return at, guessed
}

func (g *Gate) longest() time.Duration { return cmp.Or(g.Longest, longest) }

// took notes what a call took, and says for how much of it others had to wait. mu is held.
func (g *Gate) took(took time.Duration, now time.Time) (own time.Duration) {
	switch {
	case g.since.IsZero():
		g.least, g.since = [2]time.Duration{took, took}, now
	case now.Sub(g.since) > apart:
		g.least, g.since = [2]time.Duration{took, g.least[0]}, now
	default:
		g.least[0] = min(g.least[0], took)
	}
	return max(took-min(g.least[0], g.least[1]), 0)
}

// worked notes the end of a call for work.
func (g *Gate) worked(began, now time.Time, guessed time.Duration) {
	contended := g.lock(now)
	defer g.mu.Unlock()
	own := g.took(now.Sub(began), now)
	if g.takes += (own - g.takes) / learned; contended {
		g.correct(own-guessed, now)
	}
}

// gaveUp notes that a call for work is not made.
func (g *Gate) gaveUp(guessed time.Duration, now time.Time) {
	contended := g.lock(now)
	defer g.mu.Unlock()
	if contended {
		g.correct(-guessed, now)
	}
}

// correct corrects what was reserved for a call for work. mu is held.
func (g *Gate) correct(by time.Duration, now time.Time) {
	g.free = g.free.Add(g.whole(by))
	if most := now.Add(g.longest()); g.free.After(most) {
		g.free = most
	}
}

// whole is a call's time and the rest after it, of all lanes together. Where one call is made after the
// other, its wait behind calls for requests is in that time, so that a quarter of a rest is enough: with
// a whole one, the work of delivery on Redis beside a backlog had 6% of its rate, with a quarter 16%, and
// requests were as fast.
func (g *Gate) whole(took time.Duration) time.Duration {
	if g.Lanes == 0 {
		return took + rest(took)/4
	}
	return (took + rest(took)) / time.Duration(g.Lanes)
}

// Contended says whether requests come.
func (g *Gate) Contended(now time.Time) bool {
	defer g.mu.Unlock()
	return g.lock(now)
}

// Rest is how long work waits now before it asks again; it is for who does the work of all, and tells
// Worked.
func (g *Gate) Rest(now time.Time) time.Duration {
	contended := g.lock(now)
	defer g.mu.Unlock()
	return until(g.free, now, contended)
}

// Worked notes that work was done from began on.
func (g *Gate) Worked(began, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = now.Add(min(rest(now.Sub(began)), g.longest()))
}
