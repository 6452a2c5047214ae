package queuetest

import (
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// pages reads jobs page by page, those that have not ended and those that failed.
func pages(b *bench) {
	const n, size = 40, 6
	b.set(func(s *queue.Settings) { s.Fair, s.Failed.Count = queue.Unfair, 10*n })
	src := b.open("q")
	for i := range n {
		b.add(queue.New, job(fmt.Sprint("bad", i)))
	}
	for _, m := range b.take(src, n) {
		b.settle(src, tidemill.Settlement{Fate: tidemill.Dead, ID: m.ID, Mark: m.Mark})
	}
	for i := range n {
		m := job(fmt.Sprint("id", i))
		if i%3 == 0 {
			m.At = b.now().Add(time.Hour)
		}
		b.add(queue.New, m)
	}
	for _, f := range []queue.Filter{{Queue: "q", State: queue.Failed}, {Queue: "q"}, {Queue: "q", State: queue.Delayed}} {
		shown, stays := map[string]int{}, map[string]bool{}
		for j, err := range b.Store.List(b.Context(), f) {
			if err != nil {
				b.Fatal(err)
			}
			stays[j.ID] = true
		}
		f.Max = size
		for round := 0; ; round++ {
			page := b.page(f)
			for _, j := range page {
				shown[j.ID]++
			}
			if len(page) < size {
				break
			}
			f.After = page[size-1].Mark
			gone := []string{page[0].ID, page[size-1].ID, b.lastOf(f)} // also the one that the page ends at, and one to come
			b.did(3)(b.whole().Remove(b.Context(), queue.Filter{Queue: "q", State: f.State, IDs: gone}))
			for _, id := range gone {
				delete(stays, id)
			}
			if err := b.whole().Edit(b.Context(), queue.Name{Queue: "q", ID: page[1].ID}, fmt.Append(nil, "edited ", round), ""); err != nil {
				b.Fatal(err)
			}
			b.add(queue.New, job(fmt.Sprint("new", f.State, round)))
		}
		for id := range stays {
			if shown[id] != 1 {
				b.Errorf("%s was shown %d times in pages of %q, want once", id, shown[id], f.State)
			}
		}
		for id, k := range shown {
			if k > 1 {
				b.Errorf("%s was shown %d times in pages of %q", id, k, f.State)
			}
		}
	}
	for j, err := range b.Store.List(b.Context(), queue.Filter{Queue: "q", After: tidemill.Mark{Hi: 1 << 40, Lo: 1}}) {
		b.Fatalf("behind all there is %+v, %v", j, err)
	}
}

// page lists what a filter chooses.
func (b *bench) page(f queue.Filter) (all []*queue.Job) {
	b.Helper()
	for j, err := range b.Store.List(b.Context(), f) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

// lastOf is the last job that a filter chooses, however many.
func (b *bench) lastOf(f queue.Filter) string {
	b.Helper()
	f.Max = 0
	all := b.page(f)
	return all[len(all)-1].ID
}
