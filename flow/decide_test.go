package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// What a failure comes to, by its kind, by the tries before, as a probe of a broken
// destination, and by what the source can do.
func TestWhatAFailureComesTo(t *testing.T) {
	retry := policy.Retry{Tries: 2, Base: 3 * time.Second}
	rules := policy.Table{tidemill.NotFound: {Do: policy.Skip}, tidemill.Business: {Do: policy.Retrying, CountTry: true, Blames: true}}
	fail := func(k tidemill.Kind) *tidemill.Error { return &tidemill.Error{Kind: k, Err: errBare} }
	wishes := func(k tidemill.Kind, d time.Duration) *tidemill.Error {
		return &tidemill.Error{Kind: k, Err: errBare, After: d}
	}
	unasked := &tidemill.Error{Kind: tidemill.Timeout, Err: errBare, Unasked: true}
	for _, c := range []struct {
		why    string
		retry  policy.Retry
		delays bool
		err    *tidemill.Error
		before func(*Task)
		probe  bool
		want   string
	}{
		{"no try can save it", retry, true, fail(tidemill.Validation), nil, false, "dead"},
		{"skipped by a rule", retry, true, fail(tidemill.NotFound), nil, false, "skipped"},
		{"the first try", retry, true, fail(tidemill.Timeout), nil, false, "again 3s, a try"},
		{"the second", retry, true, fail(tidemill.Timeout), func(t *Task) { t.Tries = 1 }, false, "again 6s, a try"},
		{"the last", retry, true, fail(tidemill.Timeout), func(t *Task) { t.Tries = 2 }, false, "dead"},
		{"later, if the destination wants", retry, true, wishes(tidemill.Timeout, 7*time.Second), nil, false, "again 7s, a try"},
		{"not in a year", retry, true, wishes(tidemill.Timeout, 9000*time.Hour), nil, false, "again 1h0m0s, a try"},
		{"no retry", policy.Retry{}, true, fail(tidemill.Timeout), nil, false, "dead"},
		{"a lost answer", retry, true, fail(tidemill.Unknown), nil, false, "dead"},
		{"a lost answer that may be repeated", retry, true, fail(tidemill.Unknown), func(t *Task) { t.harmless = true }, false, "again 3s, a try"},
		{"too fast", retry, true, wishes(tidemill.RateLimit, 9*time.Second), nil, false, "again 9s"},
		{"too fast, who knows by how much", retry, true, fail(tidemill.RateLimit), nil, false, "again 3s"},
		{"too fast, where nothing is retried", policy.Retry{}, true, fail(tidemill.RateLimit), nil, false, "again 1s"},
		{"too fast as a probe", retry, true, wishes(tidemill.RateLimit, 9*time.Second), nil, true, "again 9s"},
		{"we are refused", retry, true, fail(tidemill.Credentials), nil, false, "again 2m0s; open"},
		{"a probe", retry, true, fail(tidemill.Timeout), nil, true, "again 50s, a try"},
		{"a probe, later if the destination wants", retry, true, wishes(tidemill.Timeout, time.Minute), nil, true, "again 1m0s, a try"},
		{"the last probe", retry, true, fail(tidemill.Timeout), func(t *Task) { t.Tries = 2 }, true, "dead"},
		{"a probe that blames nobody", retry, true, unasked, nil, true, "again 3s, a try"},
		{"a probe of what no try can save", retry, true, fail(tidemill.Validation), nil, true, "dead"},
		{"a probe without a budget", policy.Retry{}, true, fail(tidemill.Timeout), nil, true, "again 50s, a try; probe 1"},
		{"the hundredth probe without a budget", policy.Retry{}, true, fail(tidemill.Timeout), func(t *Task) { t.probes = 99 }, true, "again 50s, a try; probe 100"},
		{"a probe in the lane", policy.Retry{}, false, fail(tidemill.Timeout), nil, true, "again 0s, a try; probe 1"},
		{"the last in the lane but one", policy.Retry{}, false, fail(tidemill.Timeout), func(t *Task) { t.probes = 19 }, true, "again 0s, a try; probe 20"},
		{"the last in the lane", policy.Retry{}, false, fail(tidemill.Timeout), func(t *Task) { t.probes = 20 }, true, "dead; probe 20"},
		{"a probe that is no failure of the destination's, in the lane", policy.Retry{}, false, unasked, nil, true, "dead"},
	} {
		now := gateStart
		e := bare(t, tidemill.Traits{Delays: c.delays}, &now, Pipeline{Retry: c.retry, Rules: rules, PauseFor: 2 * time.Minute, Breaker: policy.Breaker{Open: 40 * time.Second}})
		task := NewTask(tidemill.Message{ID: "a"})
		if c.before != nil {
			c.before(task)
		}
		task.Fail(c.err)
		rule := e.lanes[0].decide(task, c.probe)
		got := "live"
		switch end := task.Settlement(); {
		case end.End == tidemill.Done:
			got = end.Fate.String()
		case end.End == tidemill.Again:
			got = fmt.Sprint("again ", end.After)
			if end.CountTry {
				got += ", a try"
			}
		}
		if state, _, _ := e.gate.look(now); state == policy.Open {
			got += "; open"
		}
		if task.probes > 0 {
			got += fmt.Sprint("; probe ", task.probes)
		}
		same(t, c.why, got, c.want)
		if end := task.Settlement(); end.Kind != c.err.Kind || end.Cause != c.err.Error() || task.attempts != 1 {
			t.Errorf("%s: %+v, attempts %d", c.why, end, task.attempts)
		}
		if c.err == unasked && rule.Blames {
			t.Errorf("%s: the destination is blamed", c.why)
		}
		l := e.lanes[0]
		if wantFailure := rule.Do != policy.Skip; (l.failure == c.err.Error()) != wantFailure || l.failures[c.err.Kind] != 1 {
			t.Errorf("%s: the failure noted is %q, %d of its kind", c.why, l.failure, l.failures[c.err.Kind])
		}
	}
}

// Tries that a stage counted in place are kept, and a message whose tries are not counted
// is handed out again without one.
func TestTriesBeforeAFailure(t *testing.T) {
	now := gateStart
	e := bare(t, tidemill.Traits{Delays: true}, &now, Pipeline{Handouts: -1})
	task := NewTask(tidemill.Message{ID: "a"})
	task.Fail(tidemill.Fail(tidemill.Timeout, "no"))
	task.attempts = 4
	e.lanes[0].decide(task, true)
	if end := task.Settlement(); task.attempts != 4 || end.End != tidemill.Again || end.CountTry {
		t.Errorf("attempts %d, %+v", task.attempts, end)
	}
}

// What an attempt comes to for the stats: the last failure that was no skip, and when that was.
func TestTheLastFailureIsNoSkip(t *testing.T) {
	now := gateStart
	e := bare(t, tidemill.Traits{}, &now, Pipeline{Rules: policy.Table{tidemill.NotFound: {Do: policy.Skip}}})
	judge := func(err error) {
		task := NewTask(tidemill.Message{ID: "a"})
		if err != nil {
			task.Fail(err)
		}
		e.lanes[0].judge(t.Context(), []*Task{task}, policy.Pass{})
	}
	judge(tidemill.Fail(tidemill.Business, "no"))
	failed := now
	now = now.Add(time.Minute)
	judge(tidemill.Fail(tidemill.NotFound, "who?"))
	judge(nil)
	st := e.Stats()
	if st.Failure != "no" || !st.FailedAt.Equal(failed) || fmt.Sprint(st.Failures) != "map[not_found:1 business:1]" {
		t.Errorf("%q at %v, %v", st.Failure, st.FailedAt, st.Failures)
	}
}

// How long the lane waits for what comes again in it: the longest, and never not at all.
func TestHowLongALaneWaits(t *testing.T) {
	now := gateStart
	for _, c := range []struct {
		why    string
		delays bool
		waits  []time.Duration // below zero: delivered
		want   time.Duration
	}{
		{"the source delays", true, []time.Duration{time.Minute}, 0},
		{"all are done", false, []time.Duration{-1, -1}, 0},
		{"not at all", false, []time.Duration{0}, time.Millisecond},
		{"the longest", false, []time.Duration{time.Second, -1, time.Minute, time.Hour, 2}, time.Hour},
	} {
		e := bare(t, tidemill.Traits{Delays: c.delays}, &now, Pipeline{})
		var todo []*Task
		for _, d := range c.waits {
			task := NewTask(tidemill.Message{ID: "a"})
			if d >= 0 {
				task.Again(d)
			}
			todo = append(todo, task)
		}
		same(t, c.why, e.lanes[0].judge(t.Context(), todo, policy.Pass{}), c.want)
		for i, task := range todo {
			if live := c.waits[i] >= 0 && !c.delays; task.Live() != live {
				t.Errorf("%s: task %d is live: %v", c.why, i, task.Live())
			}
		}
	}
}

// Who was handed out half as often as may be without a try is worked on alone.
func TestTheSuspectIsAlone(t *testing.T) {
	now := gateStart
	for _, c := range []struct {
		handouts int
		handed   []int
		want     int
	}{
		{10, []int{1, 1, 1}, 3}, {10, []int{1, 5, 5}, 3}, {10, []int{1, 1, 6, 1}, 2}, {10, []int{6, 1}, 1},
		{1, []int{1, 1}, 2}, {1, []int{1, 2}, 1}, {-1, []int{1, 999}, 2}, {3, []int{1, 1, 2}, 2},
	} {
		e := bare(t, tidemill.Traits{}, &now, Pipeline{Handouts: c.handouts, Batch: 9})
		for _, n := range c.handed {
			e.lanes[0].batch = append(e.lanes[0].batch, NewTask(tidemill.Message{Handed: n}))
		}
		same(t, fmt.Sprint(c.handed, " of ", c.handouts), e.lanes[0].together(), c.want)
	}
}

// What cannot be stored of what a message emits fails the message itself, and is no probe of
// its destination.
func TestARefusedEmission(t *testing.T) {
	now := gateStart
	rules := policy.Table{tidemill.Business: {Do: policy.Retrying, CountTry: true, Blames: true}}
	for delays, want := range map[bool]string{true: "again after 3s", false: "dead after 0s"} {
		retry := policy.Retry{Tries: 5, Base: 3 * time.Second}
		if !delays {
			retry = policy.Retry{}
		}
		e := bare(t, tidemill.Traits{Delays: delays}, &now, Pipeline{Rules: rules, Retry: retry})
		task := NewTask(tidemill.Message{ID: "a"})
		task.Deliver()
		e.lanes[0].refuse(task, tidemill.Fail(tidemill.Business, "no"))
		end := task.Settlement()
		got := "again"
		if end.End == tidemill.Done {
			got = end.Fate.String()
		}
		same(t, fmt.Sprint("delays ", delays), fmt.Sprint(got, " after ", end.After), want)
		if end.Cause != "emit: no" || e.Stats().Failures[tidemill.Business] != 1 {
			t.Errorf("%+v, %v", end, e.Stats().Failures)
		}
	}
	e := bare(t, tidemill.Traits{Forwards: true}, &now, Pipeline{})
	task := NewTask(tidemill.Message{ID: "a"})
	task.Emit(&tidemill.Message{ID: "x"})
	task.Emit(&tidemill.Message{ID: "x"})
	task.Deliver()
	e.lanes[0].name(task)
	same(t, "one id twice is a failure of kind", task.Settlement().Kind, tidemill.Internal)
}
