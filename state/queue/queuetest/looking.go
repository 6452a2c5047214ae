package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// listsTenant lists tenants with few jobs among one with many, which have several priorities and keys.
func listsTenant(b *bench) {
	for _, kept := range []string{"together", "apart", "in order"} {
		if _, err := b.whole().Set(b.Context(), kept, func(s *queue.Settings) {
			s.Ordered = kept == "in order"
			if kept == "apart" {
				s.Fair = queue.ByKey
			}
		}); err != nil {
			b.Fatal(err)
		}
		var want []string
		for i := range 30 {
			var some []*tidemill.Message
			for k := range 80 {
				m := job(fmt.Sprint(i, "-", k))
				m.To, m.Tenant, m.Priority, m.Key = kept, "many", uint8(k%3), fmt.Append(nil, "key", k%2)
				if k == i {
					m.Tenant, m.Priority = "few", uint8(i%4)
				}
				some = append(some, m)
			}
			b.add(queue.New, some...)
			want = append(want, fmt.Sprint(i, "-", i))
		}
		later := job("later")
		later.To, later.Tenant, later.At = kept, "few", b.now().Add(time.Hour)
		b.add(queue.New, later)
		look, rests := 1, 0
		if kept == "in order" { // a backend may look for them among all
			look, rests = 500, 10
		}
		var few []*queue.Job
		for _, max := range []int{0, 1, 4, 31} {
			f := queue.Filter{Queue: kept, Tenant: "few", State: queue.Waiting, Max: max, Look: look}
			few = b.inPages(f, rests)
			got := namesOf(few)
			slices.Sort(got)
			if sorted := slices.Sorted(slices.Values(want)); !slices.Equal(got, sorted) {
				b.Errorf("%s, in pages of %d: %q is listed, want %q", kept, max, got, sorted)
			}
			f.Back = true
			back := b.inPages(f, rests)
			slices.Reverse(back)
			if !slices.Equal(namesOf(back), namesOf(few)) {
				b.Errorf("%s, in pages of %d: back there is %q, want %q", kept, max, namesOf(back), namesOf(few))
			}
		}
		if got := b.inPages(queue.Filter{Queue: kept, Tenant: "nobody", State: queue.Waiting, Look: look}, rests); len(got) != 0 {
			b.Errorf("%s: nobody has %q", kept, namesOf(got))
		}
		if got := b.inPages(queue.Filter{Queue: kept, Tenant: "few", Max: 7, Look: 500}, 10); len(got) != len(want)+1 {
			b.Errorf("%s: %d jobs have not ended, want %d", kept, len(got), len(want)+1)
		}
	}
}

// inPages lists what a filter chooses, page by page, each after the last job of another or where that
// stopped to look: at most rests of them did.
func (b *bench) inPages(f queue.Filter, rests int) (all []*queue.Job) {
	b.Helper()
	for {
		n, more := 0, false
		for j, err := range b.Store.List(b.Context(), f) {
			if rest, is := errors.AsType[*queue.Rest](err); is {
				if rests--; rests < 0 || rest.Looked < 1 || rest.Looked > f.Look || rest.After == f.After {
					b.Fatalf("%+v: looked at %d and stopped behind %v", f, rest.Looked, rest.After)
				}
				f.After, more = rest.After, true
				break
			}
			if err != nil {
				b.Fatalf("list %+v: %v", f, err)
			}
			all, n, f.After = append(all, j), n+1, j.Mark
		}
		if !more && (f.Max == 0 || n < f.Max) {
			return all
		}
	}
}

// rests lists what no order finds, with little looking at a time.
func rests(b *bench) {
	const n, look = 400, 50
	src := b.open("q")
	b.set(func(s *queue.Settings) { s.Fair, s.Failed.Count = queue.Unfair, n })
	for i := range n {
		m := job(fmt.Sprint(i))
		m.Type, m.Tenant = "common", "many"
		if i%150 == 7 {
			m.Type, m.Tenant = "rare", "few"
		}
		if i%2 == 1 {
			m.At = b.now().Add(time.Hour)
		}
		b.add(queue.New, m)
	}
	for _, m := range b.take(src, 100) {
		b.settle(src, tidemill.Settlement{Fate: tidemill.Dead, ID: m.ID, Mark: m.Mark})
	}
	for _, f := range []queue.Filter{{Type: "rare"}, {Type: "rare", State: queue.Delayed}, {Tenant: "few", State: queue.Delayed}, {Tenant: "few"}, {Type: "common", State: queue.Failed}, {Tenant: "nobody", State: queue.Failed}, {Type: "none"}, {Before: b.now().Add(-time.Hour)}} {
		f.Queue = "q"
		for _, f.Back = range []bool{false, true} {
			for _, f.Max = range []int{0, 2} {
				whole := f
				whole.Max = 0
				f.Look = look
				want, got := namesOf(b.list(whole)), namesOf(b.inPages(f, n/look+2))
				if !slices.Equal(got, want) {
					b.Errorf("%+v lists %q, want %q", f, got, want)
				}
				f.Look = 0
			}
		}
	}
	looked := false
	for _, err := range b.Store.List(b.Context(), queue.Filter{Queue: "q", Type: "none", Look: look}) {
		_, looked = errors.AsType[*queue.Rest](err)
	}
	if !looked {
		b.Errorf("a listing that finds nothing in %d jobs did not say that it looked at no more than %d", n, look)
	}
}
