package bullmqsource

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

// iteration is what is compared of a schedule's next job: times are those since the one before.
type iteration struct {
	ID, Name, Data string
	When           int64
	Options        map[string]any
	Count          int // iterations that the schedule has counted
}

// newest is the next job of a schedule that waits, after the one that was due then.
func (r *rig) newest(schedule string, before int64) iteration {
	r.t.Helper()
	jobs := as[[]struct {
		ID, Name string
		Data     any
		Opts     map[string]any
	}](r.peer, r.do("queue", "getDelayed"))
	if len(jobs) != 1 {
		r.t.Fatalf("%d jobs are delayed, want the next iteration: %v", len(jobs), jobs)
	}
	j := jobs[0]
	when := int64(number(j.ID[len(j.ID)-13:]))
	it := iteration{ID: j.ID[:len(j.ID)-13], Name: j.Name, Data: fmt.Sprint(j.Data), When: when - before, Options: j.Opts}
	for _, name := range []string{"jobId", "timestamp", "delay", "prevMillis"} { // they say when this one was made
		if v, ok := it.Options[name]; name == "delay" && (!ok || v.(float64) > 3_600_000*24*366*2) {
			r.t.Errorf("the next job's delay is %v", v)
		}
		delete(it.Options, name)
	}
	if schedule != "" {
		it.Count = as[struct{ IterationCount int }](r.peer, r.do("queue", "getJobScheduler", schedule)).IterationCount
	}
	return it
}

// Where we are the only worker, a schedule goes on: its next job is the one that a worker of BullMQ
// adds.
func TestSchedulesGoOn(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		schedules := []map[string]any{
			{"every": 3_600_000, "limit": 5},
			{"pattern": "0 0 1 1 *", "tz": "Europe/Vienna"},
			{"pattern": "30 15 3 * * *", "tz": "America/New_York", "endDate": "2099-01-01T00:00:00.000Z"},
		}
		options := map[string]any{"attempts": 3, "priority": 4, "removeOnComplete": map[string]any{"count": 5}, "backoff": map[string]any{"type": "fixed", "delay": 100}}
		for i, repeat := range schedules {
			for _, kind := range []string{"scheduler", "repeatable"} {
				if kind == "scheduler" && version == versions[0] || kind == "repeatable" && version == versions[2] {
					continue // that version has no such thing
				}
				t.Run(fmt.Sprint(kind, i), func(t *testing.T) {
					var made [2]iteration
					for side, ours := range []bool{true, false} {
						r := newRig(t, version, Options{})
						schedule := ""
						if kind == "scheduler" {
							schedule = "a:schedule"
							r.do("queue", "upsertJobScheduler", schedule, repeat, map[string]any{"name": "tick", "data": map[string]any{"n": 1.5}, "opts": options})
						} else {
							with := map[string]any{"repeat": repeat}
							for k, v := range options {
								with[k] = v
							}
							r.do("queue", "add", "tick", map[string]any{"n": 1.5}, with)
						}
						if n := r.counts(); n["delayed"] == 1 { // it is due now
							r.do("job", as[[]seenJob](r.peer, r.do("queue", "getDelayed"))[0].ID, "promote")
						}
						var first string
						if ours {
							m := r.receive(r.src, 1, 5*time.Second)[0]
							first = m.ID
							if m.Type != "tick" || string(m.Payload) != `{"n":1.5}` {
								t.Errorf("received %s with %s", m.Type, m.Payload)
							}
							r.settle(r.src, 1, done(m))
						} else {
							r.do("worker", map[string]any{})
							r.finished(1, 10*time.Second)
							first = as[[]seenJob](r.peer, r.do("queue", "getCompleted"))[0].ID
						}
						made[side] = r.newest(schedule, int64(number(first[len(first)-13:])))
					}
					if !reflect.DeepEqual(made[0], made[1]) {
						t.Errorf("the next job is\n%+v, a worker of BullMQ makes\n%+v", made[0], made[1])
					}
				})
			}
		}
	})
}

// A schedule runs as often as it says, and ends where it says.
func TestASchedulesIterations(t *testing.T) {
	late(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		r.do("listen")
		r.do("queue", "upsertJobScheduler", "often", map[string]any{"every": 200, "limit": 6}, map[string]any{"name": "tick"})
		seen := map[string]bool{}
		var last int64
		for range 6 {
			m := r.receive(r.src, 1, 5*time.Second)[0]
			at := int64(number(m.ID[len(m.ID)-13:]))
			if seen[m.ID] || at <= last || (at-last)%200 != 0 && last > 0 {
				t.Errorf("%s came after %d", m.ID, last)
			}
			seen[m.ID], last = true, at
			r.settle(r.src, 1, done(m))
		}
		r.nothing(r.src, 600*time.Millisecond)
		if n := r.counts(); n["completed"] != 6 || n["delayed"]+n["waiting"] != 0 {
			t.Errorf("counts are %v", n)
		}
		// One that is removed while its job is out makes no more.
		r.do("queue", "upsertJobScheduler", "short", map[string]any{"every": 200}, map[string]any{"name": "tick"})
		m := r.receive(r.src, 1, 5*time.Second)[0]
		r.do("queue", "removeJobScheduler", "short")
		r.settle(r.src, 1, done(m))
		r.nothing(r.src, 500*time.Millisecond)
	})
}

// A worker that dies with a schedule's job has added the next: the job comes again, and the next is
// there once.
func TestAScheduleAndADeadWorker(t *testing.T) {
	late(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{Lease: testLease, StalledEvery: testLease / 2})
		r.do("queue", "upsertJobScheduler", "hourly", map[string]any{"every": 3_600_000}, map[string]any{"name": "tick"})
		dead := r.open()
		first := r.receive(dead, 1, 5*time.Second)[0]
		m := r.receive(r.src, 1, 10*time.Second)[0]
		if m.ID != first.ID || m.Handed != 2 {
			t.Fatalf("received %s for the %d. time, want %s again", m.ID, m.Handed, first.ID)
		}
		r.settle(r.src, 1, done(m))
		if it := r.newest("hourly", 0); it.Count != 2 {
			t.Errorf("the schedule has counted %d iterations, want 2", it.Count)
		}
	})
}

// What only a program's own strategy understands is left to BullMQ's workers, and said; other jobs
// pass it.
func TestASchedulesOwnStrategy(t *testing.T) {
	late(t, func(t *testing.T, version string) {
		reports := make(chan Report, 100)
		r := newRig(t, version, Options{Report: func(r Report) { reports <- r }})
		r.do("custom", "moon")
		r.do("job", as[[]seenJob](r.peer, r.do("queue", "getDelayed"))[0].ID, "promote")
		id := r.add(map[string]any{}, nil)
		got := r.receive(r.src, 1, 5*time.Second)[0]
		if got.ID != id {
			t.Errorf("received %s, want %s", got.ID, id)
		}
		r.nothing(r.src, 500*time.Millisecond)
		r.settle(r.src, 1, done(got))
		if rep := <-reports; rep.What != Scheduled || len(rep.IDs) != 1 || len(reports) > 0 {
			t.Errorf("reported %+v, and %d more", rep, len(reports))
		}
		r.do("worker", map[string]any{"custom": true})
		r.finished(2, 15*time.Second)
		r.newest("moon", 0)
	})
}

// Patterns are due when BullMQ's own library says. A clock that is put back shows an hour twice:
// there the library runs some patterns once and some twice, and those are not compared.
func TestPatterns(t *testing.T) {
	testenv.Need(t)
	t.Parallel()
	patterns := []string{"* * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "0 3 * * *", "0 0 * * *", "15 10 * * 1-5", "0 9 * * MON", "0 0 1 * *", "0 0 1,15 * 5",
		"0 0 L * *", "0 12 * * 5L", "0 12 * * 5#2", "0 12 * * 0", "0 12 * * 7", "*/10 * * * * *", "0 */30 9-17 * * 1-5", "5 4 3 2 1 *", "0 0 29 2 *", "0 0 31 * *",
		"@daily", "@hourly", "@weekly", "@monthly", "@yearly", "@weekends", "0 0 0 ? * 6", "0 0 12 15 jan,jul *", "3-59/15 * * * *", "0 22 * * 1-5", "1,2,30-40/3 5 * * *",
		"0 0 * * 5-7", "0 0 * * 1,5-7", "0 2 * * *", "15 1-3 * * *", "0 0 1-7 * 1", "0 0 */2 * *", "0 0 */2 * 1", "* *", "5 *", "0 0 * * */2", "0 0 1 */3 *", "10/20 * * * *",
		"0 0 1W * *", "0 0 LW * *", "* * * *", "@every 5m", "0 0 0 1 1 ? 2030", "nonsense", "61 * * * *"}
	zones := []string{"UTC", "Europe/Vienna", "America/New_York", "Asia/Kolkata"}
	starts := []string{"2026-01-01T00:00:00Z", "2026-03-28T23:30:15.250Z", "2026-03-29T00:30:00Z", "2026-03-08T06:59:59.999Z", "2026-03-08T07:00:00Z", "2026-02-28T23:59:59Z",
		"2026-12-31T12:00:00Z", "2026-04-04T14:45:00Z", "2026-06-15T10:00:00.000Z", "2028-02-28T22:59:00Z"}
	for _, version := range versions[1:] {
		r := newRig(t, version, Options{})
		want := as[[][][]*int64](r.peer, r.do("cron", patterns, zones, starts))
		for i, pattern := range patterns {
			if pattern == "@weekends" && version == versions[1] {
				continue // the older library does not know it
			}
			c, err := parseCron(pattern)
			for j, name := range zones {
				zone, _ := time.LoadLocation(name)
				for k, text := range starts {
					start, _ := time.Parse(time.RFC3339, text)
					var got *int64
					if err == nil {
						if at := c.next(start.In(zone)); !at.IsZero() {
							ms := at.UnixMilli()
							got = &ms
						}
					}
					if w := want[i][j][k]; (got == nil) != (w == nil) || got != nil && *got != *w {
						t.Errorf("%s in %s after %s is %s, %s says %s", pattern, name, text, shown(got), version, shown(w))
					}
				}
			}
		}
	}
}

func shown(ms *int64) string {
	if ms == nil {
		return "never"
	}
	return time.UnixMilli(*ms).UTC().Format(time.RFC3339)
}
