package windowtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/window"
)

// crowding holds what is promised under concurrency.
var crowding = []testcase{
	{"loses and doubles nothing while many put, sweep, read and settle",
		"what is put beside a closing belongs to exactly one window", nil, everybodyAtOnce},
	{"hands out and deletes each window once under two owners that fall behind",
		"of two owners exactly one may have an effect", nil, twoOwners},
	{"replays and closes beside everybody",
		"people act while work goes on", nil, peopleBeside},
}

// everybodyAtOnce puts records of few batch ids from several goroutines, while others sweep
// and work: each record is New once, and is read in one delivered window.
func everybodyAtOnce(f *fixture) {
	const putters, polls, batches = 3, 25, 4
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	var put, rest sync.WaitGroup
	var news, read atomic.Int64
	var mu sync.Mutex
	seen := map[string]int{}
	for p := range putters {
		put.Go(func() {
			for i := range polls {
				var rs []window.Record
				for j := range 20 {
					rs = append(rs, rec(fmt.Sprint("b", (i+j)%batches), fmt.Sprintf("%d of %d of %d", j, i, p), "x"))
				}
				kept := make([]window.Kept, len(rs))
				if err := f.Store.Put(f.Context(), rs, kept); err != nil {
					f.Errorf("Put: %v", err)
					return
				}
				for _, k := range kept {
					if k == window.New {
						news.Add(1)
					}
				}
			}
		})
	}
	rest.Go(func() {
		for ctx.Err() == nil {
			f.Advance(length / 3)
			if _, err := f.Store.Sweep(f.Context()); err != nil {
				f.Errorf("Sweep: %v", err)
				return
			}
			_ = sleep.For(ctx, time.Millisecond)
		}
	})
	done := make(chan struct{}, 1)
	for range 2 {
		rest.Go(func() {
			src := f.Store.Open()
			for {
				into := []*tidemill.Message{new(tidemill.Message), new(tidemill.Message)}
				n, err := src.Receive(ctx, into)
				if err != nil {
					return
				}
				for _, m := range into[:n] {
					rs, err := f.all(m)
					if errors.Is(err, window.ErrStale) { // the clock runs: somebody else has it
						continue
					}
					if err != nil {
						f.Errorf("Page: %v", err)
						continue
					}
					end := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}
					if err := src.Settle(f.Context(), end); err != nil {
						f.Errorf("Settle: %v", err)
					}
					if end[0].Outcome != tidemill.Applied {
						continue
					}
					mu.Lock()
					for _, r := range rs {
						seen[r.Batch+r.ID]++
					}
					mu.Unlock()
					if read.Add(int64(len(rs))) >= putters*polls*20 {
						select {
						case done <- struct{}{}:
						default:
						}
					}
				}
			}
		})
	}
	put.Wait()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
	}
	stop()
	rest.Wait()
	if news.Load() != putters*polls*20 || len(seen) != putters*polls*20 {
		f.Fatalf("%d records were New and %d were delivered, of %d", news.Load(), len(seen), putters*polls*20)
	}
	for name, n := range seen {
		if n != 1 {
			f.Fatalf("%q was delivered %d times", name, n)
		}
	}
	f.books(tidemill.Books{Accepted: putters * polls * 20, Settled: tidemill.Count{Delivered: putters * polls * 20}})
}

// all reads a window under its lease.
func (f *fixture) all(m *tidemill.Message) (rs []window.Record, err error) {
	for from, first := "", true; first || from != ""; first = false {
		into := make([]window.Record, 7)
		p, err := f.Store.Page(f.Context(), m.Mark, from, into)
		if err != nil {
			return nil, err
		}
		rs, from = append(rs, into[:p.N]...), p.Next
	}
	return rs, nil
}

func twoOwners(f *fixture) {
	const many = 12
	for i := range many {
		f.fresh(some(fmt.Sprint("b", i), 5)...)
	}
	f.Advance(length)
	f.sweep(many)
	one, other := f.Store.Open(), f.Store.Open()
	late := f.takeFrom(one, many)
	f.Advance(lease)
	now := f.takeFrom(other, many/2)
	held := map[string]bool{}
	for _, m := range now {
		held[m.ID] = true
	}
	var all sync.WaitGroup
	var applied, stale atomic.Int64
	settle := func(src tidemill.Source, m *tidemill.Message) {
		end := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}
		if err := src.Settle(f.Context(), end); err != nil {
			f.Errorf("settle: %v", err)
		}
		switch end[0].Outcome {
		case tidemill.Applied:
			applied.Add(1)
		case tidemill.Stale:
			stale.Add(1)
		}
	}
	all.Go(func() {
		for _, m := range late {
			settle(one, m)
		}
	})
	all.Go(func() {
		for _, m := range now {
			settle(other, m)
		}
	})
	all.Wait()
	if applied.Load() != many || stale.Load() != many/2 {
		f.Fatalf("%d settlements were applied and %d stale, want %d and %d", applied.Load(), stale.Load(), many, many/2)
	}
	f.nothing()
	f.books(tidemill.Books{Accepted: many * 5, Settled: tidemill.Count{Delivered: many * 5}})
}

func peopleBeside(f *fixture) {
	const rounds = 15
	var all sync.WaitGroup
	all.Go(func() {
		for i := range rounds {
			if err := f.Store.Put(f.Context(), some(fmt.Sprint("b", i%3), 10), nil); err != nil {
				f.Errorf("Put: %v", err)
			}
			if _, err := f.Store.CloseNow(f.Context(), fmt.Sprint("b", i%3)); err != nil {
				f.Errorf("CloseNow: %v", err)
			}
		}
	})
	all.Go(func() {
		for i := range rounds { // each window is given up once and then delivered
			m := f.takeFrom(f.source, 1)[0]
			end := dead
			if i%2 == 1 {
				end = delivered
			}
			end.ID, end.Mark = m.ID, m.Mark
			if err := f.source.Settle(f.Context(), []tidemill.Settlement{end}); err != nil {
				f.Errorf("settle: %v", err)
			}
		}
	})
	all.Go(func() {
		for range rounds {
			if _, err := f.Store.Replay(f.Context(), window.Filter{Max: 1}); err != nil {
				f.Errorf("Replay: %v", err)
			}
			for _, err := range f.Store.List(f.Context(), window.Filter{}) {
				if err != nil {
					f.Errorf("List: %v", err)
				}
			}
			if _, err := f.Store.Stats(f.Context()); err != nil {
				f.Errorf("Stats: %v", err)
			}
		}
	})
	all.Wait()
	f.balanced()
	s := f.stats()
	if got := int64(len(f.list(window.Filter{}))); got != s.Active.Windows+s.Ready.Windows+s.Leased.Windows+s.Parked.Windows {
		f.Fatalf("%d windows are listed, stats say %+v", got, s)
	}
}
