package queuetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// ordering holds what strict order promises.
var ordering = []promise{
	{"holds back what is younger than a job of its key, whatever becomes of that",
		"a retry must not be overtaken", 0, holdsYounger},
	{"orders keys across priorities and tells tenants apart",
		"a key is a tenant's, and an urgent job is not older", 0, ordersAcross},
	{"takes a job added for later into its key's order when it comes due",
		"what is to come must not hold up what is", 0, ordersLater},
	{"orders those of a key that come due at one moment as they were added",
		"a campaign's hour is many jobs' moment", 0, ordersOfOneMoment},
	{"lets the next of a key go when a job is removed",
		"an operator must not lock a key", 0, ordersRemoved},
	{"frees no key when a job that waits behind another of it ends or is put off by ID",
		"an ack from outside names any job, and the one that is out is still out", 0, ordersBehind},
	{"refuses to change the order of a queue that holds jobs",
		"those that are out are in no order", 0, refusesOrder},
	{"keeps order under retries, lost leases and several sources",
		"order is a promise about the worst day", 0, ordersStorm},
}

func keyed(id, tenant, key string, priority uint8) *tidemill.Message {
	m := job(id)
	m.Tenant, m.Key, m.Priority = tenant, []byte(key), priority
	return m
}

func (b *bench) openOrdered() tidemill.Source {
	return b.Store.Open("q", queue.Options{Lease: lease, Ordered: true})
}

func (b *bench) ordered() tidemill.Source {
	b.set(func(s *queue.Settings) { s.Ordered = true })
	return b.openOrdered()
}

func again(m *tidemill.Message, after time.Duration) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again, After: after, CountTry: true, Cause: "no"}
}

func holdsYounger(b *bench) {
	src := b.ordered()
	other := b.openOrdered()
	if !src.Traits().Ordered || b.open("q").Traits().Ordered {
		b.Fatal("Traits.Ordered is not what was asked for")
	}
	b.add(queue.New, keyed("a1", "t", "a", 0), keyed("a2", "t", "a", 0), keyed("b1", "t", "b", 0), keyed("a3", "t", "a", 0), keyed("-1", "t", "", 0), keyed("-2", "t", "", 0))
	got := b.takeNow(src, 10)
	b.want(got, "a1", "b1", "-1", "-2")
	b.want(b.takeNow(other, 10))
	b.settle(src, again(got[0], time.Hour))
	b.want(b.takeNow(other, 10)) // delayed after a try
	b.deliver(src, got[1:]...)
	b.sleep(time.Hour + b.tick())
	got = b.takeNow(other, 10)
	b.want(got, "a1")
	b.kill()
	b.sleep(2 * lease) // its lease is lost
	src = b.openOrdered()
	got = b.takeNow(src, 10)
	b.want(got, "a1")
	b.deliver(src, got...)
	got = b.takeNow(src, 10)
	b.want(got, "a2")
	b.settle(src, tidemill.Settlement{ID: "a2", Mark: got[0].Mark, End: tidemill.Done, Fate: tidemill.Dead})
	b.want(b.takeNow(src, 10), "a3")
}

func ordersAcross(b *bench) {
	src := b.ordered()
	b.add(queue.New, keyed("low", "t", "k", 0), keyed("high", "t", "k", 9), keyed("other", "u", "k", 9), keyed("mid", "t", "k", 4))
	for _, want := range []string{"other", "low", "high", "mid"} {
		got := b.takeNow(src, 1)
		b.want(got, want)
		if want == "other" {
			continue // handed out all the time
		}
		b.want(b.takeNow(src, 10))
		b.deliver(src, got...)
	}
}

func ordersLater(b *bench) {
	src := b.ordered()
	later := keyed("later", "t", "k", 0)
	later.At = b.now().Add(time.Hour)
	b.add(queue.New, later, keyed("1", "t", "k", 0), keyed("2", "t", "k", 0))
	got := b.takeNow(src, 10)
	b.want(got, "1")
	b.sleep(time.Hour + b.tick())
	b.settle(src, tidemill.Settlement{ID: "1", Mark: tidemill.Mark{}, End: tidemill.Done, Fate: tidemill.Delivered})
	for _, want := range []string{"2", "later"} {
		got := b.takeNow(src, 10)
		b.want(got, want)
		b.deliver(src, got...)
	}
}

func ordersRemoved(b *bench) {
	src := b.ordered()
	for i := range 5 {
		b.add(queue.New, keyed(fmt.Sprint(i), "t", "k", 0))
	}
	remove := func(want int, ids ...string) {
		b.Helper()
		if n, err := b.whole().Remove(b.Context(), queue.Filter{Queue: "q", IDs: ids}); n != want || err != nil {
			b.Fatalf("remove %q: %d, %v; want %d", ids, n, err, want)
		}
	}
	remove(2, "0", "2")
	got := b.takeNow(src, 10)
	b.want(got, "1")
	remove(0, "1")
	b.settle(src, again(got[0], time.Hour))
	remove(1, "1")
	got = b.takeNow(src, 10)
	b.want(got, "3")
	b.deliver(src, got...)
	b.want(b.takeNow(src, 10), "4")
	b.books("q", tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 1, Skipped: 3}, Pending: 1})
}

func ordersBehind(b *bench) {
	src := b.ordered()
	other := b.openOrdered()
	for i := range 7 {
		b.add(queue.New, keyed(fmt.Sprint(i), "t", "k", 0))
	}
	out := b.takeNow(src, 10)
	b.want(out, "0")
	for id, fate := range map[string]tidemill.Fate{"1": tidemill.Delivered, "3": tidemill.Skipped, "4": tidemill.Dead} {
		b.settle(src, tidemill.Settlement{ID: id, End: tidemill.Done, Fate: fate})
		b.want(b.takeNow(other, 10))
	}
	b.settle(src, tidemill.Settlement{ID: "5", End: tidemill.Again})
	b.want(b.takeNow(other, 10))
	b.settle(src, tidemill.Settlement{ID: "6", End: tidemill.Again, After: lease}) // it comes due below
	b.want(b.takeNow(other, 10))
	b.kill()
	b.sleep(2 * lease)
	src = b.openOrdered()
	out = b.takeNow(src, 10) // 0, after its lease
	b.want(out, "0")
	b.settle(src, tidemill.Settlement{ID: "2", End: tidemill.Done, Fate: tidemill.Delivered})
	b.want(b.takeNow(src, 10))
	b.deliver(src, out...)
	var rest []string
	for range 2 {
		got := b.takeNow(src, 10)
		if len(got) != 1 {
			b.Fatalf("%d jobs of the key came at once, want one after the other", len(got))
		}
		b.want(b.takeNow(src, 10))
		b.deliver(src, got...)
		rest = append(rest, got[0].ID)
	}
	if slices.Sort(rest); fmt.Sprint(rest) != "[5 6]" {
		b.Fatalf("then came %v, want 5 and 6", rest)
	}
	b.books("q", tidemill.Books{Accepted: 7, Settled: tidemill.Count{Delivered: 5, Skipped: 1, Dead: 1}})
}

func refusesOrder(b *bench) {
	b.add(queue.New, job("a"))
	if _, err := b.whole().Set(b.Context(), "q", func(s *queue.Settings) { s.Ordered = true }); tidemill.KindOf(err) != tidemill.Validation {
		b.Fatalf("ordering a queue that holds a job says %v, want kind validation", err)
	}
	src := b.openOrdered()
	if _, err := src.Receive(b.Context(), []*tidemill.Message{new(tidemill.Message)}); tidemill.KindOf(err) != tidemill.Validation {
		b.Fatalf("a source that needs order says %v of a queue without, want kind validation", err)
	}
	plain := b.open("q")
	b.deliver(plain, b.take(plain, 1)...)
	b.add(queue.New, keyed("1", "t", "k", 0)) // it has no order yet
	b.deliver(plain, b.take(plain, 1)...)
	b.takeNow(src, 1) // it has now
	b.add(queue.New, keyed("2", "t", "k", 0), keyed("3", "t", "k", 0))
	b.want(b.takeNow(src, 10), "2")
}

// ordersStorm lets three sources work with random ends, and checks that no key's jobs are
// worked on out of order, nor two of them at once.
func ordersStorm(b *bench) {
	const keys, each = 12, 40
	b.set(func(s *queue.Settings) { s.Ordered = true })
	rng := rand.New(rand.NewPCG(7, 7))
	var all []*tidemill.Message
	for i := range keys * each {
		all = append(all, keyed(fmt.Sprintf("%05d", i), []string{"t", "u"}[i%2], fmt.Sprint(i%keys), uint8(rng.IntN(3))))
	}
	for part := range slices.Chunk(all, 50) {
		b.add(queue.New, part...)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var mu sync.Mutex // guards all below
	ended := map[string]string{}
	out := map[string]string{}
	left := len(all)
	var wait sync.WaitGroup
	for w := range 3 {
		src, rng := b.openOrdered(), rand.New(rand.NewPCG(uint64(w), 1))
		wait.Go(func() {
			for ctx.Err() == nil {
				into := make([]*tidemill.Message, 1+rng.IntN(20))
				for i := range into {
					into[i] = new(tidemill.Message)
				}
				n, err := src.Receive(ctx, into)
				if err != nil {
					return
				}
				ends := make([]tidemill.Settlement, n)
				mu.Lock()
				for i, m := range into[:n] {
					k := m.Tenant + " " + string(m.Key)
					if out[k] != "" {
						b.Errorf("job %s of key %s is handed out while %s is out", m.ID, k, out[k])
					}
					if m.ID <= ended[k] {
						b.Errorf("job %s of key %s comes after %s", m.ID, k, ended[k])
					}
					if ends[i] = delivered(m); rng.IntN(3) == 0 {
						ends[i] = again(m, time.Duration(rng.IntN(3))*time.Millisecond)
					}
					out[k] = m.ID
				}
				for i, m := range into[:n] { // before it is settled: afterwards another may have it
					k := m.Tenant + " " + string(m.Key)
					if delete(out, k); ends[i].End == tidemill.Done {
						ended[k] = m.ID
					}
				}
				mu.Unlock()
				if err := src.Settle(b.Context(), ends); err != nil {
					b.Errorf("settle: %v", err)
				}
				mu.Lock()
				for _, e := range ends {
					if e.End == tidemill.Done && e.Outcome == tidemill.Applied {
						left--
					}
				}
				if left == 0 {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	patience := time.AfterFunc(2*time.Minute, stop)
	wait.Wait()
	patience.Stop()
	if left != 0 {
		b.Fatalf("%d jobs are left", left)
	}
	b.books("q", tidemill.Books{Accepted: keys * each, Settled: tidemill.Count{Delivered: keys * each}})
}
