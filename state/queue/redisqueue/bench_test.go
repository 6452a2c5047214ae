package redisqueue

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// benchStore is a store on a server of its own.
func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := New(redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis).URL), Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// info reads a number of INFO.
func info(b *testing.B, s *Store, field string) float64 {
	b.Helper()
	text, err := s.client.Do(context.Background(), s.client.B().Info().Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "\n"+field+":")
	n, err := strconv.ParseFloat(strings.TrimSpace(rest[:max(0, strings.IndexByte(rest, '\n'))]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// rates reports jobs a second, and what a job costs of the CPU here and at Redis: the rate of
// a busy machine says little, these say what it would be.
func rates(b *testing.B, s *Store, work func()) {
	b.Helper()
	ours := func() float64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e3
	}
	theirs := func() float64 { return (info(b, s, "used_cpu_user") + info(b, s, "used_cpu_sys")) * 1e6 }
	cpu, redis := ours(), theirs()
	b.ResetTimer()
	work()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric((ours()-cpu)/float64(b.N), "own-cpu-µs/job")
	b.ReportMetric((theirs()-redis)/float64(b.N), "redis-cpu-µs/job")
}

// smallJobs are jobs with payloads of 200 bytes, of ten tenants.
func smallJobs(from, n int) []*tidemill.Message {
	pad := strings.Repeat("x", 160)
	all := make([]*tidemill.Message, n)
	for i := range all {
		all[i] = &tidemill.Message{ID: "job-" + strconv.Itoa(from+i), To: "q", Tenant: "tenant-" + strconv.Itoa(i%10),
			Payload: fmt.Appendf(nil, `{"i":%d,"t":%d,"pad":"%s"}`, from+i, 1_700_000_000_000_000_000, pad)}
	}
	return all
}

func fill(b *testing.B, s *Store, from, n int) {
	b.Helper()
	for part := range slices.Chunk(smallJobs(from, n), addJobs) {
		if err := s.Add(b.Context(), part, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAddBulk: jobs of 200 bytes, 1,000 a call, two callers.
func BenchmarkAddBulk(b *testing.B) {
	s := benchStore(b)
	all := smallJobs(0, b.N)
	var at atomic.Int64
	var wait sync.WaitGroup
	rates(b, s, func() {
		for range 2 {
			wait.Go(func() {
				for {
					to := int(at.Add(addJobs))
					if to-addJobs >= len(all) {
						return
					}
					if err := s.Add(b.Context(), all[to-addJobs:min(to, len(all))], nil); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wait.Wait()
	})
}

// BenchmarkAddSingle: one job a call, 50 callers.
func BenchmarkAddSingle(b *testing.B) {
	s := benchStore(b)
	all := smallJobs(0, b.N)
	var at atomic.Int64
	var wait sync.WaitGroup
	rates(b, s, func() {
		for range 50 {
			wait.Go(func() {
				for {
					i := int(at.Add(1)) - 1
					if i >= len(all) {
						return
					}
					if err := s.Add(b.Context(), all[i:i+1], nil); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wait.Wait()
	})
}

// BenchmarkDrain: up to each jobs received a call, done by 100 workers that do nothing, and
// settled as they come, as the engine does.
func BenchmarkDrain(b *testing.B) {
	limits := func(s *queue.Settings) {
		l := queue.Limit{PerSecond: 900_000, Burst: 900_000, AtOnce: 5000}
		s.Limit, s.Tenant = l, l
	}
	for _, c := range []struct {
		name string
		each int
		set  func(*queue.Settings)
	}{
		{"each=100", 100, nil}, {"each=1000", 1000, nil},
		{"each=1000/limits", 1000, limits},
		{"each=1000/ordered", 1000, func(s *queue.Settings) { s.Ordered = true }},
		{"each=1000/kept", 1000, func(s *queue.Settings) { s.Completed.Count = 1000 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchStore(b)
			if c.set != nil {
				if _, err := s.Set(b.Context(), "q", c.set); err != nil {
					b.Fatal(err)
				}
			}
			fill(b, s, 0, b.N)
			rates(b, s, func() { drain(b, s, b.N, c.each, func(*tidemill.Message) {}) })
		})
	}
}

// drain works on n jobs.
func drain(b *testing.B, s *Store, n, each int, do func(*tidemill.Message)) {
	src := s.Open("q", queue.Options{})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	work, done := make(chan *tidemill.Message, each), make(chan *tidemill.Message, 2*each)
	credit := make(chan struct{}, 4*each) // as many are out
	var wait, workers sync.WaitGroup
	wait.Go(func() {
		defer close(work)
		for {
			into := make([]*tidemill.Message, each)
			for i := range into {
				into[i] = new(tidemill.Message)
			}
			got, err := src.Receive(ctx, into)
			if err != nil {
				if ctx.Err() == nil {
					b.Error(err)
				}
				return
			}
			for _, m := range into[:got] {
				credit <- struct{}{}
				work <- m
			}
		}
	})
	for range 100 {
		workers.Go(func() {
			for m := range work {
				do(m)
				done <- m
			}
		})
	}
	wait.Go(func() {
		var ends []tidemill.Settlement
		for settled := 0; settled < n; {
			ends = append(ends[:0], delivered(<-done))
		more:
			for len(ends) < addJobs {
				select {
				case m := <-done:
					ends = append(ends, delivered(m))
				default:
					break more
				}
			}
			if err := src.Settle(b.Context(), ends); err != nil {
				b.Error(err)
			}
			for range ends {
				<-credit
			}
			settled += len(ends)
		}
		stop()
	})
	workers.Wait()
	wait.Wait()
}

func delivered(m *tidemill.Message) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
}

// BenchmarkPickUp: how long a job waits that comes to an idle queue, 1,000 of them a second.
func BenchmarkPickUp(b *testing.B) {
	s := benchStore(b)
	took := make([]time.Duration, 0, b.N)
	var mu sync.Mutex
	start := time.Now()
	sent := make([]time.Time, b.N)
	var senders sync.WaitGroup
	senders.Go(func() {
		for i, m := range smallJobs(0, b.N) {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Millisecond)))
			senders.Go(func() {
				sent[i] = time.Now()
				if err := s.Add(b.Context(), []*tidemill.Message{m}, nil); err != nil {
					b.Error(err)
				}
			})
		}
	})
	drain(b, s, b.N, 100, func(m *tidemill.Message) {
		now := time.Now()
		i, _ := strconv.Atoi(strings.TrimPrefix(m.ID, "job-"))
		mu.Lock()
		took = append(took, now.Sub(sent[i]))
		mu.Unlock()
	})
	senders.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// event is JSON as producers send it, of about 500 bytes.
func event(rng *rand.Rand) (id string, payload []byte) {
	var hash [32]byte
	for i := range hash {
		hash[i] = byte(rng.Uint32())
	}
	var raw [16]byte
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	id = uuid.UUID(raw).String()
	return id, fmt.Appendf(nil, `{"eventType":"%s","timestamp":"2026-11-21T%02d:%02d:%02d.%03dZ","siteId":"shop-%d","eventId":"%s","sessionId":"s%d","userId":"%s",`+
		`"consent":{"gpc":false,"jurisdiction":"EU"},"context":{"page":{"url":"https://shop-%d.example.com/products/%d?utm_source=newsletter"},`+
		`"device":{"type":"mobile","os":"iOS"},"geo":{"country":"DE","city":"Berlin"}},"properties":{"value":%d.%02d,"currency":"EUR"}}`,
		[]string{"page_view", "view_item", "add_to_cart", "purchase"}[rng.IntN(4)], rng.IntN(24), rng.IntN(60), rng.IntN(60), rng.IntN(1000),
		rng.IntN(50), id, rng.IntN(1e9), hex.EncodeToString(hash[:]), rng.IntN(50), rng.IntN(1e5), rng.IntN(500), rng.IntN(100))
}

// BenchmarkMemory: bytes of Redis for a waiting job of 500 bytes of a million, its name
// included; and what its name takes for the day after it has ended.
func BenchmarkMemory(b *testing.B) {
	s := benchStore(b)
	used := func() float64 { return info(b, s, "used_memory") }
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 1_000_000
	for b.Loop() {
		start, size := used(), 0
		for range n / addJobs {
			jobs := make([]*tidemill.Message, addJobs)
			for i := range jobs {
				id, payload := event(rng)
				size += len(payload)
				jobs[i] = &tidemill.Message{ID: id, To: "q", Tenant: "shop-" + strconv.Itoa(rng.IntN(50)), Type: "event", Payload: payload, Time: time.Now()}
			}
			if err := s.Add(b.Context(), jobs, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(size)/n, "payload-B")
		b.ReportMetric((used()-start)/n, "redis-B/job")
		drain(b, s, n, 1000, func(*tidemill.Message) {})
		b.ReportMetric((used()-start)/n, "redis-B/ended")
	}
}

// BenchmarkLimit is what Redis allows: a script that does nothing but keep 1,000 jobs in a
// hash and a list, and one that takes them out again. What the queue does is measured
// against it, in the same run.
func BenchmarkLimit(b *testing.B) {
	s := benchStore(b)
	add := rueidis.NewLuaScript(`for i = 1, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) redis.call('RPUSH', KEYS[2], ARGV[i]) end return 1`)
	take := rueidis.NewLuaScript(`local got = {}
for i = 1, ARGV[1] do local id = redis.call('LPOP', KEYS[2]) if not id then break end
got[#got + 1] = redis.call('HGET', KEYS[1], id) redis.call('HDEL', KEYS[1], id) end return got`)
	keys := []string{"{l}jobs", "{l}list"}
	b.Run("add", func(b *testing.B) {
		rates(b, s, func() {
			for part := range slices.Chunk(smallJobs(0, b.N), addJobs) {
				args := make([]string, 0, 2*len(part))
				for _, m := range part {
					args = append(args, m.ID, string(m.Payload))
				}
				if err := add.Exec(b.Context(), s.client, keys, args).Error(); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("take", func(b *testing.B) {
		rates(b, s, func() {
			for range (b.N + addJobs - 1) / addJobs {
				if err := take.Exec(b.Context(), s.client, keys, []string{strconv.Itoa(addJobs)}).Error(); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
