package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

func TestEveryMessageEndsOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(seed, 0))
			chance := func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }
			s := newSource(tidemill.Traits{Delays: true})
			s.tell = []error{errDown, errDown, errDown}
			s.half = true
			dead := &letters{fail: []error{errDown}}
			e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Lanes: 1 + chance(5), Batch: 1 + chance(20),
				Age: time.Duration(chance(3)) * time.Millisecond, Retry: policy.Retry{Tries: 3, Base: time.Second},
				Work: batches(func(_ context.Context, b []*flow.Task) error {
					time.Sleep(time.Duration(chance(5)) * time.Millisecond)
					for _, task := range b {
						switch chance(9) {
						case 0:
							task.Skip("because")
						case 1:
							task.Fail(errDown)
						case 2:
							task.Fail(tidemill.Fail(tidemill.Business, "no"))
						case 3:
							task.Again(time.Minute)
						case 4:
							task.Deliver()
						}
					}
					switch chance(20) {
					case 0:
						return errDown
					case 1:
						return tidemill.Fail(tidemill.Validation, "bad")
					case 2:
						panic("oh")
					}
					return nil
				}).work})
			for range 50 {
				s.add(messages(chance(30))...)
				rest(time.Duration(chance(20)) * time.Millisecond)
			}
			rest(24 * time.Hour)
			s.balance(t)
			st := e.Stats()
			if st.Settled.Total() != s.added || st.InFlight != 0 || int(st.Settled.Dead) != len(dead.put) {
				t.Errorf("seed %d: %+v, want %d settled and %d dead", seed, st, s.added, len(dead.put))
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOrderOfAKeyIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		for i := range 500 {
			s.add(tidemill.Message{Key: fmt.Appendf(nil, "k%d", i%7)})
		}
		var mu sync.Mutex
		last := map[string]uint64{}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 4, Batch: 5, Lane: flow.ByKey,
			Work: batches(func(_ context.Context, b []*flow.Task) error {
				time.Sleep(time.Duration(b[0].Mark.Lo%5) * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				for _, task := range b {
					if last[string(task.Key)] >= task.Mark.Lo {
						t.Errorf("%s: %d after %d", task.Key, task.Mark.Lo, last[string(task.Key)])
					}
					last[string(task.Key)] = task.Mark.Lo
				}
				return nil
			}).work})
		rest(time.Minute)
		s.balance(t)
		stop()
	})
}

// A held message of a key holds back only younger ones of its key, also those of its batch.
func TestHeldMessageHoldsBackItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		for _, k := range []string{"a", "b", "a", "b", "a"} {
			s.add(tidemill.Message{Key: []byte(k)})
		}
		limited := true
		var order []string
		steps := flow.Steps[int]{
			Decode: func(*tidemill.Message, *int) error { return nil },
			Stages: []flow.Stage[int]{
				{Name: "limit", Do: func(_ context.Context, b []*flow.Item[int]) error {
					if limited {
						limited = false
						b[0].Fail(&tidemill.Error{Kind: tidemill.RateLimit, After: 3 * time.Second, Err: errDown})
					}
					return nil
				}},
				{Name: "send", Do: func(_ context.Context, b []*flow.Item[int]) error {
					for _, it := range b {
						order = append(order, it.ID)
					}
					return nil
				}},
			},
		}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 5, Lane: flow.ByKey, Work: steps.Lane})
		rest(time.Minute)
		equal(t, "order", order, []string{"2", "4", "1", "3", "5"})
		s.balance(t)
		stop()
	})
}

// 10 lanes, one message each; every 20th call takes 3 s, the others 20 ms. No message waits
// behind a slow one.
func TestEmptiestLaneIsChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2000)...)
		start_ := time.Now()
		var done time.Time
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 10, InFlight: 10, Linger: -1,
			Work: each(func(_ context.Context, task *flow.Task) error {
				if (task.Mark.Lo*2654435761>>9)%20 == 7 {
					time.Sleep(3 * time.Second)
				} else {
					time.Sleep(20 * time.Millisecond)
				}
				return nil
			}).work,
			Settled: func([]tidemill.Settlement) { done = time.Now() }})
		rest(time.Hour)
		s.balance(t)
		ideal := time.Duration(2000/20)*3*time.Second/10 + 2000*19/20*20*time.Millisecond/10
		if took := done.Sub(start_); took > ideal*3/2 {
			t.Errorf("took %v, want little more than %v", took, ideal)
		}
		stop()
	})
}

func TestWhatComesTogetherGoesToOneLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(10)...)
		var mu sync.Mutex // guards got
		var got []string
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 5, Batch: 10, Runs: 4, InFlight: 100,
			Work: func(env flow.Env) flow.Work {
				return batches(func(_ context.Context, batch []*flow.Task) error {
					mu.Lock()
					defer mu.Unlock()
					for _, task := range batch {
						got = append(got, fmt.Sprint(env.Lane, " ", task.ID))
					}
					return nil
				})
			}})
		rest(time.Second)
		slices.Sort(got)
		equal(t, "lanes and messages", got, []string{"0 1", "0 2", "0 3", "0 4", "1 5", "1 6", "1 7", "1 8", "2 10", "2 9"})
		stop()
	})
}

func TestBatchesAtSizeOrAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		var sizes []string
		begin := time.Now()
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 10, Age: time.Second,
			Work: batches(func(_ context.Context, b []*flow.Task) error {
				sizes = append(sizes, fmt.Sprint(len(b), " at ", time.Since(begin).Round(time.Millisecond)))
				return nil
			}).work})
		s.add(messages(25)...)
		rest(5 * time.Second)
		s.add(messages(3)...)
		rest(500 * time.Millisecond)
		s.add(messages(3)...)
		rest(5 * time.Second)
		s.add(messages(4)...)
		synctest.Wait()
		e.Flush()
		synctest.Wait()
		equal(t, "batches", sizes, []string{"10 at 0s", "10 at 0s", "5 at 1s", "6 at 6s", "4 at 10.5s"})
		s.add(messages(2)...)
		synctest.Wait()
		s.mu.Lock()
		s.fail = []error{tidemill.ErrFlush} // the source asks
		s.ring()
		s.mu.Unlock()
		synctest.Wait()
		equal(t, "after ErrFlush", sizes[5:], []string{"2 at 10.5s"})
		rest(time.Second)
		s.balance(t)
		stop()
	})
}

func TestWhatComesAgainDoesNotWaitForAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(tidemill.Message{Handed: 1}, tidemill.Message{}, tidemill.Message{Handed: 1})
		var got []string
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 10, Age: time.Hour,
			Work: batches(func(_ context.Context, b []*flow.Task) error { got = append(got, ids(b)...); return nil }).work})
		rest(time.Second)
		equal(t, "worked on", got, []string{"1", "2", "3"})
		stop()
	})
}

func TestRejectedBatchesAreHalvedInOrder(t *testing.T) {
	for _, kind := range []tidemill.Kind{tidemill.Validation, tidemill.Business, tidemill.Internal, tidemill.NoKind} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(tidemill.Traits{}).add(messages(8)...)
				dead := &letters{}
				var calls []string
				do := func(ids []string) error {
					calls = append(calls, strings.Join(ids, ""))
					if slices.Contains(ids, "6") {
						if kind == tidemill.NoKind {
							panic("six")
						}
						return tidemill.Fail(kind, "six")
					}
					return nil
				}
				steps := flow.Steps[int]{Decode: func(*tidemill.Message, *int) error { return nil },
					Stages: []flow.Stage[int]{{Name: "send", Do: func(_ context.Context, b []*flow.Item[int]) error {
						var l []string
						for _, it := range b {
							l = append(l, it.ID)
						}
						return do(l)
					}}}}
				want := []string{"12345678", "1234", "5678", "56", "5", "6", "78"}
				_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Batch: 8, Work: steps.Lane})
				rest(time.Second)
				equal(t, "calls of the stage", calls, want)
				s.balance(t)
				if l, ok := dead.put["6"]; !ok || len(dead.put) != 1 || !strings.HasPrefix(l.Cause, "send: ") || l.Tries != 1 {
					t.Errorf("letters: %+v", dead.put)
				}
				stop()

				calls = nil // work without steps
				s = newSource(tidemill.Traits{Parks: true}).add(messages(8)...)
				_, stop = start(t, flow.Pipeline{Name: "p", Source: s, Batch: 8,
					Work: batches(func(_ context.Context, b []*flow.Task) error { return do(ids(b)) }).work})
				rest(time.Second)
				equal(t, "calls of the work", calls, want)
				s.balance(t)
				stop()
			})
		})
	}
}

func TestOtherFailuresAreNotHalved(t *testing.T) {
	for _, kind := range []tidemill.Kind{tidemill.Timeout, tidemill.Unknown, tidemill.Transient, tidemill.Partner, tidemill.NotFound} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Parks: true}).add(messages(8)...)
			calls := 0
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 8,
				Work: batches(func(_ context.Context, b []*flow.Task) error {
					calls++
					return tidemill.Fail(kind, "no")
				}).work})
			rest(time.Second)
			if calls != 1 {
				t.Errorf("%v: called %d times", kind, calls)
			}
			s.balance(t)
			stop()
		})
	}
}

func TestLettersArePutBeforeSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(tidemill.Message{Payload: []byte{0xff, 0}})
		dead := &letters{fail: []error{errDown, errDown, errDown}}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead,
			Backoff: policy.Retry{Tries: -1, Base: time.Second, Factor: 1},
			Work:    each(func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Validation, "bad") }).work})
		rest(2500 * time.Millisecond)
		equal(t, "ends while no letter can be put", s.fates(), []string{})
		if st := e.Stats(); st.Errors != 3 || !errors.Is(st.Last, errDown) {
			t.Errorf("errors in a row %d, last %v", st.Errors, st.Last)
		}
		rest(time.Second)
		equal(t, "ends", s.fates(), []string{"1 dead"})
		if l := dead.put["1"]; string(l.Message.Payload) != "\xff\x00" || l.Kind != tidemill.Validation || l.Pipeline != "p" || l.Tries != 1 || l.At.IsZero() {
			t.Errorf("letter: %+v", l)
		}
		stop()
	})
}

func TestWhatHasNoLetterStaysPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(3)...)
		s.lease = time.Minute
		dead := &letters{fail: []error{&tidemill.Partial{Failed: []tidemill.Failed{{Index: 1, Err: errDown}}}}}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Batch: 3,
			Work: each(func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Validation, "bad") }).work})
		rest(time.Second)
		equal(t, "ends", s.fates(), []string{"1 dead", "2 left", "3 dead"})
		if st := e.Stats(); st.Left != 1 || st.Errors != 0 || st.Settled.Dead != 2 {
			t.Errorf("stats: %+v", st)
		}
		rest(time.Minute)
		equal(t, "ends", s.fates(), []string{"1 dead", "2 left", "3 dead", "2 dead"})
		stop()
	})
}

func TestStopWhileNoLetterCanBePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(1)...)
		dead := &letters{fail: slices.Repeat([]error{errDown}, 1000)}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Grace: 10 * time.Second,
			Work: each(func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Validation, "bad") }).work})
		rest(time.Second)
		begin := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		equal(t, "ends", s.fates(), []string{"1 left"})
		if took := time.Since(begin).Round(time.Second); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestALetterIsTheFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(
			tidemill.Message{ID: "dead", Handed: 1}, tidemill.Message{ID: "again", Handed: 1}, tidemill.Message{ID: "fresh"})
		dead := &letters{has: []error{errDown},
			put:  map[string]tidemill.DeadLetter{"dead": {}, "again": {}, "fresh": {}},
			mark: map[string]tidemill.Mark{"dead": {Lo: 1}, "again": {Lo: 77}, "fresh": {Lo: 3}}}
		var worked []string
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Batch: 3,
			Work: each(func(_ context.Context, task *flow.Task) error { worked = append(worked, task.ID); return nil }).work})
		rest(time.Minute)
		equal(t, "worked on", worked, []string{"again", "fresh"})
		equal(t, "ends", s.fates(), []string{"dead dead", "again delivered", "fresh delivered"})
		if dead.puts != 0 {
			t.Error("a second letter was put")
		}
		stop()
	})
}

func TestHandedOutTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(
			tidemill.Message{ID: "a"}, tidemill.Message{ID: "over", Handed: 10}, tidemill.Message{ID: "at", Handed: 9},
			tidemill.Message{ID: "tried", Handed: 40, Tries: 39}, tidemill.Message{ID: "b"})
		dead := &letters{}
		var worked []string
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Batch: 5, Handouts: 10,
			Work: batches(func(_ context.Context, b []*flow.Task) error { worked = append(worked, fmt.Sprint(ids(b))); return nil }).work})
		rest(time.Minute)
		equal(t, "worked on: the suspect alone", worked, []string{"[a]", "[at]", "[tried b]"})
		if l, ok := dead.put["over"]; !ok || l.Kind != tidemill.Internal || !strings.Contains(l.Cause, "handed out 11 times") || len(dead.put) != 1 {
			t.Errorf("letters: %+v", dead.put)
		}
		s.balance(t)
		stop()
	})
}

func TestSettlingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(10)...)
		s.tell, s.half = []error{errDown, errDown, errDown}, true
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 10, Work: each(func(context.Context, *flow.Task) error { return nil }).work})
		rest(time.Minute)
		s.balance(t)
		if st := e.Stats(); st.Settled.Delivered != 10 || st.Stale != 0 || st.Errors != 0 {
			t.Errorf("%+v", st)
		}
		stop()
	})
}

func TestStaleEndsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 2,
			Work: batches(func(_ context.Context, b []*flow.Task) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.out[2].m.Handed++ // another owner has it now
				return nil
			}).work})
		rest(time.Second)
		if st := e.Stats(); st.Settled.Delivered != 1 || st.Stale != 1 || st.InFlight != 0 {
			t.Errorf("%+v", st)
		}
		stop()
	})
}

func TestErrorsOfTheDoorInBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		s.fail = []error{errDown, errDown, errDown}
		begin := time.Now()
		var done time.Duration
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Linger: -1,
			Backoff: policy.Retry{Tries: -1, Base: time.Second, Factor: 2},
			Work:    each(func(context.Context, *flow.Task) error { done = time.Since(begin); return nil }).work})
		rest(time.Minute)
		if done.Round(time.Millisecond) != 7*time.Second {
			t.Errorf("worked after %v, want 1+2+4 s", done)
		}
		stop()
	})
}

func TestTooManyErrorsInARowEndThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
		s.fail = slices.Repeat([]error{errDown}, 99)
		e, err := flow.New(flow.Pipeline{Name: "p", Source: s, Fatal: 100, Backoff: policy.Retry{Tries: -1, Base: time.Second, Factor: 1},
			Work: each(func(context.Context, *flow.Task) error { return nil }).work,
			Settled: func([]tidemill.Settlement) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.fail = slices.Repeat([]error{errDown}, 1000)
				s.ring()
			}})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = e.Run(t.Context())
		if !errors.Is(err, flow.ErrTooManyErrors) || !errors.Is(err, errDown) {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(begin).Round(time.Second); took != 198*time.Second { // 99, reset by the message, 100 with 99 pauses
			t.Errorf("took %v", took)
		}
		s.balance(t)
	})
}

func TestNoMoreIsReadAheadThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(messages(1000)...)
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: &letters{}, Lanes: 2, Batch: 5, InFlight: 900, Ahead: 20,
			Work: each(func(context.Context, *flow.Task) error { time.Sleep(time.Second); return nil }).work})
		most := 0
		for range 600 {
			rest(time.Second)
			most = max(most, e.Stats().InFlight)
		}
		if got := len(s.fates()); got != 1000 {
			t.Errorf("%d of 1000 ended", got)
		}
		if most < 10 || most > 20+2*5 {
			t.Errorf("%d were held at most, want no more than 30", most)
		}
		stop()
	})
}

// What a source says of how a message really ended is counted and shown, also where it says
// so when it is told for the second time.
func TestWhatTheSourceChangesIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(4)...)
		s.tell, s.half = []error{errDown}, true // the first two are answered at once, the others on the second attempt
		s.change = func(end *tidemill.Settlement) {
			switch end.ID {
			case "1", "3":
				end.Fate, end.Cause = tidemill.Dead, "it was parked already"
			case "4":
				end.Records = tidemill.Count{Delivered: 5, Skipped: 2}
			}
		}
		var seen []string
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 4, Work: nothing.work,
			Settled: func(ends []tidemill.Settlement) {
				for i := range ends {
					seen = append(seen, fmt.Sprint(ends[i].ID, " ", ends[i].Fate, " ", ends[i].Cause))
				}
			}})
		rest(time.Minute)
		equal(t, "settled", e.Stats().Settled, tidemill.Count{Delivered: 1 + 5, Skipped: 2, Dead: 2})
		equal(t, "shown", seen, []string{"1 dead it was parked already", "2 delivered ", "3 dead it was parked already", "4 delivered "})
		stop()
	})
}

func TestTheFirstErrorCanEndThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true})
		s.fail = []error{errDown}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Fatal: 1, Work: nothing.work})
		rest(time.Minute)
		equal(t, "state", e.State(), flow.Stopped)
		if err := stop(); !errors.Is(err, flow.ErrTooManyErrors) {
			t.Errorf("Run: %v", err)
		}
	})
}
