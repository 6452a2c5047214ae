package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

func gateOf(gater bool, b policy.Breaker, l policy.Limiter) *gate {
	p := Pipeline{Source: still{}, Breaker: b, Limiter: l, least: 7}
	if gater {
		p.Source = gatedStill{}
	}
	g := new(gate)
	g.init(p)
	return g
}

var gateStart = time.Unix(1_700_000_000, 0)

// The longest of what was asked for counts, and is told once.
func TestAGateIsShutForTheLongestTime(t *testing.T) {
	g, now := gateOf(false, policy.Breaker{}, policy.Limiter{}), gateStart
	for i, c := range []struct {
		at   time.Duration // since the start
		d    time.Duration
		news bool
		shut time.Duration // for this long then
		why  string
	}{
		{0, time.Minute, true, time.Minute, "0"},
		{0, 30 * time.Second, false, time.Minute, "0"},
		{0, time.Minute, false, time.Minute, "0"},
		{0, 2 * time.Minute, false, 2 * time.Minute, "3"},
		{2*time.Minute - 1, 1, false, 1, "3"},
		{2 * time.Minute, time.Second, true, time.Second, "5"},
	} {
		now = gateStart.Add(c.at)
		news := g.trip(now, c.d, fmt.Sprint(i))
		state, _, why := g.look(now)
		if news != c.news || g.shutFor(now) != c.shut || why != c.why || state != policy.Open {
			t.Errorf("step %d: news %v, shut for %v because of %q, %v; want %+v", i, news, g.shutFor(now), why, state, c)
		}
	}
	if g.leave(now, policy.Pass{}, results{blamed: 1, why: errBare}, 0); g.why != "5" {
		t.Errorf("an attempt that began before made the reason %q", g.why)
	}
	g.reset()
	if state, until, why := g.look(now); state != policy.Closed || !until.IsZero() || why != "" || g.shutFor(now) != 0 {
		t.Errorf("after a reset it is %v until %v because of %q", state, until, why)
	}
}

// What is said when an attempt leaves: whether that is news, whether somebody may be waiting
// for it, whether all are held.
func TestWhatLeavesAGate(t *testing.T) {
	g, now := gateOf(false, policy.Breaker{Fails: 2, Open: 30 * time.Second, Jitter: -1}, policy.Limiter{}), gateStart
	step := func(what string, n int, r results, passes int, said string) {
		t.Helper()
		pass, _ := g.enter(now, n)
		news, wake, held := g.leave(now, pass, r, 0)
		state, until, why := g.look(now)
		shut := time.Duration(0)
		if !until.IsZero() {
			shut = until.Sub(now)
		}
		got := fmt.Sprint(pass.N, " ", state, " ", shut, " ", why, news, wake, held)
		same(t, what, got, fmt.Sprint(passes, " ", said))
	}
	down := results{blamed: 1, why: errBare}
	step("it works", 3, results{ok: 1}, 3, "closed 0s false false false")
	step("one failure", 3, down, 3, "closed 0s false false false")
	step("the second in a row", 3, down, 3, "open 30s downtrue true false")
	if n := g.permits(now); n != 0 || !g.narrow(now) || g.shutFor(now) != 30*time.Second {
		t.Errorf("open, it permits %d", n)
	}
	now = now.Add(30 * time.Second)
	if n := g.permits(now); n != 1 || !g.narrow(now) || g.shutFor(now) != 0 {
		t.Errorf("half open, it permits %d", n)
	}
	step("a probe that says nothing: another may", 3, results{}, 1, "half-open 0s downfalse true false")
	step("a probe that fails", 3, down, 1, "open 30s downtrue true false")
	now = now.Add(30 * time.Second)
	step("a probe that works", 3, results{ok: 1}, 1, "closed 0s true true false")
	if n := g.permits(now); n != -1 || g.narrow(now) {
		t.Errorf("closed, it permits %d", n)
	}
	less := results{limited: true, paces: true, after: 5 * time.Second, why: errBare}
	step("less is asked for", 3, less, 3, "closed 5s downtrue false true")
	step("and again: no news", 3, less, 0, "closed 5s downfalse false true")
	now = now.Add(5 * time.Second)
	step("nothing was taken since", 3, results{}, 3, "closed 0s downfalse false false")
	step("something was", 3, results{ok: 1}, 3, "closed 0s false false false")
	step("news again", 3, less, 3, "closed 5s downtrue false true")
}

// Where who is turned away loses a try, five attempts in a row make all wait; a reset and
// whatever is taken begin the count anew.
func TestHowManyInARowHoldAGate(t *testing.T) {
	g := gateOf(false, policy.Breaker{}, policy.Limiter{})
	now := gateStart
	less := results{limited: true, after: time.Second, why: errBare}
	held := func() (n int) {
		for n = 1; n < 20; n++ {
			if _, _, h := g.leave(now, policy.Pass{}, less, 0); h {
				return n
			}
		}
		return n
	}
	same(t, "held after", held(), 5)
	same(t, "held after the next", held(), 1)
	g.reset()
	same(t, "held after a reset and", held(), 5)
	g.reset()
	if news, _, _ := g.leave(now, policy.Pass{}, results{limited: true, paces: true}, 0); !news {
		t.Error("after a reset it is no news that all are held")
	}
	g.reset()
	same(t, "held after a reset and", held(), 5)
	g.leave(now, policy.Pass{}, results{ok: 1}, 0)
	same(t, "held after one was taken and", held(), 5)
	g.leave(now, policy.Pass{}, results{blamed: 1, why: errBare}, 0)
	same(t, "held after another failure and", held(), 1)
}

func TestWhatAFailureAddsToTheResults(t *testing.T) {
	burns, paces := policy.Rule{Do: policy.Retrying, CountTry: true, Blames: true}, policy.Rule{Do: policy.Retrying}
	less := &tidemill.Error{Kind: tidemill.RateLimit, After: 9 * time.Second, Err: errBare}
	for _, c := range []struct {
		why  string
		rule policy.Rule
		kind tidemill.Kind
		err  error
		want results
	}{
		{"the destination is to blame", burns, tidemill.Timeout, errBare, results{blamed: 1, why: errBare}},
		{"it is not", paces, tidemill.Timeout, errBare, results{}},
		{"less is asked for, and it is no try", paces, tidemill.RateLimit, less, results{limited: true, why: less, paces: true, after: 9 * time.Second}},
		{"less is asked for, and it is a try", policy.Rule{Do: policy.Retrying, CountTry: true}, tidemill.RateLimit, less, results{limited: true, why: less, after: 9 * time.Second}},
		{"for no time in particular", paces, tidemill.RateLimit, errBare, results{limited: true, why: errBare, paces: true, after: time.Second}},
		{"which kills", policy.Rule{Do: policy.Dead}, tidemill.RateLimit, less, results{}},
	} {
		var r results
		r.add(c.rule, c.kind, c.err)
		same(t, c.why, fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", c.want))
	}
	r := results{paces: true, after: time.Minute, blamed: 2}
	r.add(policy.Rule{Do: policy.Retrying, CountTry: true, Blames: true}, tidemill.RateLimit, less)
	if !r.paces || r.after != time.Minute || r.blamed != 3 {
		t.Errorf("beside others: %+v", r)
	}
}

// What the gate of the source is told, and when.
func TestOrdersForTheGateOfASource(t *testing.T) {
	g, now := gateOf(true, policy.Breaker{Fails: 1, Open: 30 * time.Second, Jitter: -1, Probes: 3}, policy.Limiter{}), gateStart
	order := func(what, want string) {
		t.Helper()
		until, probes, due := g.order(now)
		got := "nothing"
		if due {
			got = fmt.Sprint("open ", probes)
			if !until.IsZero() {
				got = fmt.Sprint("shut for ", until.Sub(now), ", then ", probes)
			}
			g.obeyed(now, until)
			if _, _, twice := g.order(now); twice {
				t.Errorf("%s: it is to be told twice", what)
			}
		}
		same(t, what, got, want)
	}
	leave := func(want bool, r results) {
		t.Helper()
		if _, wake, _ := g.leave(now, policy.Pass{}, r, 0); wake != want {
			t.Errorf("after %+v somebody is woken: %v, want %v", r, wake, want)
		}
	}
	order("nothing was done yet", "nothing")
	leave(false, results{})
	order("nothing was taken yet", "nothing")
	leave(true, results{ok: 1})
	order("it works, and may be shut from an earlier run", "open 0")
	leave(false, results{ok: 1})
	now = now.Add(30*time.Second - 1)
	leave(false, results{ok: 1})
	order("it works, as it did", "nothing")
	now = now.Add(1)
	leave(true, results{ok: 1})
	order("others may have shut it since", "open 0")
	now = now.Add(time.Hour)
	order("nobody knows whether it works", "nothing")

	leave(true, results{ok: 1, limited: true, paces: true, after: 5 * time.Second})
	order("less is asked for: then all may", "shut for 5s, then 7")
	now = now.Add(5 * time.Second)
	order("the time is up", "open 0")

	g.trip(now, time.Minute, "")
	order("tripped", "shut for 1m0s, then 3")
	g.trip(now, 2*time.Minute, "")
	order("for longer", "shut for 2m0s, then 3")
	now = now.Add(2 * time.Minute)
	order("half open: the source lets probes pass by itself", "nothing")
	pass, _ := g.enter(now, 1)
	if _, wake, _ := g.leave(now, pass, results{ok: 1}, 0); !wake {
		t.Error("a probe that worked wakes nobody")
	}
	order("a probe worked", "open 0")
	g.trip(now, time.Minute, "")
	order("tripped", "shut for 1m0s, then 3")
	g.reset()
	order("by hand", "open 0")

	alone := gateOf(false, policy.Breaker{}, policy.Limiter{})
	alone.trip(now, time.Minute, "")
	if _, _, due := alone.order(now); due {
		t.Error("a source without a gate is told of one")
	}
	alone.reset()
	if _, _, due := alone.order(now); due {
		t.Error("a source without a gate is told to open it")
	}
}

func TestTheLimitOfAGate(t *testing.T) {
	g := gateOf(false, policy.Breaker{Open: 40 * time.Second}, policy.Limiter{Rate: 10, Burst: 1})
	if a, b := g.take(gateStart, 1), g.take(gateStart, 2); a != 0 || b != 200*time.Millisecond {
		t.Errorf("waits of %v and %v", a, b)
	}
	same(t, "a probe in vain comes again after", g.nextProbe(), 50*time.Second)
}
