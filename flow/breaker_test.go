package flow_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// destination is a small server: it can be down, and counts who calls at once.
type destination struct {
	mu      sync.Mutex // guards all below
	down    bool
	calls   int
	now     int
	most    int
	kind    tidemill.Kind
	after   time.Duration
	takes   time.Duration
	reached []string
}

func (d *destination) call(_ context.Context, t *flow.Task) error {
	d.mu.Lock()
	d.calls++
	d.now++
	d.most = max(d.most, d.now)
	down := d.down
	d.mu.Unlock()
	time.Sleep(d.takes)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now--
	if down {
		return &tidemill.Error{Kind: d.kind, After: d.after, Err: errDown}
	}
	d.reached = append(d.reached, t.ID)
	return nil
}

func (d *destination) set(down bool) (calls int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down, d.most = down, 0
	calls, d.calls = d.calls, 0
	return calls
}

// While the breaker is open nothing is tried, and what waits loses no try; afterwards one probe
// at a time decides, which is a try of its message. The source is a queue that all instances
// share.
func TestBreakerWithAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(1000)...)}
		d := &destination{down: true, kind: tidemill.Partner, takes: 10 * time.Millisecond}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 10, Work: each(d.call).work,
			Retry:   policy.Retry{Tries: 3, Base: time.Second, Factor: 2},
			Breaker: policy.Breaker{Fails: 5, Open: 30 * time.Second, Jitter: -1}})
		begin := time.Now()
		rest(10 * time.Second)
		if n := d.set(true); n > 20 {
			t.Errorf("%d calls before the breaker opened, want little more than one round of the lanes", n)
		}
		if st := e.Stats(); st.Breaker != policy.Open || !strings.Contains(st.Why, "down") || st.Settled.Total() != 0 || st.Retried > 20 {
			t.Errorf("open: %+v", st)
		}
		if g := s.told(); len(g) != 1 || g[0].probes != 1 || g[0].until.Sub(begin).Round(time.Second) != 30*time.Second {
			t.Errorf("gate: %v", g)
		}
		rest(5 * time.Minute)
		if n := d.set(true); n < 8 || n > 11 || d.most > 1 {
			t.Errorf("%d probes in 5 minutes, %d at once; want about one every 30 s, alone", n, d.most)
		}
		d.set(false)
		rest(time.Hour)
		s.balance(t)
		st := e.Stats()
		// After the first round come some 10 probes; four of them end a message.
		if st.Settled.Total() != 1000 || st.Settled.Dead == 0 || st.Settled.Dead > 3 || st.Breaker != policy.Closed {
			t.Errorf("afterwards: %+v", st)
		}
		if g := s.told(); !g[len(g)-1].until.IsZero() || g[len(g)-1].probes != 0 {
			t.Errorf("the gate was not opened: %v", g)
		}
		stop()
	})
}

// A source that cannot delay: what was handed out waits in its lanes, in order.
func TestBreakerWithoutAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(1000)...)
		dead := &letters{}
		d := &destination{down: true, kind: tidemill.Transient, takes: 10 * time.Millisecond}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Lanes: 4, Batch: 10, Work: each(d.call).work,
			Breaker: policy.Breaker{Fails: 5, Open: 30 * time.Second}})
		rest(10 * time.Minute)
		// two rounds of the lanes until 5 batches had failed, and then one message a probe
		if n := d.set(true); n < 65 || n > 101 {
			t.Errorf("%d calls, want up to 80 before it opened and about 20 probes", n)
		}
		if len(dead.put) > 80 { // no message dies of a probe
			t.Errorf("%d letters", len(dead.put))
		}
		d.set(false)
		rest(10 * time.Minute)
		s.balance(t)
		for _, e := range s.ends {
			if e.End != tidemill.Done {
				t.Errorf("%+v, want only ends", e)
			}
		}
		stop()
	})
}

// A source that cannot delay: a message that always fails, at a destination that takes all
// others, is probed so often as a broken destination would be, and then dies. The lane behind
// it goes on.
func TestAMessageThatAlwaysFailsDiesOfItsProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(10)...)
		dead := &letters{}
		var mu sync.Mutex // guards calls
		calls := map[string]int{}
		look := func() (put map[string]tidemill.DeadLetter, called map[string]int) {
			mu.Lock()
			defer mu.Unlock()
			dead.mu.Lock()
			defer dead.mu.Unlock()
			return maps.Clone(dead.put), maps.Clone(calls)
		}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Lanes: 1, Batch: 1,
			Breaker: policy.Breaker{Fails: 1, Open: 30 * time.Second},
			Work: each(func(_ context.Context, task *flow.Task) error {
				mu.Lock()
				defer mu.Unlock()
				if calls[task.ID]++; task.ID == "1" || task.ID == "2" { // the first opens the breaker, the second meets it open
					return tidemill.Fail(tidemill.Partner, "always")
				}
				return nil
			}).work})
		rest(5 * time.Minute)
		if put, called := look(); len(put) != 1 || called["2"] < 9 || called["3"] != 0 {
			t.Errorf("after five minutes %d letters and calls %v, want only the first dead, and about ten probes of the second", len(put), called)
		}
		rest(time.Hour)
		put, called := look()
		if l, ok := put["2"]; !ok || l.Kind != tidemill.Partner || !strings.Contains(l.Cause, "always") || called["2"] > 25 {
			t.Errorf("after %d calls its letter is %+v", called["2"], l)
		}
		s.balance(t)
		stop()
	})
}

// A source that cannot delay: each message of a batch waits as long as it asked for at least,
// whichever of them comes first.
func TestNoneOfABatchReturnsEarly(t *testing.T) {
	waits := map[string]time.Duration{"1": 5 * time.Second, "2": 40 * time.Second, "3": 10 * time.Second}
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(3)...)
		tried := map[string]time.Time{}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 1, Batch: 3, Work: each(func(_ context.Context, task *flow.Task) error {
			if before, ok := tried[task.ID]; !ok {
				task.Again(waits[task.ID])
			} else if waited := time.Since(before); waited < waits[task.ID] {
				t.Errorf("message %s came again after %v, want %v at least", task.ID, waited, waits[task.ID])
			}
			tried[task.ID] = time.Now()
			return nil
		}).work})
		rest(10 * time.Minute)
		s.balance(t)
		stop()
	})
}

func TestStopWhileTheBreakerIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(100)...)
		dead := &letters{}
		d := &destination{down: true, kind: tidemill.Transient}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Lanes: 2, Batch: 5, Work: each(d.call).work,
			Breaker: policy.Breaker{Fails: 2, Open: time.Hour}})
		rest(time.Minute)
		begin := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("took %v: nothing is to be waited for", took)
		}
		if len(s.lost)+len(s.settled) != int(s.added)-len(s.ready) || len(s.lost) == 0 {
			t.Errorf("%d left, %d settled, %d never handed out", len(s.lost), len(s.settled), len(s.ready))
		}
	})
}

func TestFailuresThatBlameNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(50)...)
		d := &destination{down: true, kind: tidemill.Business}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: each(d.call).work, Breaker: policy.Breaker{Fails: 5}})
		rest(time.Second)
		s.balance(t)
		if st := e.Stats(); st.Breaker != policy.Closed || st.Settled.Dead != 50 || st.Failures[tidemill.Business] != 50 {
			t.Errorf("%+v", st)
		}
		stop()
	})
}

func TestRefusedCredentialsPause(t *testing.T) {
	for _, delays := range []bool{true, false} {
		t.Run(fmt.Sprint("delays=", delays), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(tidemill.Traits{Delays: delays, Parks: true}).add(messages(20)...)
				d := &destination{down: true, kind: tidemill.Credentials}
				e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 2, Work: each(d.call).work, PauseFor: time.Minute})
				rest(30 * time.Second)
				if n := d.set(true); n > 2 {
					t.Errorf("%d calls with refused credentials, want one a lane at most", n)
				}
				if st := e.Stats(); st.Breaker != policy.Open || st.Retried != 0 || st.Settled.Total() != 0 {
					t.Errorf("%+v", st)
				}
				rest(10 * time.Minute)
				if n := d.set(false); n < 9 || n > 11 {
					t.Errorf("%d probes in 10 minutes, want one a minute", n)
				}
				rest(time.Hour)
				s.balance(t)
				if st := e.Stats(); st.Settled.Delivered != 20 {
					t.Errorf("%+v", st)
				}
				stop()
			})
		})
	}
}

func TestRateLimitPacesAndBurnsNothing(t *testing.T) {
	for _, delays := range []bool{true, false} {
		t.Run(fmt.Sprint("delays=", delays), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(tidemill.Traits{Delays: delays, Parks: true}).add(messages(20)...)
				d := &destination{down: true, kind: tidemill.RateLimit, after: 7 * time.Second}
				var log strings.Builder
				e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 2, Work: each(d.call).work, Log: slog.New(slog.NewTextHandler(&log, nil))})
				rest(70 * time.Second)
				if why := e.Stats().Why; !strings.Contains(why, "down") {
					t.Errorf("nothing passes because of %q", why)
				}
				if n := d.set(false); n > 2*11 {
					t.Errorf("%d calls in 70 s, want at most one a lane every 7 s", n)
				}
				rest(time.Minute)
				s.balance(t)
				if st := e.Stats(); st.Settled.Delivered != 20 || st.Retried != 0 || st.Breaker != policy.Closed || st.Why != "" {
					t.Errorf("%+v", st)
				}
				stop()
				if n := strings.Count(log.String(), "state=held"); n != 1 {
					t.Errorf("%d lines say that nothing passes, want one:\n%s", n, log.String())
				}
			})
		})
	}
}

// Where each message that it turned away has lost a try, a destination that takes nothing is
// left alone by all that wait for it.
func TestARateLimitThatBurnsPacesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(1000)...)}
		d := &destination{down: true, kind: tidemill.RateLimit, after: 20 * time.Second}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 4, Work: each(d.call).work, Retry: policy.Retry{Tries: 7, Base: time.Second},
			Rules: policy.Table{tidemill.RateLimit: {Do: policy.Retrying, CountTry: true}}})
		rest(65 * time.Second)
		if n := d.set(false); n > 4*4+4 {
			t.Errorf("%d calls in 65 s, want five, of lanes that had begun a few more, and one a lane every 20 s", n)
		}
		rest(10 * time.Minute)
		if st := e.Stats(); st.Settled.Delivered != 1000 || st.Retried == 0 || st.Retried > 4*4+4 || st.Breaker != policy.Closed {
			t.Errorf("%+v", st)
		}
		stop()
	})
}

// One that takes so many a second gets them, and nothing dies of asking too often.
func TestARateLimitThatBurnsLeavesNothingOnTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(1000)...)}
		var mu sync.Mutex // guards all below
		second, took, calls := int64(0), 0, 0
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 4, Retry: policy.Retry{Tries: 7, Base: time.Second},
			Rules: policy.Table{tidemill.RateLimit: {Do: policy.Retrying, CountTry: true}},
			Work: each(func(context.Context, *flow.Task) error {
				mu.Lock()
				defer mu.Unlock()
				if now := time.Now().Unix(); now != second {
					second, took = now, 0
				}
				if calls++; took == 10 {
					return &tidemill.Error{Kind: tidemill.RateLimit, After: time.Second, Err: errDown}
				}
				took++
				return nil
			}).work})
		rest(2 * time.Minute)
		s.balance(t)
		if st := e.Stats(); st.Settled.Delivered != 1000 || st.Settled.Dead != 0 || calls > 1000+100*(5+3) { // in vain each second: five, and what the other lanes had begun
			t.Errorf("after %d calls: %+v", calls, st)
		}
		stop()
	})
}

func TestAfterOfARetryIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(1)...)
		d := &destination{down: true, kind: tidemill.Partner, after: 20 * time.Second}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: each(d.call).work, Retry: policy.Retry{Tries: 2, Base: time.Second}})
		rest(time.Hour)
		equal(t, "ends", s.fates(), []string{"1 again 20s burn=true", "1 again 20s burn=true", "1 dead"})
		stop()
	})
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1000)...)
		var mu sync.Mutex
		var at []time.Duration
		begin := time.Now()
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 4, Batch: 5, Limiter: policy.Limiter{Rate: 100, Burst: 10},
			Work: each(func(context.Context, *flow.Task) error {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begin))
				return nil
			}).work})
		rest(time.Minute)
		s.balance(t)
		slices.Sort(at)
		if last := at[len(at)-1]; last < 9800*time.Millisecond || last > 10*time.Second {
			t.Errorf("1000 messages at 100/s with a burst of 10 took %v, want 9.9 s", last)
		}
		stop()
	})
}

func TestBreakerByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		d := &destination{}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: each(d.call).work})
		synctest.Wait()
		e.Trip(time.Hour)
		s.add(messages(3)...)
		rest(time.Minute)
		if d.calls != 0 {
			t.Errorf("%d calls while open", d.calls)
		}
		if st := e.Stats(); time.Since(st.Turned) > time.Second {
			t.Errorf("last turned %v ago: waiting for the breaker is alive", time.Since(st.Turned))
		}
		e.Reset()
		rest(time.Second)
		s.balance(t)
		stop()
	})
}

// Who asks outside whether it may go on waits as long as that says, with what it has, and
// does not hold up a stop.
func TestMayAsksOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(5)...)
		var asked []int
		var may atomic.Int64
		var calls []string
		begin := time.Now()
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 5,
			May: func(_ context.Context, batch []*flow.Task) (int, time.Duration) {
				asked = append(asked, len(batch))
				return int(may.Load()), time.Minute
			},
			Work: each(func(_ context.Context, t *flow.Task) error {
				calls = append(calls, fmt.Sprint(t.ID, " ", time.Since(begin).Round(time.Second)))
				return nil
			}).work})
		rest(30 * time.Second)
		may.Store(2)
		rest(time.Minute)
		if fmt.Sprint(asked) != "[5 5 3 1]" || len(calls) != 5 || !strings.HasSuffix(calls[0], " 1m0s") {
			t.Errorf("asked for %v, called %v", asked, calls)
		}
		may.Store(0)
		s.add(messages(1)...)
		rest(time.Second)
		before := time.Now()
		if err := stop(); err != nil || time.Since(before) > time.Second {
			t.Errorf("the stop took %v, %v", time.Since(before), err)
		}
		if len(s.ready) != 1 || len(calls) != 5 {
			t.Errorf("%d went back, %v were called", len(s.ready), calls)
		}
	})
}
