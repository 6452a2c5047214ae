package bullmqsource

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// Limits of the whole queue hold, for the rate and for how many are out; so does one of our own.
func TestLimits(t *testing.T) {
	late(t, func(t *testing.T, version string) { // an early one has no limits of a queue
		r := newRig(t, version, Options{})
		r.do("queue", "setGlobalConcurrency", 3)
		r.do("fill", 8, map[string]any{}, nil)
		got := r.receive(r.src, 3, 5*time.Second)
		other := r.open()
		r.nothing(other, 300*time.Millisecond)
		came := make(chan string, 1)
		go func() {
			defer close(came)
			came <- r.receive(other, 1, 20*time.Second)[0].ID
		}()
		time.Sleep(300 * time.Millisecond) // let it wait
		start := time.Now()
		r.settle(r.src, tidemill.Applied, done(got[0]))
		<-came
		if took := time.Since(start); took > atOnce {
			t.Errorf("the one who waited was woken after %v, want at once", took)
		}
		r.do("queue", "removeGlobalConcurrency")
		r.do("queue", "setGlobalRateLimit", 2, 1000)
		start = time.Now()
		r.receive(r.src, 4, 10*time.Second)
		if took := time.Since(start); took < 990*time.Millisecond || took > 10*time.Second {
			t.Errorf("4 jobs came in %v, want 2 a second", took)
		}
		r.do("queue", "removeGlobalRateLimit")
		r.add(map[string]any{}, nil)
		r.do("queue", "rateLimit", 1500)
		start = time.Now()
		r.receive(r.src, 1, 10*time.Second)
		if took := time.Since(start); took < 700*time.Millisecond || took > 10*time.Second {
			t.Errorf("a job came after %v, the queue was limited for 1.5s", took)
		}
	})
}

// A limit of workers counts for all of them, no matter who counts: 20 jobs at 5 in 500 ms are 4
// periods.
func TestLimitIsSharedWithWorkers(t *testing.T) {
	oldAndNew(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{Limit: Limit{Jobs: 5, Per: 500 * time.Millisecond}})
		r.do("fill", 20, map[string]any{}, nil)
		r.do("worker", map[string]any{"concurrency": 5, "limiter": map[string]any{"max": 5, "duration": 500}})
		start := time.Now()
		p := r.pipeline(r.src, 8, func(*tidemill.Message) error { return nil })
		defer p.stop()
		r.finished(20, 20*time.Second)
		if took := time.Since(start); took < 1300*time.Millisecond {
			t.Errorf("20 jobs were done in %v, want 5 each 500ms", took)
		}
	})
}
