package bullmqsource

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/policy"
)

// handled is where both sides count what they have worked on, by job.
func (r *rig) handled() string { return "{" + r.o.Queue + "}handled" }

func (r *rig) times() map[string]string {
	r.t.Helper()
	m, err := r.client.Do(r.t.Context(), r.client.B().Hgetall().Key(r.handled()).Build()).AsStrMap()
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// running is a pipeline at work.
type running struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

func (p *running) stop() {
	p.cancel()
	<-p.ended
}

// pipeline works on jobs as a whole engine does.
func (r *rig) pipeline(src tidemill.Source, lanes int, work func(*tidemill.Message) error) *running {
	r.t.Helper()
	steps := flow.Steps[struct{}]{Decode: func(*tidemill.Message, *struct{}) error { return nil }, Stages: []flow.Stage[struct{}]{{Name: "work", Repeat: true, Do: func(_ context.Context, items []*flow.Item[struct{}]) error {
		for _, it := range items {
			if err := work(&it.Message); err != nil {
				it.Fail(err)
			}
		}
		return nil
	}}}}
	e, err := flow.New(flow.Pipeline{Name: "test", Source: src, Work: steps.Lane, Lanes: lanes, Batch: 1, InFlight: 4 * lanes,
		Retry: policy.Retry{Tries: -1, Base: time.Hour}})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	p := &running{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if err := e.Run(ctx); err != nil {
			r.t.Errorf("the pipeline ended: %v", err)
		}
	}()
	return p
}

// count counts a job as worked on by us.
func (r *rig) count(m *tidemill.Message) {
	if err := r.client.Do(context.Background(), r.client.B().Hincrby().Key(r.handled()).Field(m.ID).Increment(1).Build()).Error(); err != nil {
		r.t.Error(err)
	}
}

// finished waits until so many jobs have ended.
func (r *rig) finished(n int, within time.Duration) map[string]int {
	r.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		c := r.counts()
		if c["completed"]+c["failed"] == n {
			return c
		}
		if time.Now().After(end) {
			r.t.Fatalf("counts are %v, want %d ended", c, n)
		}
	}
}

// A worker of BullMQ and a pipeline share a queue of thousands of jobs, of all sorts. Each is
// worked on once, or as often as its failures say.
func TestSharedQueue(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		const many = 2000
		ours := 0
		p := r.pipeline(r.src, 1, func(m *tidemill.Message) error {
			ours++
			r.count(m)
			switch text := string(m.Payload); {
			case strings.Contains(text, `"never"`):
				return tidemill.Fail(tidemill.Validation, "never")
			case strings.Contains(text, `"fail"`):
				return errors.New("fail")
			}
			return nil
		})
		defer p.stop()
		r.do("worker", map[string]any{"concurrency": 20})
		r.do("fill", many, map[string]any{}, nil)
		r.do("fill", many/10, map[string]any{}, map[string]any{"priority": 3})
		r.do("fill", many/10, map[string]any{}, map[string]any{"delay": 200})
		r.do("fill", many/10, map[string]any{"fail": "again"}, map[string]any{"attempts": 3, "backoff": map[string]any{"type": "exponential", "delay": 50}})
		r.do("fill", many/10, map[string]any{"never": "again"}, map[string]any{"attempts": 3})
		c := r.finished(many+4*many/10, 60*time.Second)
		if c["completed"] != many+2*many/10 || c["failed"] != 2*many/10 {
			t.Fatalf("counts are %v", c)
		}
		n := map[string]int{}
		for id, times := range r.times() {
			n[times]++
			if times != "1" && times != "3" {
				t.Errorf("job %s was worked on %s times", id, times)
			}
		}
		if n["1"] != many+3*many/10 || n["3"] != many/10 {
			t.Errorf("by how often they were worked on: %v", n)
		}
		p.stop()
		if all := many + 6*many/10; ours < all/20 || ours > all-10 { // on an idle machine a worker of BullMQ gets one in fifty
			t.Errorf("we had %d of %d: they did not share", ours, all)
		} else {
			t.Logf("we had %d of %d", ours, all)
		}
	})
}

// What a killed worker of BullMQ had out is brought back here.
func TestAKilledWorkerOfBullMQ(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{Lease: 2 * time.Second})
		r.do("fill", 10, map[string]any{"ms": 60_000}, nil)
		theirs := r.another()
		theirs.Do("worker", map[string]any{"concurrency": 10, "lockDuration": 8000, "stalledInterval": 60_000}) // renews them every four seconds; it may be late by as much, the machine is shared
		for end := time.Now().Add(10 * time.Second); r.counts()["active"] != 10; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("counts are %v, want 10 active", r.counts())
			}
		}
		// Its check has just been made: without it ours would come when its period ends.
		if err := r.client.Do(t.Context(), r.client.B().Del().Key(r.src.base+"stalled-check").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		r.nothing(r.src, 9*time.Second) // it is alive, and renews its locks
		theirs.Kill()
		got := r.receive(r.src, 10, 30*time.Second)
		ends := make([]tidemill.Settlement, len(got))
		for i, m := range got {
			if m.Handed != 2 || m.Tries != 0 {
				t.Errorf("job %s came with %d hand-outs and %d tries", m.ID, m.Handed, m.Tries)
			}
			ends[i] = done(m)
		}
		r.settle(r.src, tidemill.Applied, ends...)
	})
}

// TestMain's other life: a process that takes jobs and does nothing, to be killed.
const victim = "TIDEMILL_TEST_BULLMQ_VICTIM"

func TestVictim(t *testing.T) {
	queue := os.Getenv(victim)
	if queue == "" {
		return // it is the process of another test
	}
	src, err := New(redistest.Connect(t, os.Getenv(victim+"_URL")), Options{Queue: queue, Lease: testLease})
	if err != nil {
		t.Fatal(err)
	}
	into := make([]*tidemill.Message, 10)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	n, err := src.Receive(t.Context(), into)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("took %d\n", n)
	for {
		if err := src.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(testLease / 4)
	}
}

// What a killed process of ours had out is brought back by a worker of BullMQ.
func TestAKilledProcessOfOurs(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		r.do("fill", 10, map[string]any{}, nil)
		cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$")
		cmd.Env = append(os.Environ(), victim+"="+r.o.Queue, victim+"_URL="+testenv.Redis(t))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		}()
		if line := bufio.NewScanner(out); !line.Scan() || line.Text() != "took 10" {
			t.Fatalf("the process said %q", line.Text())
		}
		r.do("worker", map[string]any{"concurrency": 10, "stalledInterval": 500})
		time.Sleep(2 * testLease) // it is alive, and renews its locks
		if n := r.counts(); n["active"] != 10 {
			t.Fatalf("counts are %v while the process lives, want 10 active", n)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		r.finished(10, 15*time.Second)
		if n := r.times(); len(n) != 10 {
			t.Errorf("BullMQ's worker had %d of them", len(n))
		}
	})
}

// A job that loses its workers again and again is failed, and says so; one that was only left is
// not counted.
func TestStalledTooOften(t *testing.T) {
	oldAndNew(t, func(t *testing.T, version string) {
		reports := make(chan Report, 100)
		r := newRig(t, version, Options{Lease: testLease, StalledEvery: testLease / 2, MaxStalled: 1, Report: func(r Report) { reports <- r }})
		r.do("listen")
		id := r.add(map[string]any{}, map[string]any{"attempts": 9, "removeOnFail": 5})
		for n := range 4 {
			src := r.open()
			m := r.receive(src, 1, 5*time.Second)[0]
			if m.Handed != n+1 {
				t.Fatalf("hand-out %d is said to be the %d.", n+1, m.Handed)
			}
			if n < 2 {
				r.settle(src, tidemill.Applied, tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Left})
			}
		}
		r.nothing(r.src, 2*testLease)
		j := r.job(id)
		if j.State != "failed" || j.FailedReason != stalledTooOften {
			t.Errorf("the job is %+v", j)
		}
		r.happened("stalled", id)
		r.happened("failed", id)
		for rep := range reports {
			if rep.What == Failed {
				if rep.Count != 1 || rep.IDs[0] != id {
					t.Errorf("reported %+v", rep)
				}
				return
			}
		}
	})
}

// Jobs that were given to us in an answer that was lost are not lost until their locks end.
func TestLostAnswer(t *testing.T) {
	testenv.Need(t)
	t.Parallel()
	r := newRig(t, "bullmq-six", Options{})
	r.do("fill", 5, map[string]any{}, nil)
	known := r.receive(r.src, 2, 5*time.Second)
	got, err := takeScript.Exec(t.Context(), r.client, r.src.meta, []string{"10", r.src.token, "60000", "x", "", ""}).ToArray()
	if err != nil || len(got) != 5 {
		t.Fatal(err)
	}
	r.src.missed = true
	rest := r.receive(r.src, 3, 5*time.Second)
	if have := append(ids(known), ids(rest)...); fmt.Sprint(have) != "[1 2 3 4 5]" {
		t.Fatalf("received %v, want 1 to 5", have)
	}
	for _, m := range append(known, rest...) {
		r.settle(r.src, tidemill.Applied, done(m))
	}
}

// Metrics are counted where they are switched on.
func TestMetrics(t *testing.T) {
	oldAndNew(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{Metrics: 60})
		r.do("fill", 7, map[string]any{}, nil)
		got := r.receive(r.src, 7, 5*time.Second)
		for _, m := range got[:4] {
			r.settle(r.src, tidemill.Applied, done(m))
		}
		r.settle(r.src, tidemill.Applied, dead(got[4], ""), dead(got[5], ""))
		// Three minutes pass.
		key := r.src.base + "metrics:completed"
		if err := r.client.Do(t.Context(), r.client.B().Hincrby().Key(key).Field("prevTS").Increment(-180_000).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		r.settle(r.src, tidemill.Applied, done(got[6]))
		metrics := as[struct {
			Meta  struct{ Count int }
			Data  []any
			Count int
		}](r.peer, r.do("queue", "getMetrics", "completed"))
		var points []string
		for _, p := range metrics.Data {
			points = append(points, fmt.Sprint(p))
		}
		if metrics.Meta.Count != 5 || strings.Join(points, " ") != "0 0 4" {
			t.Errorf("metrics are %+v with points %v", metrics, points)
		}
		failed := as[struct{ Meta struct{ Count int } }](r.peer, r.do("queue", "getMetrics", "failed"))
		if failed.Meta.Count != 2 {
			t.Errorf("metrics of failed jobs are %+v", failed)
		}
	})
}

// A source is one of the queue's workers to BullMQ, for as long as it receives.
func TestGetWorkersShowsUs(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{Worker: "ours"})
		r.do("worker", map[string]any{})
		names := func() []string {
			var all []string
			for _, w := range as[[]struct{ Rawname, Name string }](r.peer, r.do("queue", "getWorkers")) {
				all = append(all, w.Rawname)
			}
			return all
		}
		if n := names(); len(n) != 1 {
			t.Fatalf("workers are %v, want BullMQ's own", n)
		}
		p := r.pipeline(r.src, 1, func(*tidemill.Message) error { return nil })
		defer p.stop()
		until := func(n int, what string) []string {
			t.Helper()
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // without a notice
				all := names()
				if len(all) == n {
					return all
				}
				if time.Now().After(end) {
					t.Fatalf("workers are %v: %s", all, what)
				}
			}
		}
		all := until(2, "we are not among them")
		if version != versions[0] && !strings.HasSuffix(strings.Join(all, " "), ":w:ours") && !strings.Contains(strings.Join(all, " "), ":w:ours ") {
			t.Errorf("workers are %v, want one that is called ours", all)
		}
		p.stop()
		until(1, "we are still among them")
	})
}

// Beside a worker of BullMQ jobs are shared by how many each can work on at a time, also those that
// wait elsewhere once they were taken.
func TestSharesAreByCapacity(t *testing.T) {
	oldAndNew(t, func(t *testing.T, version string) {
		const many, lasts = 300, 300 * time.Millisecond // 100 jobs a second: how fast a worker's process is decides nothing
		later := make(chan *tidemill.Message, 100_000)  // where the pipeline puts jobs
		var ahead atomic.Int64
		r := newRig(t, version, Options{Concurrency: 10, Ahead: func(context.Context) (int, error) { return int(ahead.Load()), nil }})
		r.do("worker", map[string]any{"concurrency": 20})
		ours := 0
		p := r.pipeline(r.src, 1, func(m *tidemill.Message) error {
			ours++
			ahead.Add(1)
			later <- m
			return nil
		})
		defer p.stop()
		for range 10 { // hands that work on them
			go func() {
				for {
					select {
					case <-later:
						time.Sleep(lasts)
						ahead.Add(-1)
					case <-t.Context().Done():
						return
					}
				}
			}()
		}
		r.do("fill", many, map[string]any{"ms": lasts.Milliseconds()}, nil)
		r.finished(many, 60*time.Second)
		p.stop()
		if ours < many/10 || ours > many*6/10 {
			t.Errorf("with 10 hands beside 20 we had %d of %d", ours, many)
		} else {
			t.Logf("with 10 hands beside 20 we had %d of %d", ours, many)
		}
	})
}
