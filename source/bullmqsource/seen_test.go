package bullmqsource

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

// What becomes of jobs is seen by QueueEvents, by waitUntilFinished and by the getters.
func TestBullMQSeesWhatBecomesOfJobs(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		r.seesAll()
	})
}

// The same on a cluster, where the prefix has a hash tag.
func TestBullMQSeesWhatBecomesOfJobsOnACluster(t *testing.T) {
	testenv.Need(t)
	t.Parallel()
	r := rigOn(t, testenv.RedisCluster(t), "bullmq-six", Options{Prefix: "{bull}"})
	r.seesAll()
	if _, err := New(r.client, Options{Queue: "q"}); err == nil || !strings.Contains(err.Error(), "hash tag") {
		t.Fatalf("a prefix without a hash tag is taken on a cluster: %v", err)
	}
}

func (r *rig) seesAll() {
	t := r.t
	t.Helper()
	r.do("listen")
	before := time.Now().Add(-time.Second)
	good := r.add(map[string]any{"a": 1, "text": "größer <than>"}, nil)
	skip := r.add(map[string]any{}, nil)
	bad := r.add(map[string]any{}, map[string]any{"attempts": 5, "jobId": "its-own-name"})
	got := r.receive(r.src, 3, 5*time.Second)
	if want := []string{good, skip, "its-own-name"}; !slices.Equal(ids(got), want) {
		t.Fatalf("received %v, want %v", ids(got), want)
	}
	m := got[0]
	if m.Type != "event" || string(m.Payload) != `{"a":1,"text":"größer <than>"}` || m.To != r.o.Queue || m.Handed != 1 || m.Tries != 0 ||
		m.Time.Before(before) || m.Time.After(time.Now().Add(time.Second)) || !strings.Contains(string(m.Get(OptionsHeader)), `"attempts":0`) {
		t.Fatalf("the job came out as %+v", m)
	}
	if n := r.counts(); n["active"] != 3 || n["wait"]+n["waiting"] != 0 {
		t.Fatalf("counts are %v, want 3 active", n)
	}
	if ours, err := r.src.Progress(t.Context(), m, []byte(`{"part":40}`)); !ours || err != nil {
		t.Fatalf("progress: %v, %v", ours, err)
	}
	skipped := done(got[1])
	skipped.Fate, skipped.Cause = tidemill.Skipped, `no "consent"`
	r.settle(r.src, tidemill.Applied, done(m), skipped, dead(got[2], "it is wrong"))
	if ours, err := r.src.Progress(t.Context(), m, []byte(`50`)); ours || err != nil {
		t.Fatalf("progress after the end: %v, %v", ours, err)
	}

	r.happened("active", good)
	if e := r.happened("completed", good); e.ReturnValue != "null" {
		t.Errorf("completed with %q, want null", e.ReturnValue)
	}
	if e := r.happened("completed", skip); e.ReturnValue != `{"skipped":"no \"consent\""}` {
		t.Errorf("completed with %q", e.ReturnValue)
	}
	if e := r.happened("failed", bad); e.FailedReason != "it is wrong" {
		t.Errorf("failed with %q", e.FailedReason)
	}
	if e := r.happened("progress", good); string(e.Data) != `{"part":40}` {
		t.Errorf("progress is %s", e.Data)
	}
	r.happened("drained", "")
	if _, err := r.try("finished", good, 5000); err != nil {
		t.Errorf("waitUntilFinished: %v", err)
	}
	if _, err := r.try("finished", bad, 5000); err == nil || !strings.Contains(err.Error(), "it is wrong") {
		t.Errorf("waitUntilFinished of a failed job: %v", err)
	}

	j := r.job(good)
	if j.State != "completed" || j.AttemptsMade != 1 || j.AttemptsStarted != 1 || j.ProcessedOn < before.UnixMilli() || j.FinishedOn < j.ProcessedOn ||
		string(j.Progress) != `{"part":40}` || r.version != "bullmq-early" && j.ProcessedBy != "tidemill" {
		t.Errorf("the completed job is %+v", j)
	}
	j = r.job(bad)
	if j.State != "failed" || j.AttemptsMade != 1 || j.FailedReason != "it is wrong" || len(j.Stacktrace) != 1 || j.Stacktrace[0] != "validation: it is wrong" {
		t.Errorf("the failed job is %+v", j)
	}
	if n := r.counts(); n["completed"] != 2 || n["failed"] != 1 || n["active"] != 0 {
		t.Errorf("counts are %v, want 2 completed and 1 failed", n)
	}
	// A failed job that is retried by hand comes again.
	r.do("job", bad, "retry")
	m = r.receive(r.src, 1, 5*time.Second)[0]
	if m.ID != bad || m.Handed != 2 {
		t.Errorf("the retried job came as %+v", m)
	}
	r.settle(r.src, tidemill.Applied, done(m))
	if j := r.job(bad); j.State != "completed" {
		t.Errorf("the retried job is %+v", j)
	}
}

// Jobs come in BullMQ's order: without a priority first, then by priority, in each the oldest
// first; lifo jumps the queue.
func TestOrder(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		for i, opts := range []map[string]any{{"priority": 10}, {"priority": 2}, {}, {"priority": 10}, {"priority": 300000}, {}, {"lifo": true}, {"priority": 2}} {
			opts["jobId"] = fmt.Sprintf("job-%d", i)
			r.add(map[string]any{}, opts)
		}
		got := r.receive(r.src, 8, 5*time.Second)
		want := []string{"job-6", "job-2", "job-5", "job-1", "job-7", "job-0", "job-3", "job-4"}
		if !slices.Equal(ids(got), want) {
			t.Fatalf("received %v, want %v", ids(got), want)
		}
		if p := got[3]; p.Priority != 253 || string(p.Get(PriorityHeader)) != "2" || got[0].Priority != 255 || got[7].Priority != 0 {
			t.Errorf("priorities are %d, %s, %d, %d", p.Priority, p.Get(PriorityHeader), got[0].Priority, got[7].Priority)
		}
		// What is tried again goes behind those of its priority.
		r.settle(r.src, tidemill.Applied, again(got[3], 0, false), again(got[4], 0, false))
		r.add(map[string]any{}, map[string]any{"priority": 1, "jobId": "urgent"})
		if got, want := ids(r.receive(r.src, 3, 5*time.Second)), []string{"urgent", "job-1", "job-7"}; !slices.Equal(got, want) {
			t.Errorf("received %v, want %v", got, want)
		}
	})
}

// Delayed jobs come when they are due, to any waiting worker, and also when somebody
// promotes them.
func TestDelay(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		r.do("listen")
		start := time.Now()
		soon := r.add(map[string]any{}, map[string]any{"delay": 700})
		late := r.add(map[string]any{}, map[string]any{"delay": 3_600_000, "priority": 3})
		m := r.receive(r.src, 1, 5*time.Second)[0]
		if took := time.Since(start); m.ID != soon || took < 690*time.Millisecond || took > atOnce {
			t.Errorf("received %s after %v, want %s after 700ms", m.ID, took, soon)
		}
		r.happened("waiting", soon)
		r.nothing(r.src, 300*time.Millisecond)
		r.do("job", late, "promote")
		start = time.Now()
		m = r.receive(r.src, 1, 5*time.Second)[0]
		if took := time.Since(start); m.ID != late || took > atOnce {
			t.Errorf("received %s after %v, want %s at once", m.ID, took, late)
		}
	})
}
