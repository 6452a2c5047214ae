package flow_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// Small mistakes that the other tests did not notice.

// A Partial of the dead letters counts dead letters, not messages of the batch.
func TestTheLetterThatCannotBeKeptIsTheRightOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(4)...)
		dead := &letters{fail: []error{&tidemill.Partial{Failed: []tidemill.Failed{{Index: 0, Err: errDown}}}}}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Batch: 4, Work: each(func(_ context.Context, task *flow.Task) error {
			if task.ID == "2" || task.ID == "4" {
				return tidemill.Fail(tidemill.Business, "no")
			}
			return nil
		}).work})
		rest(time.Second)
		equal(t, "ends", s.fates(), []string{"1 delivered", "2 left", "3 delivered", "4 dead"})
		if dead.puts != 1 {
			t.Errorf("put %d times: a letter that cannot be kept is not tried again", dead.puts)
		}
		stop()
	})
}

func TestTheWaitsOfSettlingBeginWithTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		s.tell = []error{errDown, errDown, errDown}
		begin := time.Now()
		var took time.Duration
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work, Backoff: policy.Retry{Tries: -1, Base: time.Second},
			Settled: func([]tidemill.Settlement) { took = time.Since(begin) }})
		rest(time.Minute)
		if took.Round(100*time.Millisecond) != (1+2+3)*time.Second {
			t.Errorf("settled after %v, want waits of 1, 2 and 3 s", took)
		}
		stop()
	})
}

// One lane, one message at a time: the fifth that was turned away makes it hold.
func TestTheFifthInARowHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(100)...)}
		d := &destination{down: true, kind: tidemill.RateLimit, after: 20 * time.Second}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 1, Batch: 1, Work: each(d.call).work, Retry: policy.Retry{Tries: 7, Base: time.Minute},
			Rules: policy.Table{tidemill.RateLimit: {Do: policy.Retrying, CountTry: true}}})
		rest(10 * time.Second)
		if n := d.set(true); n != 5 {
			t.Errorf("%d calls in the first ten seconds, want five", n)
		}
		stop()
	})
}

// Another instance may have shut the gate of the source: one that delivers opens it now and then.
func TestAGateIsOpenedAgainWhileWorkGoesWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{newSource(tidemill.Traits{Parks: true})}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work, Breaker: policy.Breaker{Fails: 5, Open: 30 * time.Second}})
		for range 20 {
			s.add(messages(1)...)
			rest(10 * time.Second)
		}
		if n := len(s.told()); n < 5 || n > 8 {
			t.Errorf("the gate was told %d times in 200 s, want once every 30 s or so", n)
		}
		stop()
	})
}

// What a stage says after its time was up may be only that: nothing is delivered by it.
func TestAStageThatTheStopCutsOffDeliversNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		steps := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{{Name: "send", Retry: policy.Retry{Tries: 3, Base: time.Second},
			Do: func(ctx context.Context, _ []*item) error { <-ctx.Done(); return context.Cause(ctx) }}}}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 2, Work: steps.Lane, Grace: time.Second})
		rest(time.Minute)
		if err := stop(); err != nil {
			t.Log(err)
		}
		equal(t, "ends", s.fates(), []string{"1 left", "2 left"})
	})
}

// Where a destination asks for less without saying how long, it is asked less and less often.
func TestPacingInPlaceGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		var at []time.Duration
		last := time.Now()
		steps := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{{Name: "send", Retry: policy.Retry{Tries: 1, Base: time.Second, Factor: 2},
			Do: func(context.Context, []*item) error {
				at, last = append(at, time.Since(last).Round(time.Second)), time.Now()
				if len(at) <= 8 {
					return tidemill.Fail(tidemill.RateLimit, "less")
				}
				return nil
			}}}}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: steps.Lane})
		rest(time.Hour)
		equal(t, "waits", at, "[0s 1s 2s 4s 8s 16s 32s 32s 32s]")
		equal(t, "ends", s.fates(), []string{"1 delivered"})
		stop()
	})
}

// A lane that hangs is seen: waiting for credit is not being alive.
func TestALaneThatHangsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 1, Batch: 1, InFlight: 1,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Hour); return nil }).work})
		rest(30 * time.Minute)
		if ago := time.Since(e.Stats().Turned); ago < 29*time.Minute {
			t.Errorf("last turned %v ago, the lane hangs for half an hour", ago)
		}
		rest(2 * time.Hour)
		s.balance(t)
		stop()
	})
}

// That something is full is no reason to end, and who waits for room is alive.
func TestWhatIsFullEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		s.tell = slices.Repeat([]error{tidemill.Fail(tidemill.RateLimit, "full")}, 5)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 1, Fatal: 1, Work: nothing.work,
			Backoff: policy.Retry{Tries: -1, Base: time.Minute, Factor: 1}})
		rest(150 * time.Second)
		st := e.Stats()
		equal(t, "turned before", time.Since(st.Turned).Round(time.Second), "30s")
		if st.State != flow.Running || st.Errors != 0 || tidemill.KindOf(st.Last) != tidemill.RateLimit {
			t.Errorf("%v after %d errors, the last: %v", st.State, st.Errors, st.Last)
		}
		rest(time.Hour)
		s.balance(t)
		_ = stop()
	})
}

func TestASystemRefusesWhatItCannotDo(t *testing.T) {
	e, err := flow.New(flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}), Work: nothing.work})
	if err != nil {
		t.Fatal(err)
	}
	s := flow.NewSystem(flow.SystemParts{Name: "s", Pipelines: []*flow.Engine{e}})
	if err := s.Resume(); err == nil || !strings.Contains(err.Error(), "resume system s") {
		t.Errorf("resuming what does not run says %v", err)
	}
	s = flow.NewSystem(flow.SystemParts{Name: "s", Pipelines: []*flow.Engine{e, nil}})
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("a pipeline that is nil: %v", err)
	}
}

// An absent receiver stops nothing: after a while messages go out without its acks.
func TestWhereNoAcksComeMessagesGoOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(300)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 1000,
			Acks: func(ctx context.Context, _ []tidemill.Settlement) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
			Work: each(func(_ context.Context, t *flow.Task) error { t.Defer(); return nil }).work})
		rest(9 * time.Second)
		equal(t, "out while acks are waited for", e.Stats().Awaited, 64)
		rest(2 * time.Second)
		equal(t, "out after that", e.Stats().Awaited, 300)
		rest(time.Minute)
		if ago := time.Since(e.Stats().Turned); ago != 0 {
			t.Errorf("who waits for messages last turned %v ago", ago)
		}
		_ = stop()
	})
}

// Where no goroutine listens for acks, a stop waits for none.
func TestWithoutAcksNoneIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(3)...)
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, AckGrace: time.Minute, Work: each(func(_ context.Context, t *flow.Task) error { t.Defer(); return nil }).work})
		rest(time.Second)
		begin := time.Now()
		if err := stop(); err != nil || time.Since(begin) > time.Second {
			t.Errorf("the stop took %v: %v", time.Since(begin), err)
		}
		equal(t, "ends", s.fates(), []string{"1 left", "2 left", "3 left"})
	})
}

// A pause ends the read that has begun: what comes meanwhile is for other instances.
func TestAPauseEndsTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work})
		rest(time.Second)
		if err := e.Pause(); err != nil {
			t.Error(err)
		}
		rest(time.Second)
		s.add(messages(3)...)
		rest(time.Hour)
		if st := e.Stats(); st.Received != 0 || st.Errors != 0 {
			t.Errorf("%d were received while paused, %d errors", st.Received, st.Errors)
		}
		if err := e.Resume(); err != nil {
			t.Error(err)
		}
		rest(time.Second)
		s.balance(t)
		stop()
	})
}

// One message alone, which waits for more, goes back at a pause too.
func TestAPauseGivesBackASingleMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(1)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 10, Age: time.Hour, Work: nothing.work})
		rest(time.Second)
		if err := e.Pause(); err != nil {
			t.Error(err)
		}
		rest(time.Second)
		equal(t, "ends", s.fates(), []string{"1 again 0s burn=false"})
		stop()
	})
}

// Where all but one of a batch were delivered one by one, the one is to blame: it is not asked
// again alone.
func TestTheLastOneLiveIsToBlame(t *testing.T) {
	calls := 0
	s := flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Do: func(_ context.Context, b []*item) error {
		calls++
		b[0].Deliver()
		return tidemill.Fail(tidemill.Validation, "no")
	}}}}
	equal(t, "tasks", run(t, t.Context(), s, tasks("ab")), "a:delivered b!send: no")
	equal(t, "calls", calls, 1)
}

// The gate of the source is told at once that nothing passes, whatever the reason; and the
// log says how the breaker stands.
func TestTheGateIsToldAtOnce(t *testing.T) {
	for _, c := range []struct {
		kind tidemill.Kind
		shut time.Duration
		log  []string
	}{
		{tidemill.Credentials, 20 * time.Second, []string{"paused: "}},
		{tidemill.RateLimit, 7 * time.Second, []string{"state=held"}},
		{tidemill.Timeout, 10 * time.Second, []string{"state=open", "state=closed"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := gated{newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(1)...)}
			d := &destination{down: true, kind: c.kind, after: 7 * time.Second}
			var log strings.Builder
			begin := time.Now()
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: each(d.call).work, PauseFor: 20 * time.Second, Retry: policy.Retry{Tries: 9, Base: time.Second},
				Breaker: policy.Breaker{Fails: 1, Open: 10 * time.Second, Jitter: -1}, Log: slog.New(slog.NewTextHandler(&log, nil))})
			rest(time.Second)
			if g := s.told(); len(g) != 1 || g[0].until.Sub(begin).Round(time.Second) != c.shut {
				t.Errorf("%v: the gate was told %v, want once, for %v", c.kind, g, c.shut)
			}
			d.set(false)
			rest(time.Hour)
			s.balance(t)
			stop()
			for _, line := range []string{"state=held", "state=open", "state=half-open", "state=closed", "paused: "} {
				want := 0
				if slices.Contains(c.log, line) {
					want = 1
				}
				// A pause is the only one after which nothing says that it is over but a probe.
				if n := strings.Count(log.String(), line); n != want && (c.kind != tidemill.Credentials || line != "state=closed") {
					t.Errorf("%v: %d lines with %q, want %d:\n%s", c.kind, n, line, want, log.String())
				}
			}
		})
	}
}

// Dead letters are looked up for redelivered messages, and only where the source does not
// keep its own.
func TestWhenDeadLettersAreAskedFor(t *testing.T) {
	for _, c := range []struct {
		parks  bool
		handed int // before
		asked  bool
	}{{false, 0, false}, {false, 1, true}, {true, 1, false}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Parks: c.parks}).add(tidemill.Message{Handed: c.handed})
			dead := &letters{has: []error{errDown}}
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Work: nothing.work})
			rest(time.Minute)
			if asked := len(dead.has) == 0; asked != c.asked {
				t.Errorf("%+v: asked is %v", c, asked)
			}
			s.balance(t)
			stop()
		})
	}
}

// What time is up for goes back at once, whatever the lane was about to do.
func TestAStopWhileOthersCannotBeAsked(t *testing.T) {
	for what, c := range map[string]struct {
		p    func(*flow.Pipeline)
		dead *letters
	}{
		"for dead letters": {func(*flow.Pipeline) {}, &letters{has: slices.Repeat([]error{errDown}, 1000)}},
		"to bury": {func(p *flow.Pipeline) {
			p.Work = each(func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Business, "no") }).work
		}, &letters{fail: slices.Repeat([]error{errDown}, 1000)}},
		"to store what is emitted": {func(p *flow.Pipeline) {
			p.Emits = sinkFunc(func([]*tidemill.Message) error { return errDown })
			p.Work = each(func(_ context.Context, t *flow.Task) error { t.Emit(&tidemill.Message{}); return nil }).work
		}, &letters{}},
		"for leave": {func(p *flow.Pipeline) {
			p.May = func(context.Context, []*flow.Task) (int, time.Duration) { return 0, time.Second }
		}, &letters{}},
		"for what comes again in its lane": {func(p *flow.Pipeline) {
			p.Lane = flow.ByKey
			p.Work = each(func(_ context.Context, t *flow.Task) error { t.Again(time.Hour); return nil }).work
		}, &letters{}},
		"for a turn": {func(p *flow.Pipeline) { p.Limiter = policy.Limiter{Rate: 1e-6, Burst: 1} }, &letters{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Delays: true}).add(tidemill.Message{Handed: 1}, tidemill.Message{Handed: 1})
			p := flow.Pipeline{Name: "p", Source: s, Dead: c.dead, Batch: 2, Grace: time.Second, Work: nothing.work}
			c.p(&p)
			_, stop := start(t, p)
			rest(time.Minute)
			if err := stop(); err != nil {
				t.Error(err)
			}
			equal(t, what, s.fates(), []string{"1 again 0s burn=false", "2 again 0s burn=false"})
		})
	}
}

// One at a time is some.
func TestOneMayBeWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(3)...)
		var sizes []int
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 3,
			May:  func(context.Context, []*flow.Task) (int, time.Duration) { return 1, time.Hour },
			Work: batches(func(_ context.Context, b []*flow.Task) error { sizes = append(sizes, len(b)); return nil }).work})
		rest(time.Minute)
		equal(t, "batches", sizes, "[1 1 1]")
		stop()
	})
}

// Who waits with what it has is not moved by what comes meanwhile: neither by a message that
// comes again in its lane, nor by leave that is asked for outside.
func TestWhoWaitsIsNotMovedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		begin := time.Now()
		var worked, asked []string
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 10,
			May: func(context.Context, []*flow.Task) (int, time.Duration) {
				asked = append(asked, time.Since(begin).Round(time.Second).String())
				return len(asked) - 1, time.Minute
			},
			Work: each(func(_ context.Context, task *flow.Task) error {
				if worked = append(worked, fmt.Sprint(task.ID, " ", time.Since(begin).Round(time.Second))); len(worked) == 1 {
					task.Again(time.Minute)
				}
				return nil
			}).work})
		for range 3 {
			rest(30 * time.Second)
			s.add(messages(1)...)
		}
		rest(time.Hour)
		equal(t, "asked", asked[:2], "[0s 1m0s]")
		equal(t, "worked on", worked, "[1 1m0s 1 2m0s 2 2m0s 3 2m0s 4 2m0s]")
		stop()
	})
}

// A lane whose work is done moves on, also where what follows cannot be.
func TestALaneThatHasWorkedHasTurned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(1)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{fail: slices.Repeat([]error{errDown}, 10000)}, Grace: -1, InFlight: 1,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(10 * time.Minute); return errDown }).work})
		rest(30 * time.Minute)
		equal(t, "turned before", time.Since(e.Stats().Turned).Round(time.Minute), "20m0s")
		_ = stop()
	})
}

// A batch that found the breaker open, and has an order to keep, goes back at a stop.
func TestAStopWhileABatchWaitsForTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(2)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lane: flow.ByKey, Batch: 10, Age: 10 * time.Second, Work: nothing.work})
		rest(5 * time.Second)
		e.Trip(time.Hour)
		rest(time.Minute)
		equal(t, "ends", s.fates(), "[]")
		if err := stop(); err != nil {
			t.Error(err)
		}
		equal(t, "ends", s.fates(), "[1 again 0s burn=false 2 again 0s burn=false]")
	})
}

// What goes back because the breaker is open comes again at once where the source's own gate
// holds it back: another instance may know sooner that all is well.
func TestTheGateSaysWhenWhatWentBackComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(20)...)}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 20, Breaker: policy.Breaker{Fails: 1, Open: time.Minute, Jitter: -1},
			Work: each(func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Timeout, "no") }).work})
		rest(time.Second)
		back := 0
		for _, end := range s.ends {
			if end.End == tidemill.Again {
				back++
				if end.After < time.Second || end.After > 1125*time.Millisecond {
					t.Errorf("%s comes again in %v", end.ID, end.After)
				}
			}
		}
		if back != 19 {
			t.Errorf("%d of 19 went back", back)
		}
		stop()
	})
}
