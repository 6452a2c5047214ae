package windowtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// inspecting holds what is promised to people.
var inspecting = []testcase{
	{"lists windows by state, batch id and ID, the oldest first",
		"people see what waits, what failed and why", nil, lists},
	{"lists many windows, each once",
		"a listing is read page by page", nil, listsMany},
	{"lists back what it lists on, from each window, which may be gone",
		"a page before a page, and what came last", nil, listsBack},
	{"counts by state, with the age of the oldest",
		"a number that grows is an alarm", nil, counts},
	{"replays those that match",
		"one batch at a time, or all", nil, replaysMatching},
	{"stops under a context that has ended",
		"a stop must not wait", nil, deskStops},
}

// each makes a window in every state, of the batch id that is its name.
func (f *fixture) each() {
	f.Helper()
	f.closed(some("parked", 4)...)
	f.apply(f.take(1)[0], dead)
	f.closed(some("leased", 3)...)
	f.take(1)
	f.closed(some("ready", 2)...)
	f.fresh(some("active", 1)...)
}

func lists(f *fixture) {
	f.each()
	names := func(by window.Filter) []string {
		out := []string{}
		for _, i := range f.list(by) {
			out = append(out, i.Batch)
		}
		return out
	}
	for _, c := range []struct {
		by   window.Filter
		want []string
	}{
		{window.Filter{}, []string{"parked", "leased", "ready", "active"}},
		{window.Filter{State: window.Active}, []string{"active"}},
		{window.Filter{State: window.Ready}, []string{"ready"}},
		{window.Filter{State: window.Leased}, []string{"leased"}},
		{window.Filter{State: window.Parked}, []string{"parked"}},
		{window.Filter{Batch: "ready"}, []string{"ready"}},
		{window.Filter{Batch: "ready", State: window.Parked}, []string{}},
		{window.Filter{Max: 2}, []string{"parked", "leased"}},
		{window.Filter{IDs: []string{"x", f.list(window.Filter{Batch: "leased"})[0].ID, "leased/1"}}, []string{"leased"}},
		{window.Filter{State: "else"}, []string{}},
	} {
		if got := names(c.by); !slices.Equal(got, c.want) {
			f.Errorf("%+v lists %q, want %q", c.by, got, c.want)
		}
	}
	for _, i := range f.list(window.Filter{}) {
		if l := f.look(i.ID); *l != *i {
			f.Errorf("Look says\n%+v, List\n%+v", l, i)
		}
	}
	for range f.Store.List(f.Context(), window.Filter{}) {
		break // the caller has seen enough
	}
}

func listsMany(f *fixture) {
	const many = 700
	rs := make([]window.Record, many)
	for i := range rs {
		rs[i] = rec(fmt.Sprintf("b%04d", i), "1", "x")
	}
	f.fresh(rs...)
	n, last, seen := 0, uint64(0), map[string]bool{}
	for i, err := range f.Store.List(f.Context(), window.Filter{}) {
		if err != nil {
			f.Fatal(err)
		}
		if i.Batch != fmt.Sprintf("b%04d", n) && !f.Parts || seen[i.Batch] || i.Revision < last {
			f.Fatalf("window %d is that of %q", n, i.Batch)
		}
		seen[i.Batch], last = true, i.Revision
		if n++; n == 50 { // meanwhile some are closed
			f.Advance(length)
			f.sweep(many)
		}
	}
	if n != many {
		f.Fatalf("listed %d of %d", n, many)
	}
}

func listsBack(f *fixture) {
	f.each()
	const many = 250 // more than is read at once
	for i := range many {
		f.fresh(rec(fmt.Sprintf("b%04d", i), "1", "x"))
		if i%3 == 0 {
			f.Advance(time.Millisecond)
		}
	}
	for _, by := range []window.Filter{{}, {State: window.Active}, {State: window.Parked}, {Batch: "b0100"}} {
		on := idsOf(f.list(by))
		by.Back = true
		if back := idsOf(f.list(by)); !slices.Equal(back, reversed(on)) || len(on) == 0 {
			f.Fatalf("%+v lists %.200q, on there are %.200q", by, back, on)
		}
		for i := 0; i < len(on); i += 1 + len(on)/20 {
			by.After, by.Max = on[i], 7
			by.Back = true
			if got, want := idsOf(f.list(by)), reversed(on[max(0, i-7):i]); !slices.Equal(got, want) {
				f.Fatalf("before %s are %q, want %q", on[i], got, want)
			}
			by.Back = false
			if got, want := idsOf(f.list(by)), on[i+1:min(len(on), i+8)]; !slices.Equal(got, want) {
				f.Fatalf("after %s are %q, want %q", on[i], got, want)
			}
			by.After, by.Max = "", 0
		}
	}
	all := f.list(window.Filter{})
	first := f.take(1)[0] // the one that is ready
	f.apply(first, delivered)
	at := slices.IndexFunc(all, func(i *window.Info) bool { return i.ID == first.ID })
	if got := idsOf(f.list(window.Filter{After: first.ID, Max: 1})); !slices.Equal(got, []string{all[at+1].ID}) {
		f.Errorf("after a window that is gone is %q, want %q", got, all[at+1].ID)
	}
	if got := idsOf(f.list(window.Filter{After: first.ID, Max: 1, Back: true})); !slices.Equal(got, []string{all[at-1].ID}) {
		f.Errorf("before a window that is gone is %q, want %q", got, all[at-1].ID)
	}
}

func idsOf(all []*window.Info) (ids []string) {
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	return ids
}

func reversed(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

func counts(f *fixture) {
	if s := f.stats(); s.Active != (window.Depth{}) || s.Ready != (window.Depth{}) || s.Leased != (window.Depth{}) || s.Parked != (window.Depth{}) || s.Lost != 0 || s.Now.IsZero() {
		f.Fatalf("stats of an empty store: %+v", s)
	}
	f.each()
	f.fresh(some("active", 3)[1:]...)
	f.put(some("active", 1)...)
	s := f.stats()
	for want, state := range []window.State{window.Ready, window.Leased, window.Parked} {
		d, i := s.Of(state), f.list(window.Filter{State: state})[0]
		if d.Windows != 1 || d.Records != int64(want)+2 || !d.Oldest.Equal(i.Opened) {
			f.Errorf("%s: %+v, the window is %+v", state, d, i)
		}
	}
	if a := s.Active; a.Windows != 1 || a.Records != 3 || s.Now.Before(a.Oldest) || s.Now.Sub(a.Oldest) > 10*time.Second {
		f.Errorf("active: %+v of %v", a, s.Now)
	}
	f.Advance(5 * time.Minute)
	f.fresh(rec("other", "1", "x"))
	if s := f.stats(); s.Active.Windows != 2 || s.Now.Sub(s.Active.Oldest) < 5*time.Minute {
		f.Errorf("the oldest is the first of two: %+v", s)
	}
	f.sweep(1)
	m := f.take(1)[0]
	f.apply(m, again(time.Hour, true))
	if s := f.stats(); s.Ready.Windows+s.Leased.Windows != 3 || s.Ready.Records+s.Leased.Records != 2+3+3 {
		f.Errorf("with one put off: %+v", s)
	}
}

func replaysMatching(f *fixture) {
	for _, b := range []string{"a", "b", "c", "d"} {
		f.closed(rec(b, "1", "x"))
		f.apply(f.take(1)[0], dead)
	}
	replay := func(by window.Filter, want int) {
		f.Helper()
		if n, err := f.Store.Replay(f.Context(), by); n != want || err != nil {
			f.Fatalf("Replay %+v: %d, %v; want %d", by, n, err, want)
		}
	}
	replay(window.Filter{Batch: "c"}, 1)
	replay(window.Filter{Batch: "c"}, 0)
	replay(window.Filter{State: window.Ready}, 0)
	replay(window.Filter{Max: 2}, 2)
	var got []string
	for _, m := range f.take(3) {
		got = append(got, string(m.Key))
		f.apply(m, delivered)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"a", "b", "c"}) {
		f.Fatalf("received %q", got)
	}
	replay(window.Filter{State: window.Parked}, 1)
	f.apply(f.take(1)[0], skipped)
	f.books(tidemill.Books{Accepted: 8, Settled: tidemill.Count{Delivered: 3, Skipped: 1, Dead: 4}})
}

func deskStops(f *fixture) {
	f.fresh(rec("b", "1", "x"))
	i := f.list(window.Filter{})[0]
	ctx := ended()
	_, err1 := f.Store.Look(ctx, i.ID)
	_, err2 := f.Store.Stats(ctx)
	_, err3 := f.Store.CloseNow(ctx, "b")
	_, err4 := f.Store.Replay(ctx, window.Filter{})
	_, err5 := f.Store.Sweep(ctx)
	_, err6 := f.Store.Peek(ctx, i.ID, "", make([]window.Record, 1))
	var err7 error
	for _, err := range f.Store.List(ctx, window.Filter{}) {
		err7 = err
	}
	for n, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
		if err == nil {
			f.Errorf("call %d did not stop", n+1)
		}
	}
	if f.look(i.ID).State != window.Active {
		f.Error("it was closed all the same")
	}
}
