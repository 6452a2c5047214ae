package queuetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// storms holds everything at once.
var storms = []promise{
	{"loses and doubles nothing in a storm",
		"accepted is ended once, whatever happened in between", 0, survivesStorm},
}

// survivesStorm lets several producers repeat jobs and several sources crash, drop
// messages, retry and repeat settlements, under limits, order and priorities, and counts.
func survivesStorm(b *bench) {
	const producers, names, workers = 3, 400, 4
	b.set(func(s *queue.Settings) {
		s.Limit = queue.Limit{AtOnce: 200}
		s.Tenant = queue.Limit{PerSecond: 2000, Burst: 50, AtOnce: 80}
		s.Fair, s.Ordered = queue.ByKey, true
	})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var mu sync.Mutex // guards ended and fates
	ended, fates := map[string]int{}, tidemill.Count{}
	var all sync.WaitGroup
	for p := range producers {
		rng := rand.New(rand.NewPCG(uint64(p), 3))
		all.Go(func() {
			for at := 0; at < names; {
				part := make([]*tidemill.Message, 1+rng.IntN(40))
				for i := range part {
					n := (at + i) % names
					m := keyed(fmt.Sprint("id", n), fmt.Sprint("tenant", n%5), fmt.Sprint("key", n%31), uint8(n%4))
					if n%7 == 0 {
						m.At = b.now().Add(time.Duration(rng.IntN(30)) * time.Millisecond)
					}
					part[i] = m
				}
				if err := b.Store.Add(b.Context(), part, make([]queue.Added, len(part))); err != nil {
					b.Errorf("add: %v", err)
				}
				at += len(part) - rng.IntN(2)
			}
		})
	}
	for w := range workers {
		rng := rand.New(rand.NewPCG(uint64(w), 4))
		all.Go(func() {
			src := b.Store.Open("q", queue.Options{Lease: 300 * time.Millisecond, Ordered: true})
			for ctx.Err() == nil {
				into := make([]*tidemill.Message, 1+rng.IntN(60))
				for i := range into {
					into[i] = new(tidemill.Message)
				}
				wait, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				n, err := src.Receive(wait, into)
				cancel()
				if err != nil {
					continue
				}
				if rng.IntN(20) == 0 { // a crash: its leases end
					src = b.Store.Open("q", queue.Options{Lease: 300 * time.Millisecond, Ordered: true})
					continue
				}
				ends := make([]tidemill.Settlement, n)
				for i, m := range into[:n] {
					switch ends[i] = delivered(m); rng.IntN(8) {
					case 0:
						ends[i] = again(m, time.Duration(rng.IntN(10))*time.Millisecond)
					case 1:
						ends[i].End = tidemill.Left
					case 2:
						ends[i].Fate = tidemill.Dead
					}
				}
				for range 1 + rng.IntN(2) { // twice: the answer was lost
					if err := src.Settle(b.Context(), ends); err != nil {
						b.Errorf("settle: %v", err)
					}
					mu.Lock()
					for _, e := range ends {
						if e.End == tidemill.Done && e.Outcome == tidemill.Applied {
							ended[e.ID]++
							fates.Add(e.Row())
						}
					}
					if len(ended) == names {
						stop()
					}
					mu.Unlock()
				}
			}
		})
	}
	patience := time.AfterFunc(2*time.Minute, stop)
	all.Wait()
	patience.Stop()
	for id, n := range ended {
		if n != 1 {
			b.Errorf("job %s ended %d times", id, n)
		}
	}
	if len(ended) != names {
		b.Errorf("%d of %d jobs ended", len(ended), names)
	}
	b.books("q", tidemill.Books{Accepted: names, Settled: fates})
	b.stats(queue.Stats{})
}
