package windowtest

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// closing holds what Sweep and CloseNow promise.
var closing = []testcase{
	{"closes a window when its time is over, counted from its first record",
		"a batch waits for its stragglers, and not for ever", nil, closesByTime},
	{"closes a window when as many records are there as were told of",
		"who knows how many there are need not wait", nil, closesByCount},
	{"counts the newest number that was told, for the window in which it was told",
		"a producer may correct itself", nil, newestExpectation},
	{"says when the next window is over",
		"who sweeps can sleep until then", nil, saysNext},
	{"closes a bounded number at once and says that there is more",
		"one sweep must not hold up everybody", nil, sweepsInSteps},
	{"opens another window for what comes after the closing",
		"what comes late is sent too, not deleted unsent", nil, lateOpensAnother},
	{"never uses an ID again",
		"destinations know a window by it", nil, newIDs},
	{"closes by hand, and says whether there was something to close",
		"an operator who knows that all is there need not wait", nil, closesByHand},
}

func closesByTime(f *fixture) {
	f.fresh(rec("b", "1", "x"))
	f.Advance(length - 10*time.Second)
	f.fresh(rec("b", "2", "x"), rec("c", "1", "x")) // does not start b anew
	f.sweep(0)
	f.nothing()
	f.Advance(10 * time.Second)
	f.sweep(1)
	got := f.list(window.Filter{Batch: "b"})
	if len(got) != 1 || got[0].State != window.Ready || got[0].Why != window.ByTime || got[0].Closed.Before(got[0].Opened.Add(length)) || !got[0].Due.IsZero() {
		f.Fatalf("after the time: %+v", got)
	}
	m := f.take(1)[0]
	f.has(f.read(m, 5), rec("b", "1", "x"), rec("b", "2", "x"))
	f.apply(m, delivered)
	f.nothing()
	f.Advance(length)
	f.sweep(1)
	f.apply(f.take(1)[0], delivered)
}

func closesByCount(f *fixture) {
	expecting := func(id string) window.Record {
		r := rec("b", id, "x")
		r.Expect = 3
		return r
	}
	f.put(expecting("1"), expecting("2"), expecting("1"), expecting("2"))
	f.sweep(0) // duplicates do not count
	f.put(expecting("2"), rec("c", "3", "x"))
	f.sweep(0)
	f.put(expecting("3"))
	f.sweep(1)
	m := f.take(1)[0]
	s, err := window.Read(m)
	if err != nil || s.Why != window.ByCount || s.Records != 3 {
		f.Fatalf("message says %+v, %v", s, err)
	}
	f.apply(m, delivered)
	// More records than that at once close it as well.
	f.put(expecting("1"), expecting("2"), expecting("3"), expecting("4"))
	f.sweep(1)
	if s, _ := window.Read(f.take(1)[0]); s.Records != 4 {
		f.Fatalf("message says %+v, want 4 records", s)
	}
}

func newestExpectation(f *fixture) {
	r := rec("b", "1", "x")
	r.Expect = 1
	f.put(r)
	r2 := rec("b", "2", "x")
	r2.Expect = 3
	f.put(r2, rec("b", "1", "x"))
	if i := f.list(window.Filter{})[0]; i.Expect != 3 {
		f.Fatalf("%d are expected, want 3", i.Expect)
	}
	f.sweep(0)
	f.put(rec("b", "3", "x"))
	f.sweep(1)
	f.put(rec("b", "4", "x"))
	f.sweep(0) // no number was announced for the new window
}

func saysNext(f *fixture) {
	if done := f.sweep(0); done.Next >= 0 {
		f.Fatalf("an empty store says that something is to be closed in %v", done.Next)
	}
	f.fresh(rec("b", "1", "x"))
	f.Advance(length / 2)
	f.fresh(rec("c", "1", "x"))
	if done := f.sweep(0); done.Next > length/2 || done.Next < length/2-10*time.Second {
		f.Fatalf("the next is over in %v, want %v", done.Next, length/2)
	}
	f.Advance(length / 2)
	if done := f.sweep(1); done.Next > length/2 || done.Next < length/2-10*time.Second {
		f.Fatalf("then the next is over in %v, want %v", done.Next, length/2)
	}
	f.Advance(length / 2)
	if done := f.sweep(1); done.Next >= 0 {
		f.Fatalf("when all are closed the next is over in %v", done.Next)
	}
}

func sweepsInSteps(f *fixture) {
	const many = 2500
	rs := make([]window.Record, many)
	for i := range rs {
		rs[i] = rec(fmt.Sprint("b", i), "1", "x")
	}
	f.fresh(rs...)
	f.Advance(length)
	closed, calls := 0, 0
	for {
		done, err := f.Store.Sweep(f.Context())
		if err != nil || done.Closed >= many {
			f.Fatalf("one sweep closed %d, %v", done.Closed, err)
		}
		if closed, calls = closed+done.Closed, calls+1; done.Next != 0 {
			break
		}
	}
	if closed != many {
		f.Fatalf("%d sweeps closed %d of %d", calls, closed, many)
	}
	if s := f.stats(); s.Active.Windows != 0 || s.Ready.Windows != many || s.Ready.Records != many {
		f.Fatalf("stats %+v", s)
	}
	for i, m := range f.take(many) {
		if string(m.Key) != fmt.Sprint("b", i) && !f.Parts {
			f.Fatalf("window %d is that of %q: want the oldest first", i, m.Key)
		}
	}
}

func lateOpensAnother(f *fixture) {
	f.closed(rec("b", "1", "first"))
	f.fresh(rec("b", "1", "while it is ready"))
	first := f.take(1)[0]
	f.fresh(rec("b", "2", "while it is leased"))
	f.has(f.read(first, 10), rec("b", "1", "first"))
	f.apply(first, delivered)
	f.fresh(rec("b", "3", "after it was cleaned up"))
	f.Advance(length)
	f.sweep(1)
	second := f.take(1)[0]
	if second.ID == first.ID || second.Mark.At(first.Mark) {
		f.Fatalf("both windows are %q at %+v", first.ID, first.Mark)
	}
	f.has(f.read(second, 10), rec("b", "1", "while it is ready"), rec("b", "2", "while it is leased"), rec("b", "3", "after it was cleaned up"))
	f.apply(second, delivered)
	f.books(tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 4}})
}

func newIDs(f *fixture) {
	seen, last := map[string]bool{}, uint64(0)
	for i := range 5 {
		f.fresh(rec("b", "1", "x"))
		f.closeNow("b")
		m := f.take(1)[0]
		if _, revision, ok := window.ParseID(m.ID); !ok || seen[m.ID] || revision <= last {
			f.Fatalf("window %d has the ID %q after %v", i, m.ID, seen)
		} else {
			seen[m.ID], last = true, revision
		}
		f.apply(m, delivered)
		if f.Reopen != nil && i%2 == 0 {
			f.restart()
		}
	}
}

func closesByHand(f *fixture) {
	f.fresh(rec("b", "1", "x"), rec("c", "1", "x"))
	f.closeNow("b")
	for _, batch := range []string{"b", "nobody", ""} {
		if ok, err := f.Store.CloseNow(f.Context(), batch); ok || err != nil {
			f.Errorf("CloseNow of %q, which has no active window: %v, %v", batch, ok, err)
		}
	}
	m := f.take(1)[0]
	if s, err := window.Read(m); string(m.Key) != "b" || err != nil || s.Why != window.ByHand {
		f.Fatalf("received %q, %+v, %v", m.Key, s, err)
	}
	f.apply(m, delivered)
	f.nothing()
}
