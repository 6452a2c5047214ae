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
	// longest is how long a call for work waits at most: leases are kept by such calls, too.
	longest = 100 * time.Millisecond
	// learned is how many calls for work the guess of the next one's time is of.
	learned = 8
)

// Gate is before what does one thing after the other. The zero value is ready to use, by any number of
// goroutines.
type Gate struct {
	mu    sync.Mutex // guards what follows; not held during a call
	under int        // calls for requests that are under way
	came  time.Time  // when one began or ended
	free  time.Time  // when the next call for work may begin, while requests come
	takes time.Duration
}

// Enter waits until a call may begin. What it returns is called when the call has ended.
func (g *Gate) Enter(ctx context.Context) (leave func()) {
	if IsFirst(ctx) {
		g.first(1)
		return func() { g.first(-1) }
	}
	at, guessed := g.reserve(time.Now())
	for wait := g.still(at); wait > 0 && ctx.Err() == nil; wait = g.still(at) {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done(): // the call says so
			t.Stop()
		}
	}
	began := time.Now()
	return func() { g.took(time.Since(began), guessed) }
}

// still is how long to wait before asking again, for who may begin at a time; 0: he may begin.
func (g *Gate) still(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return min(g.until(at, time.Now()), quiet)
}

// until is how long work waits that may begin at a time; 0: no request comes any more, or it may begin.
func (g *Gate) until(at, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.contended(now) {
		return 0
	}
	return max(at.Sub(now), 0)
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

// took corrects what was reserved by what the call took.
func (g *Gate) took(took, guessed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.takes += (took - g.takes) / learned; !g.contended(now) {
		return
	}
	g.free = g.free.Add(whole(took - guessed))
	if most := now.Add(longest); g.free.After(most) {
		g.free = most
	}
}

// whole is a call's time and the rest after it.
func whole(took time.Duration) time.Duration { return took + rest(took) }

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
	at := g.free
	g.mu.Unlock()
	return min(g.until(at, now), quiet)
}

// Worked notes that work was done from began on.
func (g *Gate) Worked(began, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = now.Add(min(rest(now.Sub(began)), longest))
}
