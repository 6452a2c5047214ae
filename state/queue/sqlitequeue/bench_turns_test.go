//go:build unix

package sqlitequeue

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// BenchmarkTurns lets jobs of 500 bytes of many tenants through: one caller adds, another
// receives and settles. Neighbours are of different tenants: the worst case, a row a job.
func BenchmarkTurns(b *testing.B) {
	for _, c := range []struct {
		name    string
		tenants int
		set     func(*queue.Settings)
	}{
		{"tenants=1", 1, nil},
		{"tenants=100", 100, nil},
		{"tenants=100/limits", 100, func(s *queue.Settings) { s.Tenant = queue.Limit{PerSecond: 1e6, Burst: 1000, AtOnce: 10000} }},
		{"tenants=100/ordered", 100, func(s *queue.Settings) { s.Ordered = true }},
		{"tenants=100/keys", 100, func(s *queue.Settings) { s.Fair = queue.ByKey }},
	} {
		for _, each := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/each=%d", c.name, each), func(b *testing.B) {
				s := newFile(b, Options{Capacity: 1 << 30}).open()
				if c.set != nil {
					if _, err := s.Set(b.Context(), "q", c.set); err != nil {
						b.Fatal(err)
					}
				}
				benchTurns(b, s, c.tenants, each)
			})
		}
	}
}

func benchTurns(b *testing.B, s *Store, tenants, each int) {
	rng := rand.New(rand.NewPCG(1, 2))
	ms := make([]*tidemill.Message, each)
	for i := range ms {
		ms[i] = &tidemill.Message{Type: "page", To: "q", Payload: payload(rng, 500), Time: time.Now()}
	}
	var added, total atomic.Int64
	total.Store(1 << 60)
	var done sync.WaitGroup
	done.Go(func() {
		src := s.Open("q", queue.Options{})
		into := slots(each)
		ends := make([]tidemill.Settlement, each)
		for settled := int64(0); settled < total.Load(); {
			n, err := src.Receive(b.Context(), into)
			if err != nil {
				b.Error(err)
				return
			}
			for i, m := range into[:n] {
				ends[i] = delivered(m)
			}
			if err := src.Settle(b.Context(), ends[:n]); err != nil {
				b.Error(err)
				return
			}
			settled += int64(n)
		}
	})
	add := func(ms []*tidemill.Message) {
		for _, m := range ms {
			m.ID, m.Tenant = uuid.NewString(), fmt.Sprint("site", rng.IntN(tenants))
			m.Key = fmt.Appendf(m.Key[:0], "user%d", rng.IntN(10_000))
		}
		if err := s.Add(b.Context(), ms, nil); err != nil {
			b.Fatal(err)
		}
		added.Add(int64(len(ms)))
	}
	start, used := time.Now(), cpu()
	for b.Loop() {
		add(ms)
	}
	total.Store(added.Load() + 1)
	add(ms[:1]) // it may be waiting for more
	done.Wait()
	report(b, added.Load(), start, used)
}
