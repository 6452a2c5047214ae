package giveway

import (
	"context"
	"sync"
	"time"
)

const (
	// quiet is after how long without a call for a request work has all the time: the next of
	// requests that follow each other comes within it.
	quiet = 3 * time.Millisecond
	// longest is how long a call for work waits at most. Where so many wait that their share is less,
	// they go on together then.
	longest = time.Second
	// learned is how many calls for work the guess of the next one's time is of.
	learned = 8
	// apart is how long the least that a call took is remembered, twice that at most: it is taken for
	// the way there and back, in which nothing waits for the call.
	apart = 10 * time.Second
)

// Gate is before what does one thing after the other. The zero value is ready to use, by any number of
// goroutines.
type Gate struct {
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
		g.first(1)
		began := time.Now()
		return func() { g.first(-1); g.took(time.Since(began)) }
	}
	at, guessed := g.reserve(time.Now())
	for wait := g.wait(at); wait > 0 && ctx.Err() == nil; wait = g.wait(at) {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done(): // the call says so
			t.Stop()
		}
	}
	began := time.Now()
	return func() { g.correct(g.took(time.Since(began)), guessed) }
}

// wait is how long work that may begin at a time waits now, before it asks again.
func (g *Gate) wait(at time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until(at, time.Now())
}

// until is how long work that may begin at a time waits before it asks again; 0: it may begin, or no
// request comes any more. mu is held.
func (g *Gate) until(at, now time.Time) time.Duration {
	if !g.contended(now) {
		return 0
	}
	return max(0, min(at.Sub(now), quiet))
}

func (g *Gate) first(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under += n
	g.came = time.Now()
}

// reserve is when a call for work may begin; zero: now, as no request comes. Its own time, as far as it
// can be guessed, and the rest after it are taken from those that come later.
func (g *Gate) reserve(now time.Time) (at time.Time, guessed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.contended(now) {
		g.free = now
		return at, 0
	}
	if g.free.Before(now) {
		g.free = now
	}
	if at, guessed = now.Add(longest), g.takes; g.free.Before(at) {
		at = g.free
	}
	g.free = g.free.Add(whole(guessed))
	return at, guessed
}

// took notes what a call took, and says for how much of it others had to wait.
func (g *Gate) took(took time.Duration) (own time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch now := time.Now(); {
	case g.since.IsZero():
		g.least, g.since = [2]time.Duration{took, took}, now
	case now.Sub(g.since) > apart:
		g.least, g.since = [2]time.Duration{took, g.least[0]}, now
	default:
		g.least[0] = min(g.least[0], took)
	}
	return max(took-min(g.least[0], g.least[1]), 0)
}

// correct corrects what was reserved for a call for work.
func (g *Gate) correct(own, guessed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.takes += (own - g.takes) / learned; !g.contended(now) {
		return
	}
	g.free = g.free.Add(whole(own - guessed))
	if most := now.Add(longest); g.free.After(most) {
		g.free = most
	}
}

// whole is a call's time and the rest after it. Its wait behind calls for requests is in that time, so
// that a quarter of a lane's rest is enough: with a whole one, the work of delivery on Redis beside a
// backlog had 6% of its rate, with a quarter 16%, and requests were as fast.
func whole(took time.Duration) time.Duration { return took + rest(took)/4 }

func (g *Gate) contended(now time.Time) bool { return g.under > 0 || now.Sub(g.came) < quiet }

// Contended says whether requests come.
func (g *Gate) Contended(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.contended(now)
}

// Rest is how long work waits now before it asks again; it is for who does the work of all, and tells
// Worked.
func (g *Gate) Rest(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until(g.free, now)
}

// Worked notes that work was done from began on.
func (g *Gate) Worked(began, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = now.Add(min(rest(now.Sub(began)), longest))
}
