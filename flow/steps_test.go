package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

type item = flow.Item[value]
type value struct{ seen []string }

// journal writes down which stage was called with which items.
type journal []string

func (j *journal) stage(name string, do func(n int, batch []*item) error) flow.Stage[value] {
	n := 0
	return flow.Stage[value]{Name: name, Do: func(_ context.Context, batch []*item) error {
		line := name + " "
		for _, it := range batch {
			line += it.ID
		}
		*j = append(*j, line)
		n++
		if do == nil {
			return nil
		}
		return do(n, batch)
	}}
}

func tasks(ids string) (l []*flow.Task) {
	for _, id := range ids {
		l = append(l, flow.NewTask(tidemill.Message{ID: string(id)}))
	}
	return l
}

func decodeNothing(*tidemill.Message, *value) error { return nil }

// run works on a batch and returns how each task stands: "a", "b:skipped", "c!why".
func run(t *testing.T, ctx context.Context, s flow.Steps[value], batch []*flow.Task) string {
	t.Helper()
	if s.Decode == nil {
		s.Decode = decodeNothing
	}
	w := s.Lane(flow.Env{Batch: len(batch), Rand: rand.New(rand.NewPCG(1, 1))})
	if err := w.Do(ctx, batch); err != nil {
		t.Errorf("Do: %v", err)
	}
	var l []string
	for _, task := range batch {
		x := task.ID
		if fate, err := task.Outcome(); err != nil {
			x += "!" + err.Error()
		} else if fate != tidemill.None {
			x += ":" + fate.String()
		} else if !task.Live() {
			x += ":" + map[tidemill.End]string{tidemill.Again: "again", tidemill.Left: "left"}[task.Settlement().End]
		}
		l = append(l, x)
	}
	return strings.Join(l, " ")
}

func TestStagesFollowEachOther(t *testing.T) {
	var j journal
	s := flow.Steps[value]{
		Decode: func(m *tidemill.Message, _ *value) error {
			switch m.ID {
			case "x":
				return tidemill.Fail(tidemill.Validation, "unreadable")
			case "y":
				panic("decoder")
			}
			return nil
		},
		Stages: []flow.Stage[value]{
			j.stage("check", func(_ int, b []*item) error { b[1].Skip("dup"); b[2].Fail(errDown); return nil }),
			j.stage("one", func(_ int, b []*item) error { b[0].Deliver(); return nil }),
			j.stage("two", func(_ int, b []*item) error { b[0].Again(time.Second); b[1].Defer(); return nil }),
			j.stage("never", nil),
		},
	}
	got := run(t, t.Context(), s, tasks("abcxdye"))
	equal(t, "calls", j, []string{"check abcde", "one ade", "two de"})
	equal(t, "tasks", got, "a:delivered b:skipped c!down x!unreadable d:again y!panic: decoder e:left")
}

func TestRetryInPlaceRepeatsTheFailedStageOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		two := j.stage("two", func(n int, _ []*item) error {
			if n < 3 {
				return errDown
			}
			return nil
		})
		two.Retry = policy.Retry{Tries: 2, Base: time.Second}
		begin := time.Now()
		got := run(t, t.Context(), flow.Steps[value]{Stages: []flow.Stage[value]{j.stage("one", nil), two, j.stage("three", nil)}}, tasks("abc"))
		equal(t, "calls", j, []string{"one abc", "two abc", "two abc", "two abc", "three abc"})
		equal(t, "tasks", got, "a b c")
		equal(t, "took", time.Since(begin).Round(time.Millisecond), "3s")
	})
}

func TestRetryInPlaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{}).add(tidemill.Message{Tries: 0})
		dead := &letters{}
		steps := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{{Name: "store", Retry: policy.Warehouse,
			Do: func(_ context.Context, b []*item) error { b[0].Row([]byte("row")); return errDown }}}}
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Dead: dead, Work: steps.Lane})
		rest(time.Minute)
		if l := dead.put["1"]; l.Tries != 3 || l.Cause != "store: down" || string(l.Row) != "row" || l.At.Sub(time.Unix(946684800, 0)) < 3*time.Second {
			t.Errorf("letter: %+v", l)
		}
		stop()
	})
}

func TestUnknownOutcome(t *testing.T) {
	lost := tidemill.Fail(tidemill.Unknown, "answer lost")
	for _, c := range []struct {
		name    string
		err     error
		repeat  bool
		calls   []string
		outcome string
	}{
		{"is repeated with the same members where that is harmless", lost, true, []string{"send abc", "send abc"}, "a b c"},
		{"is not repeated where it is not", lost, false, []string{"send abc"}, "a!send: answer lost b!send: answer lost c!send: answer lost"},
		{"is what a missed deadline is where repeating does harm", context.DeadlineExceeded, false, []string{"send abc"},
			"a!send: context deadline exceeded b!send: context deadline exceeded c!send: context deadline exceeded"},
		{"is not what a missed deadline is where repeating is harmless", context.DeadlineExceeded, true, []string{"send abc", "send abc"}, "a b c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				st := j.stage("send", func(n int, _ []*item) error {
					if n == 1 {
						return c.err
					}
					return nil
				})
				st.Retry, st.Repeat = policy.Retry{Tries: 3, Base: time.Second}, c.repeat
				batch := tasks("abc")
				equal(t, "tasks", run(t, t.Context(), flow.Steps[value]{Stages: []flow.Stage[value]{st}}, batch), c.outcome)
				equal(t, "calls", j, c.calls)
				if err := batch[0].Err(); err != nil && tidemill.KindOf(err) != tidemill.Unknown {
					t.Errorf("kind %v, want unknown", tidemill.KindOf(err))
				}
			})
		})
	}
}

// Without a retry in place an unknown outcome of a harmless stage is the pipeline's to
// repeat; of another it is dead and waits for a person.
func TestUnknownOutcomeByRedelivery(t *testing.T) {
	for repeat, want := range map[bool]string{
		true:  "[1 again 1s burn=true 1 delivered]",
		false: "[1 dead]",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(1)...)
			n := 0
			steps := flow.Steps[value]{Decode: decodeNothing, Stages: []flow.Stage[value]{{Name: "send", Repeat: repeat,
				Do: func(context.Context, []*item) error {
					if n++; n == 1 {
						return tidemill.Fail(tidemill.Unknown, "lost")
					}
					return nil
				}}}}
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Work: steps.Lane, Retry: policy.Retry{Tries: 1, Base: time.Second}})
			rest(time.Minute)
			equal(t, fmt.Sprint("ends, repeat=", repeat), s.fates(), want)
			stop()
		})
	}
}

func TestPartialFailure(t *testing.T) {
	bad := tidemill.Fail(tidemill.Validation, "bad")
	for _, c := range []struct {
		name    string
		retry   policy.Retry
		answers []error
		calls   []string
		outcome string
	}{
		{"fails the items it names", policy.Retry{},
			[]error{&tidemill.Partial{Failed: []tidemill.Failed{{Index: 3, Err: bad}, {Index: 1, Err: errDown}}}},
			[]string{"send abcde"}, "a b!send: down c d!send: bad e"},
		{"is repeated for the items it names only, in order", policy.Retry{Tries: 3, Base: time.Second},
			[]error{&tidemill.Partial{Failed: []tidemill.Failed{{Index: 4, Err: errDown}, {Index: 3, Err: bad}, {Index: 1, Err: errDown}, {Index: 1, Err: errDown}}},
				&tidemill.Partial{Failed: []tidemill.Failed{{Index: 1, Err: errDown}}}},
			[]string{"send abcde", "send be", "send e"}, "a b c d!send: bad e"},
		{"uses up the tries", policy.Retry{Tries: 1, Base: time.Second},
			[]error{&tidemill.Partial{Failed: []tidemill.Failed{{Index: 0, Err: errDown}, {Index: 1, Err: errDown}}}, &tidemill.Partial{Failed: []tidemill.Failed{{Index: 1, Err: errDown}}}},
			[]string{"send abcde", "send ab"}, "a b!send: down c d e"},
		{"can turn into a whole one", policy.Retry{Tries: 1, Base: time.Second},
			[]error{&tidemill.Partial{Failed: []tidemill.Failed{{Index: 0, Err: errDown}, {Index: 1, Err: errDown}}}, errDown},
			[]string{"send abcde", "send ab"}, "a!send: down b!send: down c d e"},
		{"of nobody is none", policy.Retry{Tries: 1, Base: time.Second},
			[]error{&tidemill.Partial{}},
			[]string{"send abcde"}, "a b c d e"},
		{"with an index that is not there fails all", policy.Retry{Tries: 1, Base: time.Second},
			[]error{&tidemill.Partial{Failed: []tidemill.Failed{{Index: 5, Err: errDown}}}},
			[]string{"send abcde"}, strings.TrimSpace(strings.Repeat("?!send: message 5 of a batch of 5 failed: down ", 5))},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				st := j.stage("send", func(n int, _ []*item) error {
					if n <= len(c.answers) {
						return c.answers[n-1]
					}
					return nil
				})
				st.Retry = c.retry
				want := c.outcome
				for _, id := range "abcde" {
					want = strings.Replace(want, "?", string(id), 1)
				}
				batch, begin := tasks("abcde"), time.Now()
				equal(t, "tasks", run(t, t.Context(), flow.Steps[value]{Stages: []flow.Stage[value]{st}}, batch), want)
				equal(t, "calls", j, c.calls)
				equal(t, "waited", time.Since(begin), time.Duration(len(c.calls)*(len(c.calls)-1)/2)*time.Second)
				if kind := tidemill.KindOf(batch[0].Err()); strings.Contains(c.name, "not there") && kind != tidemill.Internal {
					t.Errorf("kind %v, want internal", kind)
				}
			})
		})
	}
}

// Of several messages that are to wait, the longest wait is that of all.
func TestThePartsOfABatchWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		limit := func(i int, after time.Duration) tidemill.Failed {
			return tidemill.Failed{Index: i, Err: &tidemill.Error{Kind: tidemill.RateLimit, After: after, Err: errDown}}
		}
		st := j.stage("send", func(n int, _ []*item) error {
			if n > 1 {
				return nil
			}
			return &tidemill.Partial{Failed: []tidemill.Failed{limit(0, 2*time.Second), limit(1, 5*time.Second), limit(2, 3*time.Second)}}
		})
		st.Retry = policy.Retry{Tries: 1, Base: time.Second}
		begin := time.Now()
		equal(t, "tasks", run(t, t.Context(), flow.Steps[value]{Stages: []flow.Stage[value]{st}}, tasks("abcd")), "a b c d")
		equal(t, "took", time.Since(begin).Round(time.Millisecond), "5s")
	})
}

func TestRateLimitInPlaceIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		st := j.stage("send", func(n int, _ []*item) error {
			if n < 10 {
				return &tidemill.Error{Kind: tidemill.RateLimit, After: 5 * time.Second, Err: errDown}
			}
			return nil
		})
		st.Retry = policy.Retry{Tries: 1, Base: time.Second}
		begin := time.Now()
		equal(t, "tasks", run(t, t.Context(), flow.Steps[value]{Stages: []flow.Stage[value]{st}}, tasks("a")), "a")
		equal(t, "took", time.Since(begin).Round(time.Millisecond), "45s")
	})
}

func TestTimeoutOfAStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Repeat: true, Timeout: 3 * time.Second,
			Retry: policy.Retry{Tries: 1, Base: time.Second},
			Do:    func(ctx context.Context, _ []*item) error { <-ctx.Done(); return ctx.Err() }}}}
		begin := time.Now()
		equal(t, "tasks", run(t, t.Context(), s, tasks("a")), "a!send: context deadline exceeded")
		equal(t, "took", time.Since(begin).Round(time.Millisecond), "7s")
	})
}

func TestEndOfContextStopsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s := flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Retry: policy.Retry{Tries: -1, Base: time.Second, Factor: 1},
			Do: func(context.Context, []*item) error { return errDown }}, {Name: "next", Do: func(context.Context, []*item) error { t.Error("went on"); return nil }}}}
		begin := time.Now()
		run(t, ctx, s, tasks("a"))
		equal(t, "took", time.Since(begin), "10s")
	})
}

func TestValuesAreZeroedOrReset(t *testing.T) {
	var seen []string
	plain := flow.Steps[value]{
		Decode: func(m *tidemill.Message, v *value) error {
			seen = append(seen, fmt.Sprint(m.ID, len(v.seen)))
			v.seen = append(v.seen, m.ID)
			return nil
		}}.Lane(flow.Env{})
	for range 2 {
		plain.Do(t.Context(), tasks("ab"))
	}
	equal(t, "zeroed", seen, []string{"a0", "b0", "a0", "b0"})
	seen = nil
	resets := flow.Steps[keeper]{
		Decode: func(m *tidemill.Message, v *keeper) error {
			seen = append(seen, fmt.Sprint(m.ID, len(v.memory), v.resets))
			return nil
		}}.Lane(flow.Env{})
	for range 2 {
		resets.Do(t.Context(), tasks("ab"))
	}
	equal(t, "reset", seen, []string{"a0 1", "b0 1", "a0 2", "b0 2"})
}

type keeper struct {
	memory []byte
	resets int
}

func (k *keeper) Reset() { k.memory = k.memory[:0]; k.resets++ }

// sinkFunc is a sink.
type sinkFunc func([]*tidemill.Message) error

func (f sinkFunc) Write(_ context.Context, b []*tidemill.Message) error { return f(b) }

func TestToMapsTheSinksFailuresToItems(t *testing.T) {
	var wrote []string
	do := flow.To(sinkFunc(func(b []*tidemill.Message) error {
		for _, m := range b {
			wrote = append(wrote, m.ID+string(m.Payload)+m.To)
			m.To = "left over"
		}
		if len(b) < 3 {
			return nil
		}
		return &tidemill.Partial{Failed: []tidemill.Failed{{Index: 1, Err: errDown}}}
	}), func(it *item, m *tidemill.Message) error {
		m.ID = it.ID
		m.Payload = append(m.Payload, "+"...)
		if it.ID == "b" {
			return tidemill.Fail(tidemill.Validation, "cannot encode")
		}
		return nil
	})
	s := flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Do: do}}}
	equal(t, "tasks", run(t, t.Context(), s, tasks("abcd")), "a b!cannot encode c!send: down d")
	equal(t, "tasks", run(t, t.Context(), s, tasks("e")), "e")
	equal(t, "tasks", run(t, t.Context(), s, tasks("b")), "b!cannot encode")
	equal(t, "written", wrote, []string{"a+", "c+", "d+", "e+"})
}

func TestToRefusesIndexesThatAreNotThere(t *testing.T) {
	do := flow.To(sinkFunc(func(b []*tidemill.Message) error {
		return &tidemill.Partial{Failed: []tidemill.Failed{{Index: len(b), Err: errDown}}}
	}), func(*item, *tidemill.Message) error { return nil })
	s := flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Do: do}}}
	batch := tasks("a")
	run(t, t.Context(), s, batch)
	if err := batch[0].Err(); tidemill.KindOf(err) != tidemill.Internal || !errors.Is(err, errDown) {
		t.Errorf("%v", err)
	}
	mute := flow.To(sinkFunc(func(b []*tidemill.Message) error {
		return &tidemill.Partial{Failed: []tidemill.Failed{{Index: -1}}}
	}), func(*item, *tidemill.Message) error { return nil })
	batch = tasks("a")
	run(t, t.Context(), flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Do: mute}}}, batch)
	if err := batch[0].Err(); tidemill.KindOf(err) != tidemill.Internal || !strings.Contains(err.Error(), "no reason") {
		t.Errorf("%v", err)
	}
}

// A message that a wrapper has ended is not decoded: it could only fail, to no use.
func TestWhatHasEndedIsNotDecoded(t *testing.T) {
	batch := tasks("ab")
	batch[0].Skip("duplicate")
	s := flow.Steps[value]{Decode: func(m *tidemill.Message, _ *value) error {
		if m.ID == "a" {
			return tidemill.Fail(tidemill.Validation, "unreadable")
		}
		return nil
	}}
	equal(t, "tasks", run(t, t.Context(), s, batch), "a:skipped b")
}

// The first message of a sink is as good as any, and a panic that is an error is found in what
// it becomes.
func TestTheFirstMessageOfASink(t *testing.T) {
	do := flow.To(sinkFunc(func([]*tidemill.Message) error {
		return &tidemill.Partial{Failed: []tidemill.Failed{{Index: 0, Err: errDown}}}
	}), func(*item, *tidemill.Message) error { return nil })
	equal(t, "tasks", run(t, t.Context(), flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Do: do}}}, tasks("ab")), "a!send: down b")
	batch := tasks("a")
	run(t, t.Context(), flow.Steps[value]{Stages: []flow.Stage[value]{{Name: "send", Do: func(context.Context, []*item) error { panic(errDown) }}}}, batch)
	if !errors.Is(batch[0].Err(), errDown) || tidemill.KindOf(batch[0].Err()) != tidemill.Internal {
		t.Errorf("a panic with an error became %v", batch[0].Err())
	}
}
