package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

func pages(b *bench)     { pagesTo(b, false) }
func pagesBack(b *bench) { pagesTo(b, true) }

// pagesTo reads jobs page by page, those that have not ended and those that failed, from the oldest
// on or from the newest back.
func pagesTo(b *bench, back bool) {
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
		f.Back = back
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
			gone := []string{page[0].ID, page[size-1].ID} // also the one that the page ends at
			rest := f
			rest.Max = 0
			if to := b.page(rest); len(to) > 0 {
				gone = append(gone, to[len(to)-1].ID) // and one to come
			}
			b.did(len(gone))(b.whole().Remove(b.Context(), queue.Filter{Queue: "q", State: f.State, IDs: gone}))
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
	end := tidemill.Mark{Hi: 1 << 40, Lo: 1}
	if back {
		end = tidemill.Mark{Lo: 1}
	}
	for j, err := range b.Store.List(b.Context(), queue.Filter{Queue: "q", After: end, Back: back}) {
		b.Fatalf("after all there is %+v, %v", j, err)
	}
}

// listsBack lists from the end, whole and from each job on.
func listsBack(b *bench) {
	src := b.open("q")
	b.set(func(s *queue.Settings) { s.Fair, s.Failed.Count, s.Completed.Count = queue.Unfair, 1000, 1000 })
	all := jobs(600) // more than is read at once
	for i, m := range all {
		m.Tenant = []string{"t", "u", "v"}[i%3]
		if i%5 == 0 {
			m.At = b.now().Add(time.Hour)
		}
	}
	b.add(queue.New, all...)
	other := job("elsewhere")
	other.To = "r"
	b.add(queue.New, other)
	for i, m := range b.take(src, 90) {
		switch i % 3 {
		case 0:
			b.settle(src, delivered(m))
		case 1:
			b.settle(src, tidemill.Settlement{Fate: tidemill.Dead, ID: m.ID, Mark: m.Mark})
		}
	}
	for _, f := range []queue.Filter{{}, {Queue: "q"}, {Queue: "q", Tenant: "u"}, {Queue: "q", State: queue.Leased}, {Queue: "q", State: queue.Delayed},
		{Queue: "q", State: queue.Completed}, {Queue: "q", State: queue.Failed}, {Queue: "q", IDs: []string{"10", "599", "300"}}} {
		on := b.page(f)
		f.Back = true
		back := b.page(f)
		slices.Reverse(back)
		if got, want := namesOf(back), namesOf(on); !slices.Equal(got, want) {
			b.Fatalf("%+v lists %d jobs, on there are %d: %.200q, %.200q", f, len(got), len(want), got, want)
		}
		if f.Queue == "" {
			continue
		}
		f.Max = 7
		for i := 0; i < len(on); i += 1 + len(on)/20 {
			f.After = on[i].Mark
			back := b.page(f)
			slices.Reverse(back)
			if got, want := namesOf(back), namesOf(on[max(0, i-f.Max):i]); !slices.Equal(got, want) {
				b.Fatalf("before %s there are %q, want %q", on[i].ID, got, want)
			}
		}
	}
}

func namesOf(all []*queue.Job) (names []string) {
	for _, j := range all {
		names = append(names, j.ID)
	}
	return names
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
