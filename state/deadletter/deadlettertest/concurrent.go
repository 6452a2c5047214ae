package deadlettertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

var concurrentCases = []testcase{
	{name: "wakes a source that waits when a replay is asked for", reason: "nobody polls", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		s := f.Store.Open("p")
		got := make(chan string)
		var g sync.WaitGroup
		g.Go(func() { got <- receive(t, s, 1)[0].ID })
		f.replay(t, deadletter.Filter{}, 1)
		if id := <-got; id != "id0" {
			t.Errorf("received %q", id)
		}
		g.Wait()
	}},
	{name: "counts what comes and goes while groups are read in its own group or in none", reason: "a cause that nothing died of is looked for in vain", do: func(t *testing.T, f fixture) {
		const n, some = 20, 3 // what comes and goes at once
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var g sync.WaitGroup
		defer g.Wait()
		g.Go(func() {
			defer cancel()
			for i := range n {
				ls := make([]tidemill.DeadLetter, some)
				ids := make([]string, some)
				for j := range ls {
					ids[j] = fmt.Sprint("id", i*some+j)
					ls[j] = f.died(ids[j], uint64(i*some+j), "answered 500")
				}
				if err := f.Store.Put(t.Context(), ls); err != nil {
					t.Errorf("Put: %v", err)
				}
				if gone, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: ids}); gone != some || err != nil {
					t.Errorf("Delete of %d: %d, %v", some, gone, err)
				}
			}
		})
		for ctx.Err() == nil {
			all, err := f.Store.Groups(t.Context(), nil)
			if err != nil {
				t.Errorf("Groups: %v", err)
				return
			}
			if all.Other > 0 || len(all.Groups) > 1 || len(all.Groups) == 1 && (all.Groups[0].Cause != "answered #" || all.Groups[0].Count > some) {
				t.Errorf("groups %+v, where at most %d died, of one cause", all, some)
			}
		}
	}},
	{name: "wakes another source when one gives a letter back", reason: "what is wanted again is for whoever is free", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		a, b := f.Store.Open("p"), f.Store.Open("p")
		m := receive(t, a, 1)[0]
		got := make(chan string)
		var g sync.WaitGroup
		g.Go(func() { got <- receive(t, b, 1)[0].ID })
		settle(t, a, m, tidemill.Settlement{End: tidemill.Again}, tidemill.Applied)
		if id := <-got; id != "id0" {
			t.Errorf("received %q", id)
		}
		g.Wait()
	}},
	{name: "never applies two ends of one replay under two owners whose leases run out", reason: "twice applied is delivered twice and counted twice", do: func(t *testing.T, f fixture) {
		const n = 40
		f.fill(t, n)
		f.replay(t, deadletter.Filter{}, n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var left atomic.Int64
		var deaths atomic.Int64
		left.Store(n)
		var mu sync.Mutex // guards ended
		ended := map[string]int{}
		var g sync.WaitGroup
		for owner := range 2 {
			g.Go(func() {
				s := f.Store.Open("p")
				rnd := rand.New(rand.NewPCG(1, uint64(owner)))
				into := make([]*tidemill.Message, 8)
				for i := range into {
					into[i] = new(tidemill.Message)
				}
				for patience := 3 * time.Millisecond; ctx.Err() == nil; {
					soon, enough := context.WithTimeout(ctx, patience)
					k, err := s.Receive(soon, into)
					enough()
					if err != nil { // the rest is handed out to the other, or was left; or the store is slow
						f.clock.Advance(lease)
						patience = min(2*patience, time.Second)
						continue
					}
					patience = max(patience/2, 3*time.Millisecond)
					f.clock.Advance(lease / 2) // many leases run out under their holders
					ends := make([]tidemill.Settlement, k)
					for i := range ends {
						ends[i] = tidemill.Settlement{ID: into[i].ID, Mark: into[i].Mark, Fate: tidemill.Delivered}
						switch rnd.IntN(6) {
						case 0:
							ends[i].Fate = tidemill.Dead
						case 1:
							ends[i].End = tidemill.Again
						case 2:
							ends[i].End = tidemill.Left
						}
					}
					if err := s.Settle(context.WithoutCancel(ctx), ends); err != nil {
						t.Error(err)
						return
					}
					died := false
					for _, e := range ends {
						if e.Outcome == tidemill.Applied && e.End == tidemill.Done && e.Fate == tidemill.Delivered {
							mu.Lock()
							ended[e.ID]++
							mu.Unlock()
							if left.Add(-1) == 0 {
								cancel()
							}
						}
						if e.Outcome == tidemill.Applied && e.End == tidemill.Done && e.Fate == tidemill.Dead {
							deaths.Add(1)
							died = true
						}
					}
					if died {
						if _, err := f.Store.Replay(context.WithoutCancel(ctx), deadletter.Filter{}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		g.Wait()
		if l := left.Load(); l != 0 {
			t.Errorf("%d letters were not ended", l)
		}
		for id, k := range ended {
			if k != 1 {
				t.Errorf("%s ended %d times", id, k)
			}
		}
		f.books(t, tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: n}})
		t.Logf("%d died again in replay", deaths.Load())
	}},
	{name: "of concurrent edits of what all have seen exactly one is made", reason: "the others have not seen it", do: func(t *testing.T, f fixture) {
		const rounds, people = 10, 4
		f.fill(t, 1)
		for round := range rounds {
			seen, made := f.one(t).Version(), make([]error, people)
			var all sync.WaitGroup
			for i := range people {
				all.Go(func() { made[i] = f.Store.Edit(t.Context(), named("id0"), fmt.Append(nil, round, " by ", i), seen) })
			}
			all.Wait()
			is, winners := string(f.one(t).Payload), 0
			for i, err := range made {
				switch {
				case err == nil:
					if winners++; is != fmt.Sprint(round, " by ", i) {
						t.Errorf("round %d: the edit of %d is made, and the payload is %q", round, i, is)
					}
				case !errors.Is(err, deadletter.ErrChanged):
					t.Errorf("round %d: %v, want %v", round, err, deadletter.ErrChanged)
				}
			}
			if winners != 1 {
				t.Fatalf("round %d: %d edits were made, want one", round, winners)
			}
		}
	}},
	{name: "balances while everybody does everything", reason: "every letter put is there, replayed, or discarded", do: func(t *testing.T, f fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var working, taking sync.WaitGroup
		taking.Go(func() {
			s := f.Store.Open("p")
			into := []*tidemill.Message{{}, {}, {}}
			for {
				n, err := s.Receive(ctx, into)
				if err != nil {
					return
				}
				ends := make([]tidemill.Settlement, n)
				for i := range ends {
					ends[i] = tidemill.Settlement{ID: into[i].ID, Mark: into[i].Mark, Fate: tidemill.Fate(1 + into[i].Mark.Lo%3)}
				}
				if err := s.Settle(t.Context(), ends); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for w := range 3 {
			working.Go(func() {
				rnd := rand.New(rand.NewPCG(2, uint64(w)))
				for i := range 60 {
					l := f.letter(fmt.Sprint("id", rnd.IntN(20)), uint64(w*1000+i))
					if err := f.Store.Put(ctx, []tidemill.DeadLetter{l}); err != nil {
						t.Error(err)
					}
					switch rnd.IntN(4) {
					case 0:
						if _, err := f.Store.Delete(ctx, deadletter.Filter{Max: 2}); err != nil {
							t.Error(err)
						}
					case 1:
						if _, err := f.Store.Replay(ctx, deadletter.Filter{Max: 3}); err != nil {
							t.Error(err)
						}
					case 2:
						err := f.Store.Edit(ctx, named(fmt.Sprint("id", rnd.IntN(20))), fmt.Append(nil, "mended ", i), "")
						if err != nil && !errors.Is(err, deadletter.ErrNotFound) && !errors.Is(err, deadletter.ErrReplaying) {
							t.Error(err)
						}
					}
					b, err := f.Store.Open("p").(tidemill.Bookkeeper).Books(ctx)
					if err != nil || b.Off() != 0 {
						t.Errorf("books %+v are off by %d, %v", b, b.Off(), err)
					}
				}
			})
		}
		working.Wait()
		cancel()
		taking.Wait()
		b, err := f.Store.Open("p").(tidemill.Bookkeeper).Books(t.Context())
		if n, cerr := f.Store.Count(t.Context(), deadletter.Filter{Pipeline: "p"}); err != nil || cerr != nil || b.Off() != 0 || uint64(n) != b.Pending {
			t.Errorf("books %+v, %d letters, %v, %v", b, n, err, cerr)
		}
	}},
}

// realTime runs what needs a clock that runs: waits that end by themselves.
func realTime(t *testing.T, open func(t *testing.T, o deadletter.Options) Harness) {
	t.Run("wakes by itself when a lease runs out or a letter is due", func(t *testing.T) {
		f := fixture{open(t, deadletter.Options{Lease: 30 * time.Millisecond}), NewClock()}
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		a, b := f.Store.Open("p"), f.Store.Open("p")
		receive(t, a, 1) // and dies
		m := receive(t, b, 1)[0]
		if m.Handed != 2 {
			t.Errorf("handed %d times, want 2", m.Handed)
		}
		start := time.Now()
		settle(t, b, m, tidemill.Settlement{End: tidemill.Again, After: 50 * time.Millisecond}, tidemill.Applied)
		if m = receive(t, a, 1)[0]; m.Handed != 3 || time.Since(start) < 50*time.Millisecond {
			t.Errorf("handed %d times after %v, want 3 after at least 50ms", m.Handed, time.Since(start))
		}
	})
}
