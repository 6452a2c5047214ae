package redissource

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// drainAll drains until a pass finds nothing, and returns how many were found.
func (b *table) drainAll(s *Source, batch int) (found int) {
	b.Helper()
	for {
		n, err := s.Drain(b.Context(), batch)
		if err != nil {
			b.Fatal(err)
		}
		if n == 0 {
			return found
		}
		if n > batch {
			b.Fatalf("a batch of %d found %d", batch, n)
		}
		found += n
	}
}

func TestDrainNeedsItsOption(t *testing.T) {
	s, err := New(nil, Options{Stream: "s", Consumer: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Drain(t.Context(), 1); tidemill.KindOf(err) != tidemill.Internal {
		t.Errorf("Drain says %v", err)
	}
}

func TestDrainFindsWhatNobodyWouldGet(t *testing.T) {
	each(t, func(b *table) {
		ids := b.add(12)
		s := b.open(b.client, Options{Drains: true, Lease: time.Minute})
		got := b.take(s, 9, soon) // 9, 10 and 11 are new
		b.do("XACK", b.stream, Group, ids[0], ids[4], ids[5])
		b.do("XGROUP", "CREATECONSUMER", b.stream, Group, "gone")
		b.do("XCLAIM", b.stream, Group, "gone", "0", ids[7], ids[8])
		b.do("XGROUP", "DELCONSUMER", b.stream, Group, "gone")
		if n := b.deliver(s, got[1], got[2]); n != 2 {
			b.Errorf("%d settlements were applied, want 2", n)
		}
		b.books(s, tidemill.Books{Accepted: 12, Settled: tidemill.Count{Delivered: 2}, Pending: 10})
		if n := b.drainAll(s, 2); n != 5 {
			b.Errorf("%d were found, want 5", n)
		}
		if n := b.drainAll(s, 100); n != 0 {
			b.Errorf("%d were found again", n)
		}
		if n := b.reported(Drained); n != 5 {
			b.Errorf("%d were reported, want 5", n)
		}
		if n := b.deliver(s, got[0]); n != 0 {
			b.Error("a hand-out from before was settled")
		}
		again := b.take(s, 5, soon)
		b.want(again, "0", "4", "5", "7", "8")
		for _, m := range again {
			if m.Handed != 2 {
				b.Errorf("%s says that it was handed out %d times, want 2", m.Payload, m.Handed)
			}
		}
		b.want(b.take(s, 3, soon), "9", "10", "11")
		if n := b.deliver(s, again...); n != 5 {
			b.Errorf("%d settlements were applied, want 5", n)
		}
		b.books(s, tidemill.Books{Accepted: 12, Settled: tidemill.Count{Delivered: 7}, Pending: 5})
		if n := b.drainAll(s, 1000); n != 0 {
			b.Errorf("%d settled entries came back", n)
		}
	})
}

// A group that was made at the end never sees what was there before, and one that others
// worked with before may have left something: the books learn of it when it is found.
func TestDrainFindsWhatWasThereBefore(t *testing.T) {
	each(t, func(b *table) {
		b.add(7)
		b.do("XGROUP", "CREATE", b.stream, Group, "$")
		s := b.open(b.client, Options{Drains: true, Lease: time.Minute})
		b.books(s, tidemill.Books{})
		b.add(2)
		b.books(s, tidemill.Books{Accepted: 2, Pending: 2})
		b.deliver(s, b.take(s, 1, soon)...)
		if n := b.drainAll(s, 3); n != 7 {
			b.Fatalf("%d were found, want 7", n)
		}
		b.books(s, tidemill.Books{Accepted: 9, Settled: tidemill.Count{Delivered: 1}, Pending: 8})
		if n := b.deliver(s, b.take(s, 8, soon)...); n != 8 {
			b.Errorf("%d settlements were applied, want 8", n)
		}
		b.books(s, tidemill.Books{Accepted: 9, Settled: tidemill.Count{Delivered: 9}})
		if n := b.length(); n != 0 {
			b.Errorf("the stream has %d entries, want none", n)
		}
	})
}

func TestDrainLeavesSharedStreamsAlone(t *testing.T) {
	each(t, func(b *table) {
		ids := b.add(5)
		s := b.open(b.client, Options{Drains: true, Lease: time.Minute})
		b.do("XGROUP", "CREATE", b.stream, "other", "0")
		got := b.take(s, 4, soon)
		b.deliver(s, got[0], got[2])
		b.do("XACK", b.stream, Group, ids[1])
		for range 3 {
			if n := b.drainAll(s, 10); n != 0 {
				b.Errorf("%d were found in a stream of two groups", n)
			}
		}
		b.mu.Lock()
		said := 0
		for _, r := range b.reports {
			if r.What == NoDrain {
				said++
			}
		}
		if b.mu.Unlock(); said != 1 {
			b.Errorf("it was said %d times, want once", said)
		}
		b.do("XACK", b.stream, Group, ids[3]) // somebody else's tool
		b.books(s, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 2}, Pending: 1, Lost: 2})
		// The other group goes: what was settled while it was there stays settled.
		b.do("XGROUP", "DESTROY", b.stream, "other")
		if n := b.drainAll(s, 10); n != 0 {
			b.Errorf("%d entries came back", n)
		}
		b.add(1)
		late := b.take(s, 2, soon)
		b.want(late, "4", "5")
		b.do("XACK", b.stream, Group, late[1].ID)
		if n := b.drainAll(s, 10); n != 1 {
			b.Errorf("%d were found, want the one that was acked since", n)
		}
		b.want(b.take(s, 1, soon), "5")
	})
}

// Settlements, acks from outside and foreign acks storm while it drains.
func TestDrainBesideASettlementStorm(t *testing.T) {
	each(t, func(b *table) {
		const n = 1000
		var sources []*Source
		for i := range 2 {
			sources = append(sources, b.open(b.client, Options{Drains: true, Consumer: fmt.Sprint("c", i)}))
		}
		b.books(sources[0], tidemill.Books{})
		var (
			mu    sync.Mutex
			ended = map[string]int{}
			after = map[string]int{} // handed out after it was settled
		)
		ctx := b.Context()
		stop := make(chan struct{})
		var all, drains sync.WaitGroup
		all.Go(func() {
			for range n / 10 {
				b.add(10)
			}
		})
		for _, s := range sources {
			drains.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					time.Sleep(10 * time.Millisecond) // or it is all that Redis does
					if _, err := s.Drain(ctx, 50); err != nil {
						b.Error(err)
						return
					}
				}
			})
			all.Go(func() {
				into := make([]*tidemill.Message, 20)
				for i := range into {
					into[i] = new(tidemill.Message)
				}
				for round, over := 0, time.Now().Add(soon); time.Now().Before(over); round++ {
					mu.Lock()
					done := len(ended) == n
					mu.Unlock()
					if done {
						return
					}
					step, end := context.WithTimeout(ctx, testLease/4)
					got, err := s.Receive(step, into)
					end()
					if err != nil && step.Err() == nil {
						b.Error(err)
						return
					}
					var ends []tidemill.Settlement
					mu.Lock()
					for i, m := range into[:got] {
						after[string(m.Payload)] += ended[string(m.Payload)]
						switch end := (tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}); (round + i) % 4 {
						case 0: // somebody acks it without deleting it
							b.client.Do(ctx, b.client.B().Xack().Key(b.stream).Group(Group).Id(m.ID).Build())
							if m.Handed > 1 {
								ends = append(ends, end)
							}
						case 1:
							end.Mark, end.Fate = tidemill.Mark{}, tidemill.Dead
							ends = append(ends, end)
						default:
							ends = append(ends, end)
						}
					}
					mu.Unlock()
					// While the answer is on its way, it is settled already.
					if err := s.Settle(ctx, ends); err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					for _, e := range ends {
						if e.Outcome == applied {
							ended[e.ID]++
						}
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		close(stop)
		drains.Wait()
		if len(ended) != n {
			b.Errorf("%d of %d entries were settled", len(ended), n)
		}
		for id, times := range ended {
			if times != 1 || after[id] > 0 {
				b.Errorf("%s was settled %d times and handed out after it %d times", id, times, after[id])
			}
		}
		books, err := sources[0].Books(ctx)
		if err != nil || books.Off() != 0 || books.Pending != 0 || books.Lost != 0 {
			b.Errorf("books are %+v, %v", books, err)
		}
		if b.reported(Drained) < 10 {
			b.Error("hardly anything was drained: the test is vacuous")
		}
	})
}
