//go:build unix

package sqlitequeue

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// cpu is what the process has used so far.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report reports what a job cost.
func report(b *testing.B, jobs int64, start time.Time, used time.Duration) {
	b.ReportMetric(float64(jobs)/time.Since(start).Seconds(), "jobs/s")
	b.ReportMetric(float64((cpu()-used).Nanoseconds())/1e3/float64(jobs), "cpu-µs/job")
	b.ReportMetric(0, "ns/op")
}

// payload is a body as an SDK sends it: some of it repeats, some does not.
func payload(rng *rand.Rand, size int) []byte {
	p := fmt.Appendf(nil, `{"event":"page","distinct_id":"%x","properties":{`, rng.Uint64())
	for i := 0; len(p) < size; i++ {
		p = fmt.Appendf(p, `"property_%d":"%x",`, i, rng.Uint64())
	}
	return append(p[:size-2], "}}"...)
}

func benchJobs(rng *rand.Rand, n int) []*tidemill.Message {
	ms := make([]*tidemill.Message, n)
	for i := range ms {
		ms[i] = &tidemill.Message{Tenant: "1", Type: "page", To: "q", Payload: payload(rng, 700+rng.IntN(500)), Time: time.Now(),
			Header: []tidemill.Field{{Name: []byte("ip"), Value: []byte("203.0.113.7")}}}
	}
	return ms
}

func BenchmarkAdd(b *testing.B) {
	for _, c := range []struct{ each, callers int }{{1, 50}, {100, 4}, {100, 16}, {1000, 4}} {
		b.Run(fmt.Sprintf("each=%d/callers=%d", c.each, c.callers), func(b *testing.B) {
			s := newFile(b, Options{Capacity: 1 << 30}).open()
			var left atomic.Int64
			var all sync.WaitGroup
			start, used, jobs := time.Now(), cpu(), int64(0)
			work := make(chan struct{})
			for i := range c.callers {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				ms := benchJobs(rng, c.each)
				all.Go(func() {
					added := make([]queue.Added, c.each)
					for range work {
						for _, m := range ms {
							m.ID = uuid.NewString()
						}
						if err := s.Add(b.Context(), ms, added); err != nil || added[0] != queue.New {
							b.Errorf("add: %v, %v", added[0], err)
						}
						left.Add(1)
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
				jobs += int64(c.each)
			}
			close(work)
			all.Wait()
			report(b, jobs, start, used)
		})
	}
}

func BenchmarkReceiveAndSettle(b *testing.B) {
	for _, each := range []int{100, 1000} {
		b.Run(fmt.Sprintf("each=%d", each), func(b *testing.B) {
			s := newFile(b, Options{Capacity: 1 << 30}).open()
			rng := rand.New(rand.NewPCG(1, 1))
			ms := benchJobs(rng, 1000)
			add := func() {
				for _, m := range ms {
					m.ID = uuid.NewString()
				}
				if err := s.Add(b.Context(), ms, nil); err != nil {
					b.Fatal(err)
				}
			}
			src := s.Open("q", queue.Options{})
			into := make([]*tidemill.Message, each)
			for i := range into {
				into[i] = new(tidemill.Message)
			}
			ends := make([]tidemill.Settlement, 0, each)
			var start time.Time
			var used, spent time.Duration
			var elapsed time.Duration
			jobs, held := int64(0), 0
			for b.Loop() {
				for held < each {
					b.StopTimer()
					for range 100 {
						add()
					}
					held += 100_000
					b.StartTimer()
				}
				start, used = time.Now(), cpu()
				n, err := src.Receive(b.Context(), into)
				if err != nil {
					b.Fatal(err)
				}
				ends = ends[:0]
				for _, m := range into[:n] {
					ends = append(ends, tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered})
				}
				if err := src.Settle(b.Context(), ends); err != nil {
					b.Fatal(err)
				}
				elapsed, spent = elapsed+time.Since(start), spent+cpu()-used
				jobs, held = jobs+int64(n), held-n
			}
			b.ReportMetric(float64(jobs)/elapsed.Seconds(), "jobs/s")
			b.ReportMetric(float64(spent.Nanoseconds())/1e3/float64(jobs), "cpu-µs/job")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkThrough is everything at once: four callers add, one source hands out and
// settles.
func BenchmarkThrough(b *testing.B) {
	s := newFile(b, Options{}).open()
	const each, callers = 200, 4
	work := make(chan struct{})
	var all sync.WaitGroup
	var added, settled atomic.Int64
	for i := range callers {
		ms := benchJobs(rand.New(rand.NewPCG(1, uint64(i))), each)
		all.Go(func() {
			for range work {
				for _, m := range ms {
					m.ID = uuid.NewString()
				}
				if err := s.Add(b.Context(), ms, nil); err != nil {
					b.Error(err)
				}
				added.Add(each)
			}
		})
	}
	done := make(chan struct{})
	var total atomic.Int64
	go func() {
		defer close(done)
		src := s.Open("q", queue.Options{})
		into := make([]*tidemill.Message, 1024)
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		for settled.Load() < total.Load() || total.Load() == 0 {
			n, err := src.Receive(b.Context(), into)
			if err != nil {
				b.Error(err)
				return
			}
			ends := make([]tidemill.Settlement, n)
			for i, m := range into[:n] {
				ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
			}
			if err := src.Settle(b.Context(), ends); err != nil {
				b.Error(err)
				return
			}
			settled.Add(int64(n))
		}
	}()
	start, used := time.Now(), cpu()
	total.Store(1 << 60)
	jobs := int64(0)
	for b.Loop() {
		work <- struct{}{}
		jobs += each
	}
	close(work)
	all.Wait()
	total.Store(jobs)
	if settled.Load() == jobs { // it may be waiting for more
		ms := benchJobs(rand.New(rand.NewPCG(9, 9)), 1)
		ms[0].ID = "last"
		if err := s.Add(b.Context(), ms, nil); err != nil {
			b.Fatal(err)
		}
	}
	<-done
	report(b, jobs, start, used)
}
