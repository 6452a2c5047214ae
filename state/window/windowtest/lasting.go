package windowtest

import (
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

func reopens(h Harness) bool { return h.Reopen != nil }

// lasting holds what survives a crash.
var lasting = []testcase{
	{"keeps its windows through a crash after any step",
		"accepted is accepted: nothing may be in memory only", reopens, survives},
	{"keeps what is parked, put off and tried through a crash",
		"an operator's work, and a back-off, must not start anew", reopens, survivesParked},
	{"ends a hand-out from before a crash",
		"an end that was on its way still counts, once", reopens, survivesLease},
}

func survives(f *fixture) {
	rs := some("b", 40)
	step := func(want tidemill.Books) {
		f.Helper()
		f.books(want)
		f.restart()
		f.books(want)
	}
	f.fresh(rs...)
	opened := f.list(window.Filter{})[0].Opened
	step(tidemill.Books{Accepted: 40, Pending: 40})
	if k := f.put(rs[3], rec("b", "more", "x")); k[0] != window.Overwrote || k[1] != window.New {
		f.Fatalf("after a crash Put says %v", k)
	}
	if i := f.list(window.Filter{})[0]; !i.Opened.Equal(opened) || i.Records != 41 {
		f.Fatalf("after a crash it is %+v", i)
	}
	f.Advance(length)
	f.sweep(1)
	step(tidemill.Books{Accepted: 41, Pending: 41})
	f.take(1)
	step(tidemill.Books{Accepted: 41, Pending: 41})
	f.Advance(lease)
	m := f.take(1)[0]
	if m.Handed != 2 {
		f.Fatalf("%d hand-outs, want 2: one was before the crash", m.Handed)
	}
	f.has(f.read(m, 9), append(rs, rec("b", "more", "x"))...)
	f.apply(m, delivered)
	step(tidemill.Books{Accepted: 41, Settled: tidemill.Count{Delivered: 41}})
	f.nothing()
	if got := f.list(window.Filter{}); len(got) != 0 {
		f.Fatalf("there are %+v", got)
	}
}

func survivesParked(f *fixture) {
	f.closed(some("parked", 4)...)
	f.closed(some("late", 3)...)
	ms := f.takeBatches(2)
	f.apply(ms["parked"], dead)
	f.apply(ms["late"], again(time.Hour, true))
	before := f.list(window.Filter{})
	stats := f.stats()
	f.restart()
	after := f.list(window.Filter{})
	for n := range before {
		if len(after) != len(before) || *after[n] != *before[n] {
			f.Fatalf("window %d is\n%+v, was\n%+v", n, after[n], before[n])
		}
	}
	if now := f.stats(); now.Ready != stats.Ready || now.Parked != stats.Parked {
		f.Fatalf("stats are %+v, were %+v", now, stats)
	}
	f.nothing()
	f.Advance(time.Hour)
	if m := f.take(1)[0]; m.ID != ms["late"].ID || m.Tries != 1 {
		f.Fatalf("received %+v", m)
	}
	if n, err := f.Store.Replay(f.Context(), window.Filter{}); n != 1 || err != nil {
		f.Fatalf("Replay: %d, %v", n, err)
	}
	f.restart()
	m := f.take(1)[0]
	for m.ID != ms["parked"].ID {
		m = f.take(1)[0]
	}
	f.has(f.read(m, 3), some("parked", 4)...)
}

func survivesLease(f *fixture) {
	f.closed(some("b", 5)...)
	m := f.take(1)[0]
	f.restart()
	f.apply(m, delivered)
	f.end(f.source, m, delivered, tidemill.Stale)
	f.Advance(lease)
	f.nothing()
	f.books(tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}})
}
