package bullmqsource

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

// How fast jobs that BullMQ has added are worked on, where the work is nothing: by a pipeline, and
// by a worker of BullMQ with 100 at once, each alone on a Redis of its own. The rate is that of a
// machine on which Redis runs too; what a job costs of the CPU says more.
//
//	TIDEMILL_TEST_SERVERS=1 go test ./source/bullmqsource -run - -bench . -benchtime 100000x
func BenchmarkJobs(b *testing.B) {
	for _, keep := range []any{true, 1000} {
		name := "removed"
		if keep != true {
			name = "1000 kept"
		}
		b.Run(name+"/pipeline", func(b *testing.B) {
			r := benchRig(b, keep)
			var n atomic.Int64
			all := make(chan struct{})
			cost := r.cost(b)
			start := time.Now()
			p := r.pipeline(r.src, 100, func(*tidemill.Message) error {
				if n.Add(1) == int64(b.N) {
					close(all)
				}
				return nil
			})
			<-all
			p.stop()
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "jobs/s")
			own, redis := cost()
			b.ReportMetric(own/float64(b.N), "own-cpu-µs/job")
			b.ReportMetric(redis/float64(b.N), "redis-cpu-µs/job")
			r.empty(b)
		})
		b.Run(name+"/bullmq", func(b *testing.B) {
			r := benchRig(b, keep)
			cost := r.cost(b)
			var took struct{ Ms, CPU float64 }
			if err := json.Unmarshal(r.do("drain", b.N, 100), &took); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/took.Ms*1000, "jobs/s")
			_, redis := cost()
			b.ReportMetric(took.CPU*1000/float64(b.N), "own-cpu-µs/job")
			b.ReportMetric(redis/float64(b.N), "redis-cpu-µs/job")
			r.empty(b)
		})
	}
}

func benchRig(b *testing.B, keep any) *rig {
	b.Helper()
	r := rigOn(b, testenv.Start(b, testenv.PrivateRedis).URL, "bullmq-six", Options{Lease: 30 * time.Second})
	r.do("fill", b.N, map[string]any{"text": strings.Repeat("x", 150)}, map[string]any{"removeOnComplete": keep})
	b.ResetTimer()
	return r
}

// empty sees that every job has ended.
func (r *rig) empty(b *testing.B) {
	b.Helper()
	b.StopTimer()
	if n := r.counts(); n["waiting"]+n["active"]+n["failed"] != 0 {
		b.Fatalf("counts are %v", n)
	}
}

// cost begins to count the CPU time of this process and of Redis, in µs.
func (r *rig) cost(b *testing.B) func() (own, redis float64) {
	ours := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
	}
	theirs := func() (sum float64) {
		text, err := r.client.Do(b.Context(), r.client.B().Info().Section("cpu").Build()).ToString()
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && (name == "used_cpu_user" || name == "used_cpu_sys") {
				s, _ := strconv.ParseFloat(value, 64)
				sum += s * 1e6
			}
		}
		return sum
	}
	own, redis := ours(), theirs()
	return func() (float64, float64) { return ours() - own, theirs() - redis }
}
