package flow

import (
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// A gate is the breaker and the limiter of an engine, shared by its lanes, and the last
// state that the source's own gate was told.
type gate struct {
	mu      sync.Mutex // guards all below; never held across a call to the outside
	circuit *policy.Circuit
	bucket  *policy.Bucket
	why     string // the failure for which nothing passes, or last passed
	limited int    // attempts in a row after which the destination asked for less
	asked   bool   // it is left alone for that, and has taken nothing since

	gater   bool
	wide    int       // messages let through where only a hold is over, and no probe is due
	told    time.Time // the source's gate is shut until then; zero: it is open, or may be shut from an earlier run
	works   bool      // the destination took something since the source's gate was last opened
	reopens time.Time // when the source's gate may be opened again: others may have shut it
}

func (g *gate) init(p Pipeline) {
	g.circuit, g.bucket = p.Breaker.Circuit(), p.Limiter.Bucket()
	_, g.gater = p.Source.(tidemill.Gater)
	g.wide = p.least
}

// shutFor is how long nothing passes.
func (g *gate) shutFor(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, until := g.circuit.State(now); !until.IsZero() {
		return until.Sub(now)
	}
	return 0
}

// permits says how many messages may be asked of the source; -1 is any number.
func (g *gate) permits(now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.circuit.Permits(now)
}

// narrow says that only some of the messages may pass.
func (g *gate) narrow(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, _ := g.circuit.State(now)
	return s != policy.Closed
}

// enter asks to work on n messages now.
func (g *gate) enter(now time.Time, n int) (policy.Pass, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.circuit.Enter(now, n)
}

// results are how the messages of one attempt ended.
type results struct {
	ok      int           // the destination took
	blamed  int           // failed, and the destination is to blame
	limited bool          // some were turned away by a rate limit
	why     error         // one of these failures
	paces   bool          // left alone at once: a message that was turned away loses no try
	after   time.Duration // the destination asked to be left alone for this long
}

// add counts a failure as its rule says.
func (r *results) add(rule policy.Rule, kind tidemill.Kind, err error) {
	if rule.Blames {
		r.blamed++
		r.why = err
	}
	if kind == tidemill.RateLimit && rule.Do == policy.Retrying {
		r.limited = true
		r.why = err
		r.paces = r.paces || !rule.CountTry
		r.after = max(r.after, wish(err), paceAtLeast)
	}
}

// limitedInARow is how many attempts in a row a destination has to turn away before all
// lanes leave it alone, where each message has lost a try by that. A destination that takes
// some messages goes on getting them; one that takes none is not asked by its whole
// backlog. It is as many as the failures that open the breaker of a partner.
const limitedInARow = 5

// leave reports the results. It says whether the source's gate is to be told (the state
// changed, or nothing passes for a time, for the first time since the destination took
// something), whether a goroutine may be waiting for the change, and whether nothing passes
// for a time.
func (g *gate) leave(now time.Time, p policy.Pass, r results, random float64) (news, wake, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, _ := g.circuit.State(now)
	changed := g.circuit.Leave(now, p, r.ok, r.blamed, random)
	state, _ := g.circuit.State(now)
	if r.ok > 0 {
		g.limited, g.asked = 0, false
	} else if r.limited {
		g.limited++
	}
	if held = r.limited && (r.paces || g.limited >= limitedInARow); held {
		g.circuit.Hold(now.Add(r.after))
		news, g.asked = !g.asked, true
	}
	if (held || changed && state == policy.Open) && r.why != nil {
		g.why = r.why.Error()
	}
	if r.ok > 0 && state == policy.Closed {
		g.works = true
	}
	return changed || news, changed || before == policy.HalfOpen || g.opens(now), held
}

// trip shuts the gate for a time, unless it is already shut for that long, and says whether
// it was open before: every message of a batch may ask for it.
func (g *gate) trip(now time.Time, d time.Duration, why string) (news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, until := g.circuit.State(now)
	if s == policy.Open && !until.Before(now.Add(d)) {
		return false
	}
	g.circuit.Trip(now, d)
	g.why = why
	return s != policy.Open
}

func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.circuit.Reset()
	g.works, g.why, g.limited, g.asked = true, "", 0, false
}

// take takes n from the limit and says how long to wait first.
func (g *gate) take(now time.Time, n int) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bucket.Take(now, n)
}

// opens says whether the source's gate is to be opened, where ours is open; the lock is held.
func (g *gate) opens(now time.Time) bool {
	return g.gater && g.works && (!g.told.IsZero() || !now.Before(g.reopens))
}

// order is the next instruction for the source's gate: shut until then with that many
// probes after, or the zero time, open.
func (g *gate) order(now time.Time) (until time.Time, probes int, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state, until := g.circuit.State(now)
	if until.IsZero() {
		return until, 0, state == policy.Closed && g.opens(now)
	}
	probes = g.wide
	if state == policy.Open {
		probes = g.circuit.Breaker().Probes
	}
	return until, probes, g.gater && !until.Equal(g.told)
}

// obeyed notes that the source's gate was told.
func (g *gate) obeyed(now, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told = until; until.IsZero() {
		g.works, g.reopens = false, now.Add(g.circuit.Breaker().Open)
	}
}

// nextProbe is the wait after which a message whose probe failed comes again: a little longer
// than the breaker stays open, so that another message probes next.
func (g *gate) nextProbe() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.circuit.Breaker().Open * 5 / 4
}

// look returns the state of the gate, for Stats.
func (g *gate) look(now time.Time) (policy.State, time.Time, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, until := g.circuit.State(now)
	if s == policy.Closed && until.IsZero() && !g.asked {
		return s, until, ""
	}
	return s, until, g.why
}
