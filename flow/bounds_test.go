package flow_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

func TestNoNumberIsBelowZero(t *testing.T) {
	for i, p := range []flow.Pipeline{{Lanes: -1}, {Batch: -1}, {InFlight: -1}, {Runs: -1}, {Ahead: -1}, {Prepared: -1}, {Age: -1},
		{Fatal: -1}, {Telling: -1}, {PauseFor: -1}, {Threshold: -.1}, {Threshold: 1.1}} {
		p.Name, p.Source, p.Work = "p", newSource(tidemill.Traits{Parks: true}), nothing.work
		if _, err := flow.New(p); err == nil {
			t.Errorf("number %d is taken", i)
		}
	}
	for i, p := range []flow.Pipeline{{Threshold: 1}, {Lanes: 4, InFlight: 4}, {Lanes: 2, Batch: 10, InFlight: 20, Age: 1}, {Prepared: 1 << 20, InFlight: 1}} {
		p.Name, p.Source, p.Work = "p", newSource(tidemill.Traits{Parks: true}), nothing.work
		if _, err := flow.New(p); err != nil {
			t.Errorf("bound %d: %v", i, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := flow.NewSystem(flow.SystemParts{Name: "s", Loops: []flow.Loop{{Name: "l", Every: 1, Do: func(context.Context) error { return nil }}}}).Run(ended); err != nil {
		t.Errorf("a loop that hardly rests: %v", err)
	}
	if err := flow.NewSystem(flow.SystemParts{Name: "s", Loops: []flow.Loop{{Name: "l", Do: func(context.Context) error { return nil }}}}).Run(t.Context()); err == nil {
		t.Error("a loop without rest is taken")
	}
}

func TestAnEngineThatNeverRanHasNotTurned(t *testing.T) {
	e, err := flow.New(flow.Pipeline{Name: "p", Source: newSource(tidemill.Traits{Parks: true}), Work: nothing.work})
	if err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); !s.Turned.IsZero() || len(s.Failures) != 0 || s.Awaited != 0 || s.Workers != 1 {
		t.Errorf("%+v", s)
	}
}

// idle is a source that has nothing and does not wait.
type idle struct {
	*memorySource
	asked *atomic.Int64
}

func (s idle) Receive(context.Context, []*tidemill.Message) (int, error) {
	s.asked.Add(1)
	return 0, nil
}

func TestASourceThatDoesNotWaitIsAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := idle{newSource(tidemill.Traits{Parks: true}), new(atomic.Int64)}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work})
		rest(20 * time.Second) // 1 + 2 + … + 99 ms are 4.95 s, and then each 100 ms
		if n := s.asked.Load(); n != 1+99+150 {
			t.Errorf("asked %d times in twenty seconds, want 250", n)
		}
		stop()
	})
}

// An end from outside that names no hand-out and is not answered is not told again, if it
// asks for the message again: that might count twice. Others are.
func TestWhichAcksAreToldAgain(t *testing.T) {
	for _, c := range []struct {
		end  tidemill.Settlement
		want []string
	}{
		{tidemill.Settlement{ID: "1", End: tidemill.Again, CountTry: true}, []string{"1 left"}},
		{tidemill.Settlement{ID: "1", Mark: tidemill.Mark{Lo: 1, Epoch: 1}, End: tidemill.Again, CountTry: true}, []string{"1 left", "1 again 0s burn=true", "1 left"}},
		{tidemill.Settlement{ID: "1", Fate: tidemill.Delivered}, []string{"1 left", "1 delivered"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(1)...)
			acks := make(chan tidemill.Settlement, 1)
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, AckGrace: time.Second,
				Acks: func(ctx context.Context, into []tidemill.Settlement) (int, error) {
					select {
					case into[0] = <-acks:
						return 1, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				},
				Work: each(func(_ context.Context, t *flow.Task) error { t.Defer(); return nil }).work})
			rest(time.Second)
			s.mu.Lock()
			s.tell = []error{errDown}
			s.mu.Unlock()
			acks <- c.end
			rest(time.Minute)
			equal(t, "ends", s.fates(), c.want)
			stop()
		})
	}
}

// Acks are awaited for AckGrace, half a second unless it is said.
func TestAcksAreAwaitedForATime(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{0: 500 * time.Millisecond, 3 * time.Second: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(1)...)
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, AckGrace: grace,
				Acks: func(ctx context.Context, _ []tidemill.Settlement) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
				Work: each(func(_ context.Context, t *flow.Task) error { t.Defer(); return nil }).work})
			rest(time.Second)
			begin := time.Now()
			stop()
			if took := time.Since(begin).Round(time.Millisecond); took != want {
				t.Errorf("grace %v: a stop took %v, want %v", grace, took, want)
			}
		})
	}
}

// miscounting answers for one message too few at first.
type miscounting struct {
	*letters
	wrong int
}

func (m *miscounting) Has(ctx context.Context, p string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	has, err := m.letters.Has(ctx, p, ids, marks)
	if m.wrong > 0 && len(has) > 0 {
		m.wrong--
		has = has[1:]
	}
	return has, err
}

func TestTooFewAnswersOfTheDeadLettersAreAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Delays: true}).add(tidemill.Message{ID: "m", Handed: 1})
		dead := &miscounting{&letters{}, 2}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Work: nothing.work, Backoff: policy.Retry{Tries: -1, Base: time.Second}})
		rest(2500 * time.Millisecond)
		if st := e.Stats(); st.Errors != 2 || st.InFlight != 1 {
			t.Errorf("%d errors, %d in flight; want two, and it waits", st.Errors, st.InFlight)
		}
		rest(time.Second)
		equal(t, "ends", s.fates(), []string{"m delivered"})
		stop()
	})
}

// A sink of what is emitted that panics is one that fails, and what cannot go back to the
// source dies of what was refused.
func TestEmitsThatFail(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func() error
		want  []string
	}{
		{"a panic", func() error { panic("of the sink") }, []string{"1 dead"}},
		{"refused", func() error { return tidemill.Fail(tidemill.Validation, "no") }, []string{"1 dead"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Emits: sinkFunc(func([]*tidemill.Message) error { return c.write() }),
				Rules: policy.Table{tidemill.Validation: {Do: policy.Retrying}},
				Work:  each(func(_ context.Context, t *flow.Task) error { t.Emit(&tidemill.Message{}); return nil }).work})
			rest(time.Minute)
			equal(t, c.name, s.fates(), c.want)
			stop()
		})
	}
}

// Errors of a gate are further and further apart.
func TestErrorsOfAGateBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := 1 << 30
		s := deaf{gated{newSource(tidemill.Traits{Parks: true})}, &fail}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work, Backoff: policy.Retry{Tries: -1, Base: time.Second}})
		rest(time.Second)
		e.Trip(time.Hour)
		rest(21*time.Second + time.Millisecond) // after 0, 1, 1+2 … 1+2+3+4+5+6
		if n := 1<<30 - fail; n != 7 {
			t.Errorf("%d calls, want 7", n)
		}
		stop()
	})
}

// What a rate limit asks a source without delay for is not worked on as nothing: a batch
// that goes back is no batch.
func TestWorkIsNeverAskedToDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(4)...)
		var sizes []int
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 2, Breaker: policy.Breaker{Fails: 1, Open: time.Second, Jitter: -1},
			Work: batches(func(_ context.Context, b []*flow.Task) error {
				sizes = append(sizes, len(b))
				return errors.New("down")
			}).work})
		rest(500 * time.Millisecond)
		if err := e.Pause(); err != nil {
			t.Error(err)
		}
		rest(time.Minute)
		if err := e.Resume(); err != nil {
			t.Error(err)
		}
		rest(time.Minute)
		if slices.Contains(sizes, 0) || len(sizes) == 0 {
			t.Errorf("batches of %v", sizes)
		}
		stop()
	})
}

// What was handed out a hundred times more than it was tried may be tried, and no more.
func TestHandoutsByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(tidemill.Message{ID: "at", Handed: 99}, tidemill.Message{ID: "over", Handed: 100})
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work})
		rest(time.Minute)
		equal(t, "ends", s.fates(), []string{"at delivered", "over dead"})
		stop()
	})
}

// What is wrong with the beginning is no stop, and a stop in it is no error of Run.
func TestAStopAfterTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stopped := range []bool{false, true} {
			ctx, stop := context.WithCancel(t.Context())
			var later bool
			begin := []func(context.Context) error{
				func(context.Context) error {
					if stopped {
						stop()
						return nil
					}
					return errDown
				},
				func(context.Context) error { later = true; return nil },
			}
			if stopped {
				begin = begin[:1]
			}
			s := flow.NewSystem(flow.SystemParts{Name: "s", Begin: begin, Listeners: []flow.Listener{func(context.Context) error { later = true; return nil }}})
			if err := s.Run(ctx); (err == nil) != stopped || later {
				t.Errorf("stopped %v: %v, went on %v", stopped, err, later)
			}
			stop()
		}
	})
}

// A destination that asks for a wait below zero asks for none.
func TestAWishBelowZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(1)...)
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Retry: policy.Retry{Tries: 1}, Work: each(func(context.Context, *flow.Task) error {
			return &tidemill.Error{Kind: tidemill.Timeout, After: -time.Hour, Err: errDown}
		}).work})
		rest(time.Minute)
		equal(t, "ends", s.fates(), []string{"1 again 0s burn=true", "1 dead"})
		stop()
	})
}

// What a stage delivered one by one is not sent again when the stage fails after that.
func TestWhatWasDeliveredIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Retry: policy.Retry{Tries: 3, Base: time.Second},
			Do: func(_ context.Context, b []*item) error {
				calls++
				for _, it := range b {
					it.Deliver()
				}
				return errDown
			}}}}
		batch := tasks("ab")
		run(t, t.Context(), s, batch)
		if calls != 1 || batch[0].Live() || batch[0].Err() != nil {
			t.Errorf("%d calls, %v", calls, batch[0].Err())
		}
	})
}

// What goes back because the breaker is open comes again after the cool-down, not before,
// and spread over an eighth of it.
func TestWhatGoesBackComesAfterTheCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(40)...)
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 40, Breaker: policy.Breaker{Fails: 1, Open: 16 * time.Second, Jitter: -1},
			Rand: rand.New(rand.NewPCG(1, 1)),
			Work: each(func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Timeout, "no") }).work})
		rest(time.Second)
		back, latest := map[time.Duration]bool{}, time.Duration(0)
		for _, end := range s.ends {
			if end.End != tidemill.Again {
				continue
			}
			back[end.After], latest = true, max(latest, end.After)
			if end.After < 16*time.Second-time.Millisecond || end.After > 18*time.Second {
				t.Errorf("%s comes again in %v", end.ID, end.After)
			}
		}
		if len(back) < 20 || latest < 16*time.Second*111/100 {
			t.Errorf("%d different waits of 39, up to %v; want them over an eighth of the time", len(back), latest)
		}
		stop()
	})
}

// moody is a source whose reads end as they are told to.
type moody struct {
	*memorySource
	reads *[]time.Time
	as    []string // "nothing", "error", "message"; then it waits
}

func (s moody) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n := len(*s.reads)
	*s.reads = append(*s.reads, time.Now())
	if n < len(s.as) {
		switch s.as[n] {
		case "nothing":
			return 0, nil
		case "error":
			return 0, errDown
		}
	}
	return s.memorySource.Receive(ctx, into)
}

// The waits of the receiver begin anew after a read that succeeded.
func TestWaitsBetweenReadsBeginAnew(t *testing.T) {
	for what, c := range map[string]struct {
		as   []string
		want string
	}{
		"reads of nothing": {[]string{"nothing", "nothing", "nothing", "message", "nothing", "nothing"}, "[1ms 2ms 3ms 0s 1ms 2ms]"},
		"errors":           {[]string{"error", "error", "message", "error", "error"}, "[1s 2s 0s 1s 2s]"},
		"both":             {[]string{"error", "error", "nothing", "error", "nothing"}, "[1s 2s 1ms 1s 2ms 0s]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := moody{newSource(tidemill.Traits{Parks: true}).add(messages(1)...), new([]time.Time), c.as}
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: nothing.work, Backoff: policy.Retry{Tries: -1, Base: time.Second}})
			rest(time.Minute)
			var waits []time.Duration
			for i, at := range (*s.reads)[1:] {
				waits = append(waits, at.Sub((*s.reads)[i]).Round(time.Millisecond))
			}
			equal(t, what, waits, c.want)
			stop()
		})
	}
}

// Ends wait for others, but not once everything that may be held has ended.
func TestALingerEndsWhereNoMoreCanCome(t *testing.T) {
	for n, want := range map[int]time.Duration{3: time.Minute, 4: 3 * time.Second, 6: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Parks: true}).add(messages(n)...)
			begin, settled := time.Now(), time.Duration(0)
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 4, InFlight: 4, Linger: time.Minute,
				Settled: func([]tidemill.Settlement) {
					if settled == 0 {
						settled = time.Since(begin).Round(time.Second)
					}
				},
				Work: each(func(_ context.Context, task *flow.Task) error {
					if task.Mark.Lo < 4 {
						return nil
					}
					time.Sleep(3 * time.Second)
					return nil
				}).work})
			rest(time.Hour)
			equal(t, "settled first after", settled, want)
			s.balance(t)
			stop()
		})
	}
}

// boastful is a source that says that it filled more than it was given, or less than nothing.
type boastful struct{ *memorySource }

func (s boastful) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := s.memorySource.Receive(ctx, into)
	if n == 0 {
		return -1, err
	}
	return n + 7*len(into), err
}

func TestASourceThatCannotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := boastful{newSource(tidemill.Traits{Parks: true}).add(messages(6)...)}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 3, Work: nothing.work})
		rest(time.Minute)
		s.balance(t)
		stop()
	})
}
