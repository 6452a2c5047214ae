package windowtest

import (
	"errors"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// refused checks that a mark reads nothing.
func (f *fixture) refused(m tidemill.Mark, from string) {
	f.Helper()
	p, err := f.Store.Page(f.Context(), m, from, make([]window.Record, 3))
	if !errors.Is(err, window.ErrStale) || tidemill.KindOf(err) != tidemill.Transient || p != (window.Page{}) {
		f.Fatalf("Page under %+v: %+v, %v; want ErrStale", m, p, err)
	}
}

// settling holds what a settlement does to a window, its records and the books.
var settling = []testcase{
	{"deletes what was delivered or skipped, and nothing else",
		"clean-up deletes exactly what was sent", nil, deletesExactly},
	{"books what became of the records",
		"accepted = delivered + skipped + dead, record by record", nil, booksRecords},
	{"parks what is dead, whole and with its reason",
		"a batch that failed is kept until somebody decides", nil, parksWhole},
	{"replays what is parked as if it were new",
		"an outage that is over must not have cost anything", nil, replays},
	{"counts failed tries, and keeps the last failure",
		"people see why a batch is tried again", nil, keepsFailure},
	{"settles by ID alone",
		"somebody who knows the batch can end it, whoever has it", nil, settlesByID},
	{"refuses a settlement that says nothing",
		"an end without a fate would leave the books", nil, refusesFateless},
	{"renews what is kept",
		"a large batch takes longer than a lease", nil, renews},
}

func deletesExactly(f *fixture) {
	f.closed(some("a", 20)...)
	f.closed(some("b", 20)...)
	f.put(some("a", 25)...)
	ms := f.takeBatches(2)
	f.apply(ms["a"], delivered)
	f.has(f.read(ms["b"], 6), some("b", 20)...)
	f.apply(ms["b"], skipped)
	for _, m := range ms {
		if _, err := f.Store.Look(f.Context(), m.ID); !errors.Is(err, window.ErrNotFound) || tidemill.KindOf(err) != tidemill.NotFound {
			f.Fatalf("Look of a settled window: %v", err)
		}
		if _, err := f.Store.Peek(f.Context(), m.ID, "", make([]window.Record, 1)); !errors.Is(err, window.ErrNotFound) {
			f.Fatalf("Peek of a settled window: %v", err)
		}
		f.refused(m.Mark, "")
	}
	f.books(tidemill.Books{Accepted: 65, Settled: tidemill.Count{Delivered: 20, Skipped: 20}, Pending: 25})
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	f.has(f.read(m, 6), some("a", 25)...)
	f.apply(m, delivered)
}

func booksRecords(f *fixture) {
	for _, b := range []string{"a", "b", "c", "d"} {
		f.fresh(some(b, 10)...)
	}
	f.Advance(length)
	f.sweep(4)
	ms := f.take(4)
	f.books(tidemill.Books{Accepted: 40, Pending: 40})
	part := delivered
	part.Records = tidemill.Count{Delivered: 6, Skipped: 3, Dead: 1}
	f.apply(ms[0], part)
	f.apply(ms[1], delivered)
	f.apply(ms[2], skipped)
	whole := dead
	whole.Records = tidemill.Count{Delivered: 6, Dead: 4} // a window is parked as a whole
	f.apply(ms[3], whole)
	f.books(tidemill.Books{Accepted: 40, Settled: tidemill.Count{Delivered: 16, Skipped: 13, Dead: 11}})
}

func parksWhole(f *fixture) {
	f.closed(some("b", 12)...)
	m := f.take(1)[0]
	e := dead
	e.Cause = strings.Repeat("é", 10_000)
	f.apply(m, e)
	f.nothing()
	f.refused(m.Mark, "")
	f.end(f.source, m, delivered, tidemill.Stale)
	i := f.look(m.ID)
	if i.State != window.Parked || i.Kind != tidemill.Partner || !strings.HasPrefix(i.Cause, "éé") || len(i.Cause) > 5000 || i.Failed.IsZero() || i.Owner != "" || !i.Due.IsZero() || i.Tries != 1 {
		f.Fatalf("parked it is %+v", i)
	}
	f.has(f.peek(m.ID), some("b", 12)...)
	if s := f.stats(); s.Parked.Windows != 1 || s.Parked.Records != 12 || s.Leased != (window.Depth{}) {
		f.Fatalf("stats %+v", s)
	}
	f.Advance(100 * 24 * time.Hour)
	f.sweep(0)
	f.has(f.peek(m.ID), some("b", 12)...)
	f.books(tidemill.Books{Accepted: 12, Settled: tidemill.Count{Dead: 12}})
}

func replays(f *fixture) {
	f.closed(some("b", 12)...)
	m := f.take(1)[0]
	f.apply(m, again(0, true))
	m = f.take(1)[0]
	f.apply(m, dead)
	if n, err := f.Store.Replay(f.Context(), window.Filter{IDs: []string{m.ID}}); n != 1 || err != nil {
		f.Fatalf("Replay: %d, %v", n, err)
	}
	if n, err := f.Store.Replay(f.Context(), window.Filter{}); n != 0 || err != nil {
		f.Fatalf("Replay of nothing: %d, %v", n, err)
	}
	f.books(tidemill.Books{Accepted: 24, Settled: tidemill.Count{Dead: 12}, Pending: 12})
	back := f.take(1)[0]
	if back.ID != m.ID || back.Tries != 0 || back.Handed != 1 {
		f.Fatalf("the replay is %+v", back)
	}
	if i := f.look(m.ID); i.Replays != 1 {
		f.Fatalf("after a replay it is %+v", i)
	}
	f.has(f.read(back, 5), some("b", 12)...)
	f.apply(back, delivered)
	f.books(tidemill.Books{Accepted: 24, Settled: tidemill.Count{Delivered: 12, Dead: 12}})
}

func keepsFailure(f *fixture) {
	f.closed(some("b", 1)...)
	m := f.take(1)[0]
	f.apply(m, again(time.Minute, true))
	i := f.look(m.ID)
	if i.Tries != 1 || i.Handed != 1 || i.Kind != tidemill.Timeout || i.Cause != "no answer" || i.Failed.IsZero() || i.Due.Sub(i.Failed) < time.Minute {
		f.Fatalf("after a failed try it is %+v", i)
	}
	f.Advance(time.Minute)
	m = f.take(1)[0]
	f.apply(m, again(0, false))
	if i := f.look(m.ID); i.Tries != 1 || i.Handed != 2 || !i.Due.IsZero() {
		f.Fatalf("after another that burnt nothing it is %+v", i)
	}
	m = f.take(1)[0]
	if m.Tries != 1 || m.Handed != 3 {
		f.Fatalf("received %+v, want 1 try and 3 hand-outs", m)
	}
	f.end(f.source, m, again(0, true), tidemill.Applied)
	f.end(f.source, m, again(0, true), tidemill.Stale) // the answer was lost, and it is sent again
	m = f.take(1)[0]
	if m.Tries != 2 {
		f.Fatalf("%d tries, want 2", m.Tries)
	}
	f.apply(m, delivered)
}

func settlesByID(f *fixture) {
	f.closed(some("b", 3)...)
	m := f.take(1)[0]
	f.nothing()
	other := f.Store.Open()
	for _, id := range []string{"", "nobody", "b", "b/", "b/0", "c/1", "b/007"} {
		f.end(other, &tidemill.Message{ID: id}, delivered, tidemill.Stale)
	}
	f.end(other, &tidemill.Message{ID: m.ID}, delivered, tidemill.Applied)
	f.end(f.source, m, delivered, tidemill.Stale)
	f.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
}

func refusesFateless(f *fixture) {
	f.closed(some("b", 3)...)
	m := f.take(1)[0]
	ends := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark}}
	if err := f.source.Settle(f.Context(), ends); err == nil || ends[0].Outcome != tidemill.Unanswered {
		f.Fatalf("an end without a fate was taken as %d, %v", ends[0].Outcome, err)
	}
	f.apply(m, delivered)
}

func renews(f *fixture) {
	f.closed(some("b", 3)...)
	f.closed(some("c", 3)...)
	m, o := f.take(1)[0], f.Store.Open()
	f.takeFrom(o, 1) // and never kept
	for range 5 {
		f.Advance(lease / 2)
		if err := f.source.(tidemill.Keeper).Keep(f.Context()); err != nil {
			f.Fatalf("Keep: %v", err)
		}
	}
	if back := f.take(1)[0]; string(back.Key) != "c" {
		f.Fatalf("%q came back, which was kept", back.Key)
	}
	f.has(f.read(m, 5), some("b", 3)...)
	f.apply(m, delivered)
}
