package ledgertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
)

var findCases = []testcase{
	{"finds entries as they are and opens nothing", "to look is not to begin", func(t *testing.T, h Harness) {
		e := asked(t, h, "running", "print", ledger.Begin{})
		done := fresh(t, h.Ledger, "done", "a")
		end(t, h.Ledger, done, ledger.Done, "r", "")
		failed := fresh(t, h.Ledger, "failed", "a")
		end(t, h.Ledger, failed, ledger.Failed, "", "refused")
		h.Clock.Advance(time.Hour)
		es := []*ledger.Entry{{Key: "failed"}, {Key: "none", State: ledger.Done, Token: 7, Result: []byte("x")}, {Key: "running", Print: []byte("other")}, {Key: "done"}, {Key: "done"}}
		for range 2 {
			if err := h.Ledger.Find(t.Context(), es); err != nil {
				t.Fatal(err)
			}
			if x := es[0]; x.State != ledger.Failed || x.Err != "refused" || x.Token != failed.Token || x.Ended.IsZero() {
				t.Errorf("failed: %+v", x)
			}
			if x := es[1]; x.State != 0 || x.Key != "none" || x.Token != 0 || x.Result != nil {
				t.Errorf("none: %+v, want nothing but its key", x)
			}
			if x := es[2]; x.State != ledger.Running || x.Token != e.Token || string(x.Payload) != "for print" || string(x.Print) != "print" || x.Tries != 1 || !x.Started.Equal(e.Started) {
				t.Errorf("running: %+v", x)
			}
			for _, x := range es[3:] {
				if x.State != ledger.Done || string(x.Result) != "r" || x.Token != done.Token || x.Holder != "a" {
					t.Errorf("done: %+v", x)
				}
			}
		}
	}},
	{"finds nothing, and many", "a page of events asks for all its fates at once", func(t *testing.T, h Harness) {
		if err := h.Ledger.Find(t.Context(), nil); err != nil {
			t.Errorf("Find of nothing: %v", err)
		}
		const n = 1100
		es := make([]*ledger.Entry, n)
		for i := range es {
			es[i] = &ledger.Entry{Key: string(rune('a'+i%26)) + string(rune('a'+i/26))}
		}
		if err := h.Ledger.Begin(t.Context(), es[:n/2], ledger.Begin{}); err != nil {
			t.Fatal(err)
		}
		if err := h.Ledger.Find(t.Context(), es); err != nil {
			t.Fatal(err)
		}
		for i, e := range es {
			if (e.State == ledger.Running) != (i < n/2) {
				t.Fatalf("entry %d: %v", i, e.State)
			}
		}
	}},
	{"begins a listing after an entry", "a page of an answer begins where the last one ended", func(t *testing.T, h Harness) {
		want := []string{"b", "a", "c", "d", "d\x00", "é", "\xff", "0"}
		for i, k := range want {
			fresh(t, h.Ledger, k, "h")
			if i == 0 || i == len(want)-2 {
				h.Clock.Advance(time.Millisecond)
			}
		}
		for size := 1; size <= 4; size++ {
			f, got := ledger.Filter{Max: size}, []string{}
			for range want {
				page := all(t, h.Ledger, f)
				if len(page) == 0 {
					break
				}
				got = append(got, keys(page)...)
				last := page[len(page)-1]
				f.From, f.After = last.Created, last.Key
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d: %q, want %q", size, got, want)
			}
		}
		first := all(t, h.Ledger, ledger.Filter{Max: 1})[0]
		for _, c := range []struct {
			f    ledger.Filter
			want []string
		}{
			{ledger.Filter{From: first.Created, After: "b"}, want[1:]},
			{ledger.Filter{From: first.Created, After: "a"}, want},
			{ledger.Filter{From: first.Created, To: first.Created, After: "b"}, []string{}},
			{ledger.Filter{From: first.Created.Add(time.Millisecond), After: "cc"}, want[3:]}, // of a key that does not exist
			{ledger.Filter{From: first.Created.Add(time.Microsecond), After: "zz"}, want[1:]}, // no entry has that millisecond
			{ledger.Filter{After: "c"}, want},                                                 // without a time
		} {
			if got := keys(all(t, h.Ledger, c.f)); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q, want %q", c.f, got, c.want)
			}
		}
	}},
	{"lists from the newest to the oldest, page after page", "people look at what came last first", func(t *testing.T, h Harness) {
		for i, k := range []string{"b", "a", "c", "d", "d\x00", "é", "\xff", "0"} {
			fresh(t, h.Ledger, k, "h")
			if i == 0 || i == 6 {
				h.Clock.Advance(time.Millisecond)
			}
		}
		want := []string{"0", "\xff", "é", "d\x00", "d", "c", "a", "b"}
		for size := 1; size <= 4; size++ {
			f, got := ledger.Filter{Back: true, Max: size}, []string{}
			for range want {
				page := all(t, h.Ledger, f)
				if len(page) == 0 {
					break
				}
				got = append(got, keys(page)...)
				last := page[len(page)-1]
				f.To, f.After = last.Created, last.Key
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d: %q, want %q", size, got, want)
			}
		}
		first, second := all(t, h.Ledger, ledger.Filter{Max: 1})[0].Created, all(t, h.Ledger, ledger.Filter{Max: 2})[1].Created
		for _, c := range []struct {
			f    ledger.Filter
			want []string
		}{
			{ledger.Filter{To: second}, want[1:]},
			{ledger.Filter{To: second.Add(300 * time.Microsecond)}, want[1:]},
			{ledger.Filter{To: second, After: "cc"}, want[5:]}, // of a key that does not exist
			{ledger.Filter{From: second, To: second, After: "d"}, []string{"c", "a"}},
			{ledger.Filter{From: second}, want[:7]},
			{ledger.Filter{From: second, After: "c"}, want[:7]},          // it is of To
			{ledger.Filter{From: first.Add(time.Microsecond)}, want[:7]}, // no entry has that millisecond
			{ledger.Filter{After: "c"}, want},                            // without a time
			{ledger.Filter{To: first, After: "b"}, []string{}},           // the oldest
			{ledger.Filter{To: first.Add(-time.Millisecond)}, []string{}},
			{ledger.Filter{From: second.Add(time.Hour)}, []string{}},
		} {
			c.f.Back = true
			if got := keys(all(t, h.Ledger, c.f)); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q, want %q", c.f, got, c.want)
			}
		}
	}},
	{"lists many both ways", "pages of a backend are not to be seen", func(t *testing.T, h Harness) {
		const n = 330
		es := make([]*ledger.Entry, n)
		for i := range es {
			es[i] = &ledger.Entry{Key: string(rune('a'+i%26)) + string(rune('a'+i/26)), Type: []string{"common", "rare"}[i/(n-5)]}
		}
		for i := 0; i < n; i += 110 {
			if err := h.Ledger.Begin(t.Context(), es[i:i+110], ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
			h.Clock.Advance(time.Millisecond)
		}
		forth := keys(all(t, h.Ledger, ledger.Filter{}))
		back := keys(all(t, h.Ledger, ledger.Filter{Back: true}))
		if slices.Reverse(back); len(forth) != n || !slices.Equal(forth, back) {
			t.Errorf("%d and %d entries of %d, or in another order", len(forth), len(back), n)
		}
		forth, back = keys(all(t, h.Ledger, ledger.Filter{Type: "rare"})), keys(all(t, h.Ledger, ledger.Filter{Type: "rare", Back: true}))
		if slices.Reverse(back); len(forth) != 5 || !slices.Equal(forth, back) {
			t.Errorf("rare: %q and %q", forth, back)
		}
		if got := all(t, h.Ledger, ledger.Filter{Back: true, Max: 150}); len(got) != 150 || got[149].Key == got[148].Key {
			t.Errorf("%d of 150", len(got))
		}
	}},
	{"finds, lists and expires nothing under an ended context", "a stop must not be held up, nor show a ledger that is empty", func(t *testing.T, h Harness) {
		end(t, h.Ledger, fresh(t, h.Ledger, "k", "a"), ledger.Done, "r", "")
		h.Clock.Advance(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Ledger.Find(ctx, []*ledger.Entry{{Key: "k"}}); err == nil {
			t.Error("Find: no error")
		}
		var err error
		for _, err = range h.Ledger.Range(ctx, ledger.Filter{}) {
			if err == nil {
				t.Error("Range yields an entry")
			}
		}
		if err == nil {
			t.Error("Range: no error")
		}
		if n, err := h.Ledger.Expire(ctx, h.Clock.Now(), 0); n != 0 || err == nil {
			t.Errorf("Expire: %d, %v; want an error", n, err)
		}
		if n := len(all(t, h.Ledger, ledger.Filter{})); n != 1 {
			t.Errorf("%d entries are left, want 1", n)
		}
	}},
}

var otherCases = []testcase{
	{"keeps ledgers of other names apart", "keys that live for a day lie beside a log of years", func(t *testing.T, h Harness) {
		other := h.Other(t)
		end(t, h.Ledger, fresh(t, h.Ledger, "k", "a"), ledger.Done, "here", "")
		there := fresh(t, other, "k", "a")
		h.Clock.Advance(time.Hour)
		if n, err := h.Ledger.Expire(t.Context(), h.Clock.Now(), 0); n != 1 || err != nil {
			t.Errorf("Expire here: %d, %v; want 1", n, err)
		}
		if got := keys(all(t, other, ledger.Filter{})); !slices.Equal(got, []string{"k"}) {
			t.Errorf("there: %q, want k", got)
		}
		if end(t, other, there, ledger.Done, "there", "") {
			t.Error("the End there was stale")
		}
		if got := all(t, h.Ledger, ledger.Filter{}); len(got) != 0 {
			t.Errorf("here: %q, want nothing", keys(got))
		}
	}},
}
