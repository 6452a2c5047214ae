package deadlettertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

var listCases = []testcase{
	{name: "lists, counts and discards by every part of a filter", reason: "a wrong filter replays or discards the wrong letters", do: func(t *testing.T, f fixture) {
		var ls []tidemill.DeadLetter
		for i, k := range []tidemill.Kind{tidemill.Validation, tidemill.Partner, tidemill.Timeout, tidemill.Partner} {
			f.clock.Advance(time.Minute)
			l := f.letter(fmt.Sprint("id", i), uint64(i))
			l.Kind = k
			if i == 3 {
				l.Message.Tenant = "u"
			}
			ls = append(ls, l)
		}
		q := f.letter("id0", 9)
		q.Pipeline = "q"
		f.put(t, append(ls, q)...)
		var seqs []int64
		for _, l := range f.list(t, deadletter.Filter{}) {
			seqs = append(seqs, l.Seq)
		}
		f.replay(t, deadletter.Filter{Seqs: []int64{seqs[1], seqs[4]}}, 2)
		for _, c := range []struct {
			by   deadletter.Filter
			want []string
		}{
			{deadletter.Filter{}, []string{"id0", "id1", "id2", "id3", "id0"}},
			{deadletter.Filter{Pipeline: "p"}, []string{"id0", "id1", "id2", "id3"}},
			{deadletter.Filter{Pipeline: "p", Max: math.MaxInt}, []string{"id0", "id1", "id2", "id3"}},
			{deadletter.Filter{Max: math.MaxInt, Back: true}, []string{"id0", "id3", "id2", "id1", "id0"}},
			{deadletter.Filter{Pipeline: "none"}, []string{}},
			{deadletter.Filter{Only: func(pipeline string) bool { return pipeline == "q" }}, []string{"id0"}},
			{deadletter.Filter{Only: func(pipeline string) bool { return pipeline == "p" }, Back: true, Max: 2}, []string{"id3", "id2"}},
			{deadletter.Filter{Only: func(pipeline string) bool { return pipeline == "q" }, Pipeline: "p"}, []string{}},
			{deadletter.Filter{Only: func(pipeline string) bool { return pipeline == "q" }, IDs: []string{"id0", "id1"}}, []string{"id0"}},
			{deadletter.Filter{Only: func(pipeline string) bool { return pipeline == "p" }, Seqs: []int64{seqs[0], seqs[4]}}, []string{"id0"}},
			{deadletter.Filter{Pipeline: "p", Tenant: "t"}, []string{"id0", "id1", "id2"}},
			{deadletter.Filter{Kinds: []tidemill.Kind{tidemill.Validation, tidemill.Timeout}}, []string{"id0", "id2"}},
			{deadletter.Filter{NotKinds: []tidemill.Kind{tidemill.Partner}}, []string{"id0", "id2"}},
			{deadletter.Filter{Kinds: []tidemill.Kind{tidemill.Partner, tidemill.Timeout}, NotKinds: []tidemill.Kind{tidemill.Partner}}, []string{"id2"}},
			{deadletter.Filter{IDs: []string{"id0", "id3", "unknown"}}, []string{"id0", "id3", "id0"}},
			{deadletter.Filter{Pipeline: "p", IDs: []string{"id0"}}, []string{"id0"}},
			{deadletter.Filter{Before: ls[2].At}, []string{"id0", "id1"}},
			{deadletter.Filter{Before: ls[2].At.Add(time.Microsecond)}, []string{"id0", "id1", "id2"}},
			{deadletter.Filter{After: ls[2].At}, []string{"id2", "id3", "id0"}},
			{deadletter.Filter{After: ls[2].At.Add(time.Microsecond)}, []string{"id3", "id0"}},
			{deadletter.Filter{After: ls[1].At, Before: ls[3].At}, []string{"id1", "id2"}},
			{deadletter.Filter{Seqs: []int64{seqs[2]}}, []string{"id2"}},
			{deadletter.Filter{Seqs: []int64{seqs[4], seqs[0], seqs[4], 0, -1, 1 << 60}}, []string{"id0", "id0"}},
			{deadletter.Filter{Seqs: []int64{seqs[1], seqs[3]}, Tenant: "u"}, []string{"id3"}},
			{deadletter.Filter{Seqs: []int64{seqs[0], seqs[1], seqs[2]}, IDs: []string{"id0", "id2"}}, []string{"id0", "id2"}},
			{deadletter.Filter{Seqs: []int64{seqs[1], seqs[2], seqs[3]}, Max: 2}, []string{"id1", "id2"}},
			{deadletter.Filter{Seqs: []int64{1 << 60}}, []string{}},
			{deadletter.Filter{State: deadletter.Replaying}, []string{"id1", "id0"}},
			{deadletter.Filter{State: deadletter.Held}, []string{"id0", "id2", "id3"}},
			{deadletter.Filter{State: deadletter.Held, Pipeline: "p", Tenant: "t"}, []string{"id0", "id2"}},
			{deadletter.Filter{State: deadletter.Held, Pipeline: "q"}, []string{}},
			{deadletter.Filter{State: "none"}, []string{}},
			{deadletter.Filter{State: "none", Pipeline: "p", IDs: []string{"id0"}}, []string{}},
			{deadletter.Filter{Max: 2}, []string{"id0", "id1"}},
			{deadletter.Filter{AfterSeq: seqs[1]}, []string{"id2", "id3", "id0"}},
			{deadletter.Filter{AfterSeq: seqs[1], Max: 1}, []string{"id2"}},
			{deadletter.Filter{AfterSeq: seqs[1], Pipeline: "p", State: deadletter.Held}, []string{"id2", "id3"}},
			{deadletter.Filter{AfterSeq: seqs[1], Pipeline: "p", IDs: []string{"id0", "id3"}}, []string{"id3"}},
			{deadletter.Filter{AfterSeq: seqs[1], Seqs: []int64{seqs[0], seqs[2]}}, []string{"id2"}},
			{deadletter.Filter{AfterSeq: seqs[4]}, []string{}},
			{deadletter.Filter{AfterSeq: 1 << 60}, []string{}},
			{deadletter.Filter{AfterSeq: math.MaxInt64}, []string{}},
			{deadletter.Filter{Pipeline: "p", Tenant: "u", Max: 2}, []string{"id3"}},
			{deadletter.Filter{Back: true, Max: 2}, []string{"id0", "id3"}},
			{deadletter.Filter{Back: true, AfterSeq: seqs[2]}, []string{"id1", "id0"}},
			{deadletter.Filter{Back: true, AfterSeq: seqs[2], Max: 1}, []string{"id1"}},
			{deadletter.Filter{Back: true, AfterSeq: seqs[4], Pipeline: "p", State: deadletter.Held}, []string{"id3", "id2", "id0"}},
			{deadletter.Filter{Back: true, AfterSeq: seqs[3], Pipeline: "p", IDs: []string{"id0", "id3"}}, []string{"id0"}},
			{deadletter.Filter{Back: true, AfterSeq: seqs[1], Seqs: []int64{seqs[0], seqs[2]}}, []string{"id0"}},
			{deadletter.Filter{Back: true, AfterSeq: seqs[0]}, []string{}},
			{deadletter.Filter{Back: true, AfterSeq: math.MaxInt64, Max: 1}, []string{"id0"}},
		} {
			if got := f.ids(t, c.by); !slices.Equal(got, c.want) {
				t.Errorf("List %+v: %q, want %q", c.by, got, c.want)
			}
			if n, err := f.Store.Count(t.Context(), c.by); n != len(c.want) || err != nil {
				t.Errorf("Count %+v: %d, %v; want %d", c.by, n, err, len(c.want))
			}
			if c.by.AfterSeq != 0 || c.by.Max != 0 {
				continue
			}
			c.by.Back = true
			slices.Reverse(c.want)
			if got := f.ids(t, c.by); !slices.Equal(got, c.want) {
				t.Errorf("List %+v: %q, want %q", c.by, got, c.want)
			}
		}
		for _, by := range []deadletter.Filter{{State: deadletter.Replaying}, {Seqs: []int64{seqs[1]}}, {After: ls[3].At.Add(time.Hour)}} {
			if n, err := f.Store.Delete(t.Context(), by); n != 0 || err != nil {
				t.Errorf("Delete %+v: %d, %v; want 0", by, n, err)
			}
		}
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{Pipeline: "p", Before: ls[3].At, Max: 2}); n != 2 || err != nil {
			t.Errorf("Delete: %d, %v; want 2", n, err)
		}
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{Seqs: []int64{seqs[3]}}); n != 1 || err != nil {
			t.Errorf("Delete by number: %d, %v; want 1", n, err)
		}
		if got := f.ids(t, deadletter.Filter{}); !slices.Equal(got, []string{"id1", "id0"}) {
			t.Errorf("left: %q", got)
		}
		f.books(t, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Skipped: 3}, Pending: 1})
	}},
	{name: "lists what was there when it began, over many pages, while letters come and go", reason: "a listing must not hold up work, nor run for ever", do: func(t *testing.T, f fixture) {
		const n = 500
		f.fill(t, n)
		seen, last := 0, int64(0)
		for l, err := range f.Store.List(t.Context(), deadletter.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if l.Seq <= last {
				t.Fatalf("Seq %d after %d", l.Seq, last)
			}
			last = l.Seq
			f.put(t, f.letter(fmt.Sprint("new", seen), 1)) // from inside the loop: nothing is locked
			seen++
		}
		if seen != n {
			t.Errorf("%d letters, want the %d of the beginning", seen, n)
		}
	}},
	{name: "numbers the letters of a call in their order, whatever their pipelines", reason: "a list is in the order in which messages died", do: func(t *testing.T, f fixture) {
		var ls []tidemill.DeadLetter
		var want []string
		for i := range 40 {
			l := f.letter(fmt.Sprint("id", i), uint64(i))
			l.Pipeline = string(rune('z' - i*7%26))
			ls, want = append(ls, l), append(want, l.Message.ID)
		}
		f.put(t, ls...)
		if got := f.ids(t, deadletter.Filter{}); !slices.Equal(got, want) {
			t.Errorf("they are listed as %q", got)
		}
	}},
	{name: "leaves out what is gone by then, and what has died anew under its name", reason: "it is another one, with a number of its own", do: func(t *testing.T, f fixture) {
		const n = 300
		f.fill(t, n)
		seen := map[string]bool{}
		for l, err := range f.Store.List(t.Context(), deadletter.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[l.ID] = true; len(seen) > 1 {
				continue
			}
			if k, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: []string{"id298", "id299"}}); k != 2 || err != nil {
				t.Fatal(k, err)
			}
			f.put(t, f.letter("id299", 1))
		}
		if len(seen) != n-2 || seen["id298"] || seen["id299"] {
			t.Errorf("%d were listed, id298 %v, id299 %v; want the %d that stayed", len(seen), seen["id298"], seen["id299"], n-2)
		}
	}},
	{name: "pages show once what stays, while letters come, go, change and die again between them", reason: "a person goes through a list that others work on",
		do: func(t *testing.T, f fixture) { pages(t, f, false) }},
	{name: "so do pages from the newest back", reason: "a person reads what died last", do: func(t *testing.T, f fixture) { pages(t, f, true) }},
	{name: "finds thousands by number, and refuses to be given more", reason: "one letter among a hundred thousand is not looked for by reading them all", do: func(t *testing.T, f fixture) {
		f.fill(t, 300)
		var seqs []int64
		for _, l := range f.list(t, deadletter.Filter{}) {
			seqs = append(seqs, l.Seq)
		}
		by := deadletter.Filter{Seqs: seqs[50:]}
		for i := len(by.Seqs); i < deadletter.MaxIDs/2; i++ {
			by.Seqs = append(by.Seqs, 1<<50+int64(i))
		}
		for i := range deadletter.MaxIDs / 2 {
			by.IDs = append(by.IDs, fmt.Sprint("id", i))
		}
		if n, err := f.Store.Count(t.Context(), by); n != 250 || err != nil {
			t.Errorf("Count: %d, %v; want 250", n, err)
		}
		if n := len(f.list(t, by)); n != 250 {
			t.Errorf("List: %d, want 250", n)
		}
		by.IDs = append(by.IDs, "one more")
		if _, err := f.Store.Count(t.Context(), by); tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("Count of too many: %v, want an error of kind validation", err)
		}
		refused := false
		for _, err := range f.Store.List(t.Context(), by) {
			refused = tidemill.KindOf(err) == tidemill.Validation
		}
		if !refused {
			t.Error("List of too many says nothing, want an error of kind validation")
		}
	}},
	{name: "stops listing when the context ends or the caller has enough", reason: "a listing may be long", do: func(t *testing.T, f fixture) {
		f.fill(t, 300)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		seen := 0
		for _, err := range f.Store.List(ctx, deadletter.Filter{}) {
			seen++
			cancel()
			last = err
		}
		if seen == 300 || !errors.Is(last, context.Canceled) {
			t.Errorf("%d letters, then %v; want the context's error before the end", seen, last)
		}
		for range f.Store.List(t.Context(), deadletter.Filter{}) {
			break
		}
	}},
	{name: "does not discard what is being replayed", reason: "its fate is somebody's to decide just now", do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		f.replay(t, deadletter.Filter{IDs: []string{"id0"}}, 1)
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
			t.Errorf("Delete: %d, %v; want 1", n, err)
		}
		if got := f.one(t); got.ID != "id0" || got.State != deadletter.Replaying {
			t.Errorf("left: %+v", got)
		}
		f.books(t, tidemill.Books{Accepted: 2, Settled: tidemill.Count{Skipped: 1}, Pending: 1})
	}},
	{name: "never gives a Seq again", reason: "a link to a letter must not lead to another", do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		last := f.list(t, deadletter.Filter{})[1].Seq
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{}); n != 2 || err != nil {
			t.Fatalf("Delete: %d, %v", n, err)
		}
		f.fill(t, 1)
		if got := f.one(t); got.Seq <= last {
			t.Errorf("Seq %d after %d", got.Seq, last)
		}
	}},
	{name: "discards thousands in one call", reason: "retention and purges are large", do: func(t *testing.T, f fixture) {
		const n = 3000
		f.fill(t, n)
		if k, err := f.Store.Delete(t.Context(), deadletter.Filter{Pipeline: "p", Max: n - 1}); k != n-1 || err != nil {
			t.Errorf("Delete: %d, %v; want %d", k, err, n-1)
		}
		if got := f.one(t); got.ID != fmt.Sprint("id", n-1) {
			t.Errorf("left: %s", got.ID)
		}
		f.books(t, tidemill.Books{Accepted: n, Settled: tidemill.Count{Skipped: n - 1}, Pending: 1})
	}},
}

var boundCases = []testcase{
	{name: "refuses what does not fit, and cuts nothing off", reason: "what was given up must not vanish: the lane waits", o: deadletter.Options{Max: 3}, do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		err := f.Store.Put(t.Context(), []tidemill.DeadLetter{f.letter("a", 10), f.letter("b", 11)})
		if !errors.Is(err, deadletter.ErrFull) || tidemill.KindOf(err) != tidemill.RateLimit {
			t.Errorf("Put over the limit: %v, want ErrFull of kind rate_limit", err)
		}
		if got := f.ids(t, deadletter.Filter{}); !slices.Equal(got, []string{"id0", "id1"}) {
			t.Errorf("letters %q", got)
		}
		f.put(t, f.letter("a", 10), f.letter("a", 12)) // one dead letter
		again := f.letter("id0", 0)
		again.Cause = "again"
		f.put(t, again) // existing ones need no room
		other := f.letter("z", 1)
		other.Pipeline = "q"
		f.put(t, other) // other pipelines are not affected
		f.books(t, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Skipped: 1}, Pending: 3})
		if err := f.Store.Put(t.Context(), []tidemill.DeadLetter{f.letter("b", 11)}); !errors.Is(err, deadletter.ErrFull) {
			t.Errorf("Put into the full: %v", err)
		}
		if _, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: []string{"id1"}}); err != nil {
			t.Fatal(err)
		}
		f.put(t, f.letter("b", 11))
		f.books(t, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Skipped: 2}, Pending: 3})
	}},
	{name: "trims the oldest held letters where it is told to, and counts them as lost", reason: "nothing vanishes without a name", o: deadletter.Options{Max: 3, Trim: true}, do: func(t *testing.T, f fixture) {
		f.fill(t, 3)
		f.replay(t, deadletter.Filter{IDs: []string{"id0"}}, 1)
		again := f.letter("id1", 1)
		again.Cause = "again"
		f.put(t, again, f.letter("a", 10)) // id0 is replaying, id1 is dying again: id2 is dropped
		if got := f.ids(t, deadletter.Filter{}); !slices.Equal(got, []string{"id0", "id1", "a"}) {
			t.Errorf("letters %q", got)
		}
		f.books(t, tidemill.Books{Accepted: 4, Pending: 3, Lost: 1})
		err := f.Store.Put(t.Context(), []tidemill.DeadLetter{f.letter("b", 11), f.letter("c", 12), f.letter("d", 13)})
		if !errors.Is(err, deadletter.ErrFull) {
			t.Errorf("more than can be trimmed: %v, want ErrFull", err)
		}
		f.books(t, tidemill.Books{Accepted: 4, Pending: 3, Lost: 1})
		f.put(t, f.letter("b", 11), f.letter("c", 12))
		if got := f.ids(t, deadletter.Filter{}); !slices.Equal(got, []string{"id0", "b", "c"}) {
			t.Errorf("letters %q", got)
		}
		f.books(t, tidemill.Books{Accepted: 6, Pending: 3, Lost: 3})
	}},
}

func pages(t *testing.T, f fixture, back bool) {
	const n, size = 60, 7
	f.fill(t, n)
	shown, stays := map[string]int{}, map[string]bool{}
	for i := range n {
		stays[fmt.Sprint("id", i)] = true
	}
	for last, page := int64(0), 0; ; page++ {
		some := f.list(t, deadletter.Filter{AfterSeq: last, Max: size, Back: back})
		for _, l := range some {
			if last > 0 && (l.Seq > last) == back {
				t.Errorf("%s has the number %d, after %d", l.ID, l.Seq, last)
			}
			shown[l.ID]++
			last = l.Seq
		}
		if len(some) < size {
			break
		}
		f.clock.Advance(time.Minute)
		f.put(t, f.letter(fmt.Sprint("new", page), 1), f.letter("id0", uint64(1000+page)), f.letter("id50", uint64(1000+page)))
		f.edit(t, named("id1"), fmt.Sprint("mended ", page))
		gone := []string{some[0].ID, some[size-1].ID, fmt.Sprint("id", n-1-page)} // the last that was shown too, and one to come
		if back {
			gone[2] = fmt.Sprint("id", 2+page)
		}
		for _, id := range gone {
			delete(stays, id)
		}
		if _, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: slices.DeleteFunc(gone, func(id string) bool { return id == "id1" })}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range stays {
		if shown[id] != 1 {
			t.Errorf("%s was shown %d times, want once", id, shown[id])
		}
	}
	for id, k := range shown {
		if k > 1 && id != "id0" { // which was deleted and died anew
			t.Errorf("%s was shown %d times", id, k)
		}
	}
}
