package bullmqsource

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// While a queue is paused nothing is handed out, and nothing gets lost: not what waits, not what
// comes in, not what is tried again, comes due or is brought back meanwhile.
func TestPause(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{StalledEvery: 500 * time.Millisecond})
		r.do("fill", 4, map[string]any{}, map[string]any{"attempts": 5})
		got := r.receive(r.src, 3, 5*time.Second)
		r.o.Lease = time.Second
		dying := r.receive(r.open(), 1, 5*time.Second)[0] // its holder is not heard of again
		delayed := r.add(map[string]any{}, map[string]any{"delay": 300})
		waiting := r.add(map[string]any{}, nil)
		r.do("queue", "pause")
		more := r.add(map[string]any{}, nil)
		first := r.add(map[string]any{}, map[string]any{"priority": 1})
		r.settle(r.src, tidemill.Applied, again(got[0], 0, true), again(got[1], 0, false), again(got[2], 100*time.Millisecond, true))
		r.nothing(r.src, 3*time.Second)
		if n := r.counts(); n["active"] != 0 || n["delayed"] != 0 {
			t.Fatalf("counts are %v, want none active or delayed", n)
		}
		r.do("queue", "resume")
		have := ids(r.receive(r.src, 8, 5*time.Second))
		want := []string{got[0].ID, got[1].ID, got[2].ID, dying.ID, delayed, waiting, more, first}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Fatalf("after the pause came %v, want %v", have, want)
		}
	})
}

// A source that waits is woken by BullMQ's own marker, not by looking again and again: when a job
// comes, when many come and there are others who wait, and when one comes due that was put off.
func TestWakesAtOnce(t *testing.T) {
	oldAndNew(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		sources := []*Source{r.src, r.open(), r.open()}
		var came chan *tidemill.Message
		begin := func(sources ...*Source) {
			came = make(chan *tidemill.Message, len(sources))
			for _, src := range sources {
				go func() { came <- r.receive(src, 1, 20*time.Second)[0] }()
			}
			time.Sleep(300 * time.Millisecond) // let them wait
		}
		soon := func(start time.Time) *tidemill.Message {
			t.Helper()
			select {
			case m := <-came:
				return m
			case <-time.After(atOnce - time.Since(start)):
				t.Fatal("the job did not come at once")
			}
			return nil
		}
		for range 3 {
			begin(r.src)
			start := time.Now()
			r.add(map[string]any{}, nil)
			soon(start)
		}
		begin(sources...)
		start := time.Now()
		r.do("fill", 3, map[string]any{}, map[string]any{"attempts": 2})
		var m *tidemill.Message
		for range sources {
			m = soon(start)
		}
		begin(r.src)
		for _, src := range sources { // any of them may have it
			if _, ours := src.outs[m.ID]; ours {
				start = time.Now()
				r.settle(src, tidemill.Applied, again(m, 300*time.Millisecond, true))
			}
		}
		if back := soon(start); back.ID != m.ID || back.Tries != 1 {
			t.Errorf("received %+v, want %s again", back, m.ID)
		}
	})
}

// Jobs may be removed, drained and obliterated while we work on some.
func TestRemovedUnderOurHands(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		for range 6 {
			r.add(map[string]any{}, map[string]any{"attempts": 3})
		}
		got := r.receive(r.src, 3, 5*time.Second)
		if _, err := r.try("job", got[0].ID, "remove"); err == nil || !strings.Contains(err.Error(), "lock") {
			t.Fatalf("a job is removed that we work on: %v", err)
		}
		r.do("queue", "drain")
		r.nothing(r.src, 300*time.Millisecond)
		r.settle(r.src, tidemill.Applied, done(got[0]))
		// Somebody deletes a job with its lock, and another one without.
		del := func(keys ...string) {
			t.Helper()
			if err := r.client.Do(t.Context(), r.client.B().Del().Key(keys...).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		del(r.src.base + got[1].ID)
		r.settle(r.src, tidemill.Stale, again(got[1], 0, true))
		if r.job(got[1].ID) != nil {
			t.Error("a job that was removed is there again")
		}
		if n := r.counts(); n["active"] != 1 {
			t.Errorf("counts are %v, want 1 active", n)
		}
		r.do("queue", "pause")
		r.do("queue", "obliterate", map[string]any{"force": true})
		r.settle(r.src, tidemill.Stale, done(got[2]))
		if err := r.src.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		names := []string{"wait", "paused", "active", "delayed", "prioritized", "completed", "failed", "stalled"}
		for id := range 7 {
			names = append(names, strconv.Itoa(id), strconv.Itoa(id)+":lock", strconv.Itoa(id)+":logs")
		}
		for _, name := range names {
			if n, err := r.client.Do(t.Context(), r.client.B().Exists().Key(r.src.base+name).Build()).AsInt64(); err != nil || n > 0 {
				t.Errorf("%s is left after obliterate (%v)", name, err)
			}
		}
		// The queue lives on.
		id := r.add(map[string]any{}, nil)
		m := r.receive(r.src, 1, 10*time.Second)[0]
		if m.ID != id {
			t.Errorf("received %s, want %s", m.ID, id)
		}
		r.settle(r.src, tidemill.Applied, done(m))
	})
}

// An id of a job that is gone, or of none, in wait is nothing to work on.
func TestIDsWithoutJobs(t *testing.T) {
	oldAndNew(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		for _, id := range []string{"0:0", "gone", "0:1700000000"} {
			if err := r.client.Do(t.Context(), r.client.B().Lpush().Key(r.src.base+"wait").Element(id).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		id := r.add(map[string]any{}, nil)
		if m := r.receive(r.src, 1, 5*time.Second)[0]; m.ID != id {
			t.Fatalf("received %s, want %s", m.ID, id)
		}
		if n := r.counts(); n["active"] != 1 {
			t.Errorf("counts are %v, want 1 active", n)
		}
		if r.job("gone") != nil {
			t.Error("a job that was gone is there")
		}
	})
}
