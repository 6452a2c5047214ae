package flow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// claim is what a stage with an order does to some messages.
type claim struct{ ordered bool }

// claims are the positions of ordered messages in the order in which their stage was done.
type claims struct {
	mu   sync.Mutex // guards what follows
	done []uint64
}

func (c *claims) all() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.done)
}

// steps have a stage before the ordered one, which takes some time, and one after it.
func (c *claims) steps(before, during func(n uint64) error, after time.Duration) flow.Steps[claim] {
	return flow.Steps[claim]{
		Decode: func(m *tidemill.Message, v *claim) error {
			if m.Type == "bad" {
				return tidemill.Fail(tidemill.Validation, "bad")
			}
			v.ordered = m.Type == "claim"
			return nil
		},
		Stages: []flow.Stage[claim]{
			{Name: "before", Do: func(_ context.Context, batch []*flow.Item[claim]) error {
				for _, it := range batch {
					if err := before(it.Mark.Lo); err != nil {
						it.Again(time.Second)
					}
				}
				return nil
			}},
			{Name: "claim", InOrder: func(it *flow.Item[claim]) bool { return it.Value.ordered }, Retry: policy.Retry{Tries: 3, Base: time.Second}, Repeat: true,
				Do: func(_ context.Context, batch []*flow.Item[claim]) error {
					for _, it := range batch {
						if err := during(it.Mark.Lo); err != nil {
							return err
						}
					}
					c.mu.Lock()
					defer c.mu.Unlock()
					for _, it := range batch {
						if it.Value.ordered {
							c.done = append(c.done, it.Mark.Lo)
						}
					}
					return nil
				}},
			{Name: "after", Do: func(context.Context, []*flow.Item[claim]) error { time.Sleep(after); return nil }},
		},
	}
}

func always(uint64) error { return nil }

// TestAStageInOrderOverLanes draws pipelines, with messages that are bad, that take long, and
// that come again, with an ordered stage that fails and is limited, and with messages that
// come one by one and in a backlog.
func TestAStageInOrderOverLanes(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex // guards draw
			draw := rand.New(rand.NewPCG(seed, 2))
			chance := func(n int) int { mu.Lock(); defer mu.Unlock(); return draw.IntN(n) }
			traits := tidemill.Traits{Delays: rnd.IntN(2) == 0}
			s := newSource(traits)
			var want []uint64
			add := func() {
				var ms []tidemill.Message
				for range 1 + rnd.IntN(20) {
					m := tidemill.Message{Type: []string{"claim", "plain", "plain", "bad"}[rnd.IntN(4)]}
					if m.Type == "claim" {
						want = append(want, s.added+uint64(len(ms))+1)
					}
					ms = append(ms, m)
				}
				s.add(ms...)
			}
			for range 10 {
				add()
			}
			c := &claims{}
			steps := c.steps(func(n uint64) error {
				time.Sleep(time.Duration(chance(4)) * time.Millisecond)
				if chance(30) == 0 {
					return errDown
				}
				return nil
			}, func(uint64) error {
				switch chance(60) {
				case 0:
					return errDown
				case 1:
					return &tidemill.Error{Kind: tidemill.RateLimit, After: time.Second, Err: errDown}
				}
				return nil
			}, time.Duration(rnd.IntN(20))*time.Millisecond)
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 1 + rnd.IntN(4), Batch: 1 + rnd.IntN(20), InFlight: 300,
				Age: time.Duration(rnd.IntN(3)) * 10 * time.Millisecond, Breaker: policy.Breaker{Fails: 2, Open: 10 * time.Second}, Work: steps.Lane})
			for range 30 {
				rest(time.Duration(rnd.IntN(20)) * time.Millisecond)
				add()
			}
			rest(24 * time.Hour)
			s.balance(t)
			if err := stop(); err != nil {
				t.Error(err)
			}
			// A claim that failed as often as it may is dead, and missing.
			if !slices.IsSorted(c.all()) || len(slices.Compact(c.all())) < len(want)/2 {
				t.Errorf("seed %d: the stage was done for %v; want the order of %v", seed, c.all(), want)
			}
		})
	}
}

func ended(s *memorySource) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.settled)
}

// TestWhoHasNoOrderDoesNotWait lets the lane of the oldest claim hang.
func TestWhoHasNoOrderDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Delays: true})
		for i := range 12 {
			s.add(tidemill.Message{Type: []string{"claim", "plain", "plain", "plain", "claim", "plain"}[i/2]})
		}
		c := &claims{}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 3, Batch: 2, InFlight: 12,
			Work: c.steps(func(n uint64) error {
				if n == 1 {
					time.Sleep(time.Hour)
				}
				return nil
			}, always, time.Millisecond).Lane})
		rest(time.Minute)
		if fmt.Sprint(c.all()) != "[]" || ended(s) != 6 {
			t.Errorf("claims %v are done and %d messages ended while the oldest hangs; want none, and the 6 before the next claim that are no claims", c.all(), ended(s))
		}
		rest(time.Hour)
		equal(t, "claims", c.all(), "[1 2 9 10]")
		s.balance(t)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestAStopWhileSomebodyWaitsForItsTurn ends the time after the stop before the turn comes.
func TestAStopWhileSomebodyWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Delays: true})
		for range 4 {
			s.add(tidemill.Message{Type: "claim"})
		}
		c := &claims{}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 2, Batch: 2, Grace: time.Second,
			Work: c.steps(func(n uint64) error {
				if n == 1 {
					time.Sleep(time.Minute)
				}
				return nil
			}, always, 0).Lane})
		rest(time.Millisecond)
		if err := stop(); err != nil {
			t.Error(err)
		}
		equal(t, "claims", c.all(), "[]")
		equal(t, "ends", s.fates(), "[3 again 0s burn=false 4 again 0s burn=false 1 again 0s burn=false 2 again 0s burn=false]")
		s.mu.Lock()
		defer s.mu.Unlock()
		equal(t, "messages that are out", len(s.out), 0)
	})
}

// TestTurnsOfAPausedPipeline pauses while a batch waits for an older one that its lane has not
// begun to work on: neither may overtake the other.
func TestTurnsOfAPausedPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Delays: true})
		c := &claims{}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 2, Batch: 2, InFlight: 8,
			Work: c.steps(always, func(n uint64) error {
				if n == 1 {
					time.Sleep(time.Minute)
				}
				return nil
			}, 5*time.Second).Lane})
		for i := range 8 { // 1 and 2 hang, 3 and 4 have no claims, 5 and 6 wait behind 1 and 2, 7 and 8 for them
			s.add(tidemill.Message{Type: map[bool]string{true: "plain", false: "claim"}[i/2 == 1]})
		}
		rest(30 * time.Second)
		if err := e.Pause(); err != nil {
			t.Fatal(err)
		}
		rest(time.Hour)
		if err := e.Resume(); err != nil {
			t.Fatal(err)
		}
		rest(time.Hour)
		equal(t, "claims", c.all(), "[1 2 5 6 7 8]")
		s.balance(t)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnOrderDealsByItself(t *testing.T) {
	_, err := flow.New(flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{}), Dead: &letters{}, Lane: flow.ByKey,
		Work: new(claims).steps(always, always, 0).Lane})
	if err == nil {
		t.Error("a pipeline with Lane and a stage with InOrder was taken")
	}
}

// TestWhoWaitsForItsTurnIsNotAlive lets the oldest claim hang: that others wait for it must
// not hide that from a probe.
func TestWhoWaitsForItsTurnIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		for range 4 {
			s.add(tidemill.Message{Type: "claim"})
		}
		c := &claims{}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 2, InFlight: 4,
			Work: c.steps(always, func(n uint64) error {
				if n == 1 {
					time.Sleep(time.Hour)
				}
				return nil
			}, 0).Lane})
		rest(30 * time.Minute)
		st := e.Stats()
		equal(t, "turned before", time.Since(st.Turned).Round(time.Second), "30m0s")
		equal(t, "lanes, each with one that waits in its ring", st.Lanes, "[{2 1} {2 1}]")
		equal(t, "messages that wait for a lane", st.Buffered, 2)
		rest(time.Hour)
		equal(t, "claims", c.all(), "[1 2 3 4]")
		equal(t, "lanes in the end", e.Stats().Lanes, "[{0 0} {0 0}]")
		_ = stop()
	})
}

// TestOnlyTheOrderWaitsForWhatComesAgain has a batch of a claim that comes again, a younger
// claim and a plain message, behind a batch that hangs.
func TestOnlyTheOrderWaitsForWhatComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true, Delays: true})
		for _, kind := range []string{"claim", "claim", "claim", "claim", "claim", "plain"} {
			s.add(tidemill.Message{Type: kind})
		}
		c := &claims{}
		failed := false
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 2, Batch: 3, InFlight: 6,
			Work: c.steps(func(n uint64) error {
				if n == 4 && !failed {
					failed = true
					return errDown
				}
				return nil
			}, func(n uint64) error {
				if n == 1 {
					time.Sleep(time.Hour)
				}
				return nil
			}, 0).Lane})
		rest(time.Minute)
		equal(t, "ends while the oldest hangs", s.fates(), "[6 delivered]")
		rest(2 * time.Hour)
		equal(t, "claims", c.all(), "[1 2 3 4 5]")
		s.balance(t)
		_ = stop()
	})
}

// TestTriesOfAStageInOrder has a stage that always fails: it is tried as often, and with as
// many at once, as one without an order.
func TestTriesOfAStageInOrder(t *testing.T) {
	inEngine := func(around func(flow.Work) flow.Work) func(*testing.T, flow.Steps[claim]) {
		return func(t *testing.T, steps flow.Steps[claim]) {
			s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 2, Work: func(env flow.Env) flow.Work { return around(steps.Lane(env)) }})
			rest(time.Minute)
			equal(t, "ends", s.fates(), "[1 dead 2 dead]")
			_ = stop()
		}
	}
	for where, do := range map[string]func(*testing.T, flow.Steps[claim]){
		"in an engine":               inEngine(func(w flow.Work) flow.Work { return w }),
		"in a wrapper that hides it": inEngine(func(w flow.Work) flow.Work { return struct{ flow.Work }{w} }),
		"without an engine":          func(t *testing.T, steps flow.Steps[claim]) { _ = steps.Lane(flow.Env{}).Do(t.Context(), tasks("ab")) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var sizes []int
			do(t, flow.Steps[claim]{
				Decode: func(*tidemill.Message, *claim) error { return nil },
				Stages: []flow.Stage[claim]{{Name: "claim", InOrder: func(*flow.Item[claim]) bool { return true }, Retry: policy.Retry{Tries: 2, Base: time.Second},
					Do: func(_ context.Context, batch []*flow.Item[claim]) error {
						sizes = append(sizes, len(batch))
						return errDown
					}}},
			})
			equal(t, where, sizes, "[2 2 2]")
		})
	}
}

// TestNobodyWaitsForWhoHasNoOrder lets an older message hang that is no claim.
func TestNobodyWaitsForWhoHasNoOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(tidemill.Message{Type: "plain"}, tidemill.Message{Type: "claim"})
		c := &claims{}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 2,
			Work: c.steps(func(n uint64) error {
				if n == 1 {
					time.Sleep(time.Hour)
				}
				return nil
			}, always, 0).Lane})
		rest(time.Minute)
		equal(t, "claims", c.all(), "[2]")
		_ = stop()
	})
}

// TestNobodyWaitsForWhoNeverCame has older claims that end before their stage sees them.
func TestNobodyWaitsForWhoNeverCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(tidemill.Message{Type: "claim", Handed: 500}, tidemill.Message{Type: "claim"}, tidemill.Message{Type: "claim"})
		c := &claims{}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 2, Work: c.steps(always, always, 0).Lane})
		rest(time.Minute)
		equal(t, "claims", c.all(), "[2 3]")
		s.balance(t)
		_ = stop()
	})
}

// TestABatchOfOneProbes has one claim come while the breaker is half open.
func TestABatchOfOneProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		c := &claims{}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 2, Work: c.steps(always, always, 0).Lane})
		rest(time.Second)
		e.Trip(10 * time.Second)
		s.add(tidemill.Message{Type: "claim"}, tidemill.Message{Type: "claim"})
		rest(time.Minute)
		equal(t, "claims", c.all(), "[1 2]")
		s.balance(t)
		_ = stop()
	})
}
