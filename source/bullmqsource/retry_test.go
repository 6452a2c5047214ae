package bullmqsource

import (
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// A job's own attempts and backoff decide, whatever the pipeline says.
func TestAttemptsAndBackoffAreTheJobs(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		r.do("listen")
		id := r.add(map[string]any{}, map[string]any{"attempts": 3, "backoff": map[string]any{"type": "exponential", "delay": 300}})
		start := time.Now()
		for tries, least := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
			m := r.receive(r.src, 1, 10*time.Second)[0]
			if took := time.Since(start); m.Tries != tries || m.Handed != tries+1 || took < least || took > least+atOnce {
				t.Fatalf("hand-out %d after %v has %d tries, want it after %v", m.Handed, took, m.Tries, least)
			}
			if tries > 0 && string(m.Get(FailureHeader)) != "not yet" {
				t.Errorf("the last failure is %q", m.Get(FailureHeader))
			}
			end := r.settle(r.src, tidemill.Applied, again(m, time.Hour, true))[0]
			if last := tries == 2; last != (end.End == tidemill.Done) || last != (end.Fate == tidemill.Dead) {
				t.Fatalf("after try %d the settlement says %d, %v", tries+1, end.End, end.Fate)
			}
			if tries < 2 {
				if j := r.job(id); j.State != "delayed" || j.AttemptsMade != tries+1 || j.FailedReason != "not yet" || len(j.Stacktrace) != tries+1 {
					t.Fatalf("after try %d the job is %+v", tries+1, j)
				}
			}
		}
		r.happened("delayed", id)
		r.happened("retries-exhausted", id)
		if e := r.happened("failed", id); e.FailedReason != "not yet" {
			t.Errorf("failed with %q", e.FailedReason)
		}
		if j := r.job(id); j.State != "failed" || j.AttemptsMade != 3 || len(j.Stacktrace) != 3 || j.Stacktrace[2] != "transient: not yet" {
			t.Errorf("the failed job is %+v", j)
		}
	})
}

func TestRetriesOfManyKinds(t *testing.T) {
	oldAndNew(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{Backoff: func(kind string, failed int) time.Duration {
			if kind != "ours" || failed > 1 {
				return -1
			}
			return 0
		}})
		state := func(id, want string, made int) {
			t.Helper()
			if j := r.job(id); j.State != want || j.AttemptsMade != made {
				t.Errorf("job %s is %s after %d attempts, want %s after %d", id, j.State, j.AttemptsMade, want, made)
			}
		}
		one := func(opts map[string]any, end func(*tidemill.Message) tidemill.Settlement) string {
			t.Helper()
			id := r.add(map[string]any{}, opts)
			m := r.receive(r.src, 1, 5*time.Second)[0]
			r.settle(r.src, tidemill.Applied, end(m))
			return id
		}
		burnt := func(after time.Duration) func(*tidemill.Message) tidemill.Settlement {
			return func(m *tidemill.Message) tidemill.Settlement { return again(m, after, true) }
		}
		// A job that says nothing has one attempt.
		id := one(nil, burnt(0))
		state(id, "failed", 1)
		// A job without a backoff waits as long as the pipeline says.
		id = one(map[string]any{"attempts": 2}, burnt(time.Hour))
		state(id, "delayed", 1)
		id = one(map[string]any{"attempts": 2, "stackTraceLimit": 1}, burnt(0))
		state(id, "waiting", 1)
		m := r.receive(r.src, 1, time.Second)[0]
		r.settle(r.src, tidemill.Applied, again(m, 0, true))
		state(id, "failed", 2)
		if j := r.job(id); len(j.Stacktrace) != 1 {
			t.Errorf("of two traces %d are kept, want 1", len(j.Stacktrace))
		}
		// A number is a fixed backoff.
		id = one(map[string]any{"attempts": 2, "backoff": 60000}, burnt(0))
		state(id, "delayed", 1)
		if j := r.job(id); j.Delay != 60000 {
			t.Errorf("the job's delay is %v", j.Delay)
		}
		// Dead is dead, whatever is left.
		id = one(map[string]any{"attempts": 9}, func(m *tidemill.Message) tidemill.Settlement { return dead(m, "no") })
		state(id, "failed", 1)
		// A retry without a counted try makes no attempt.
		id = one(map[string]any{"attempts": 1}, func(m *tidemill.Message) tidemill.Settlement { return again(m, 100*time.Millisecond, false) })
		state(id, "delayed", 0)
		m = r.receive(r.src, 1, 5*time.Second)[0]
		if m.ID != id || m.Handed != 2 || m.Tries != 0 {
			t.Errorf("it came again as %+v", m)
		}
		r.settle(r.src, tidemill.Applied, done(m))
		state(id, "completed", 1)
		// A backoff of another type is the option's.
		id = one(map[string]any{"attempts": 5, "backoff": map[string]any{"type": "ours"}}, burnt(time.Hour))
		state(id, "waiting", 1)
		m = r.receive(r.src, 1, time.Second)[0]
		r.settle(r.src, tidemill.Applied, again(m, 0, true))
		state(id, "failed", 2)
		// Jitter shortens a wait, where the version knows it; the others do not mind.
		for range 5 {
			id = one(map[string]any{"attempts": 2, "backoff": map[string]any{"type": "fixed", "delay": 100000, "jitter": 0.5}}, burnt(0))
			if j := r.job(id); j.Delay < 50000 || j.Delay > 100000 {
				t.Errorf("the job's delay is %v, want 50000 to 100000", j.Delay)
			}
		}
	})
}

// removeOnComplete and removeOnFail: whether, how many, how old; and the worker's own rule for
// those that say nothing.
func TestKeepRules(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{KeepFailed: &Keep{Count: 2}, KeepCompleted: &Keep{Count: -1}})
		end := func(n int, opts map[string]any, fails bool) (all []string) {
			t.Helper()
			for range n {
				all = append(all, r.add(map[string]any{}, opts))
				m := r.receive(r.src, 1, 5*time.Second)[0]
				if fails {
					r.settle(r.src, tidemill.Applied, dead(m, "no"))
				} else {
					r.settle(r.src, tidemill.Applied, done(m))
				}
				time.Sleep(2 * time.Millisecond) // jobs that end in one millisecond have no order
			}
			return all
		}
		kept := func(set string, want ...string) {
			t.Helper()
			raw := r.do("queue", "get"+set)
			var have []string
			for _, j := range as[[]seenJob](r.peer, raw) {
				have = append(have, j.ID)
			}
			slices.Sort(have)
			want = slices.Sorted(slices.Values(want))
			if !slices.Equal(have, want) {
				t.Fatalf("%s has %v, want %v", set, have, want)
			}
		}
		none := end(3, nil, false)
		kept("Completed")
		if r.job(none[0]) != nil {
			t.Error("a job is still there that was to be removed")
		}
		end(2, map[string]any{"removeOnComplete": true}, false)
		kept("Completed")
		five := end(5, map[string]any{"removeOnComplete": false}, false)
		kept("Completed", five...)
		three := end(3, map[string]any{"removeOnComplete": 4}, false)
		kept("Completed", append(three, five[4])...)
		for _, id := range five[:4] {
			if r.job(id) != nil {
				t.Error("a job is still there that is one too many")
			}
		}
		time.Sleep(1100 * time.Millisecond) // ages are whole seconds
		young := end(1, map[string]any{"removeOnComplete": map[string]any{"age": 1, "count": 100}}, false)
		kept("Completed", young...)

		four := end(4, nil, true)
		kept("Failed", four[2:]...)
		end(1, map[string]any{"removeOnFail": true}, true)
		kept("Failed", four[2:]...)
		one := end(2, map[string]any{"removeOnFail": map[string]any{"count": 1}}, true)
		kept("Failed", one[1:]...)
	})
}

// Many that end in one call are trimmed as if each had ended alone.
func TestKeepRulesOfManyAtOnce(t *testing.T) {
	oldAndNew(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		r.do("fill", 3000, map[string]any{}, map[string]any{"removeOnComplete": 10, "attempts": 2})
		got := r.receive(r.src, 3000, 10*time.Second)
		ends := make([]tidemill.Settlement, len(got))
		for i, m := range got {
			ends[i] = done(m)
		}
		r.settle(r.src, tidemill.Applied, ends...)
		if n := r.counts(); n["completed"] != 10 || n["active"] != 0 {
			t.Fatalf("counts are %v, want 10 completed", n)
		}
		keys, err := r.client.Do(t.Context(), r.client.B().Eval().Script(`local n = 0
			for i = 1, 3000 do n = n + redis.call('EXISTS', ARGV[1] .. i, ARGV[1] .. i .. ':lock') end return n`).
			Numkeys(0).Arg(r.src.base).Build()).AsInt64()
		if err != nil || keys != 10 {
			t.Fatalf("%d keys of jobs are left, %v; want 10", keys, err)
		}
		if n := as[struct{ Count int }](r.peer, r.do("queue", "getMetrics", "completed")).Count; n != 0 {
			t.Errorf("%d are in metrics that nobody has switched on", n)
		}
	})
}

// A job that is retried after it failed for good is another one where its death is remembered.
func TestAJobThatIsRetriedAfterItDied(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		id := r.add(map[string]any{}, map[string]any{"attempts": 2})
		first := r.receive(r.src, 1, 5*time.Second)[0]
		r.settle(r.src, tidemill.Applied, again(first, 0, true))
		second := r.receive(r.src, 1, 5*time.Second)[0]
		if second.Mark.Hi != first.Mark.Hi || Retried(second) {
			t.Error("a try after a failed one is another job")
		}
		r.settle(r.src, tidemill.Applied, dead(second, "no"))
		r.do("job", id, "retry")
		third := r.receive(r.src, 1, 5*time.Second)[0]
		if third.ID != id || third.Mark.Hi == first.Mark.Hi || third.Mark.Lo == first.Mark.Lo || !Retried(third) {
			t.Errorf("the job came as %s with mark %v after %v, retried %v", third.ID, third.Mark, first.Mark, Retried(third))
		}
		r.settle(r.src, tidemill.Applied, done(third))
		if j := r.job(id); j.State != "completed" {
			t.Errorf("the job is %+v", j)
		}
	})
}
