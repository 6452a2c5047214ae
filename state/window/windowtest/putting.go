package windowtest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// putting holds what Put promises.
var putting = []testcase{
	{"opens a window with the first record of a batch id, and keeps in it what follows",
		"records that belong together are one batch", nil, opensOnce},
	{"says New once, and Overwrote for what comes again",
		"accepted = delivered + skipped: a duplicate is booked by who put it", nil, saysNewOnce},
	{"keeps the bytes that were put last",
		"a record that was sent again was sent again for a reason", nil, keepsLast},
	{"keeps both of two records that share an id and differ in their qualifier",
		"two sentences of one document are two mentions", nil, keepsBoth},
	{"tells names apart whatever bytes they have",
		"ids come from outside: none may take another's place", nil, tellsApart},
	{"keeps every byte",
		"a record is delivered as it was received", nil, keepsBytes},
	{"keeps the trace that a record was put with last",
		"what is made of a record goes on under its sender's trace", nil, keepsTraces},
	{"keeps nothing of the caller's memory",
		"a poll's memory is used again for the next", nil, copies},
	{"takes many records of many batch ids at once",
		"one round trip for a poll", nil, takesMany},
	{"takes a large record",
		"limits inside a backend must not cut anything off", nil, takesLarge},
	{"refuses what cannot be kept, with all of its call",
		"the caller is told before anything happens", nil, refusesNonsense},
	{"does nothing under a context that has ended",
		"nobody is there to hear the answer", nil, putsNothingAfterEnd},
	{"starts one window for many who see its first record",
		"however many instances see it, one window is started", nil, startsOne},
}

func opensOnce(f *fixture) {
	f.fresh(rec("b", "1", "one"))
	f.Advance(length / 2)
	f.fresh(rec("b", "2", "two"), rec("c", "1", "other"))
	got := f.list(window.Filter{})
	if len(got) != 2 || got[0].Batch != "b" || got[0].Records != 2 || got[1].Batch != "c" || got[1].Records != 1 {
		f.Fatalf("there are %d windows: %+v", len(got), got)
	}
	for _, i := range got {
		batch, revision, ok := window.ParseID(i.ID)
		if !ok || batch != i.Batch || revision != i.Revision || i.State != window.Active || i.Opened.IsZero() || !i.Due.Equal(i.Opened.Add(length)) || !i.Closed.IsZero() {
			f.Fatalf("window %+v", i)
		}
	}
	f.books(tidemill.Books{Accepted: 3, Pending: 3})
}

func saysNewOnce(f *fixture) {
	rs := some("b", 6)
	check := func(want []window.Kept, rs ...window.Record) {
		f.Helper()
		if got := f.put(rs...); !slices.Equal(got, want) {
			f.Fatalf("Put says %v, want %v", got, want)
		}
	}
	check([]window.Kept{1, 1, 1}, rs[0], rs[1], rs[2])
	check([]window.Kept{2, 2, 2}, rs[0], rs[1], rs[2])
	check([]window.Kept{2, 1, 2, 1}, rs[1], rs[3], rs[0], rs[4])
	check([]window.Kept{1, 2, 2}, rs[5], rs[5], rs[5])
	if err := f.Store.Put(f.Context(), rs, nil); err != nil {
		f.Fatalf("Put without room for answers: %v", err)
	}
	f.books(tidemill.Books{Accepted: 6, Pending: 6})
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	f.has(f.read(m, 4), rs...)
	f.apply(m, delivered)
	f.books(tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 6}})
}

func keepsLast(f *fixture) {
	var rs []window.Record
	for i := range 40 {
		rs = append(rs, rec("b", fmt.Sprint(i), "first"))
	}
	f.fresh(rs...)
	f.put(rec("b", "3", "second"), rec("b", "new", "new"), rec("b", "7", "second"))
	f.put(rec("b", "7", "third"))
	f.put(rec("b", "9", "x"), rec("b", "9", "y"), rec("b", "late", "1"), rec("b", "late", "2"))
	f.put(rs[11], rec("b", "last", "last")) // the same bytes again, beside a new one
	rs[3].Body, rs[7].Body, rs[9].Body = []byte("second"), []byte("third"), []byte("y")
	want := append(rs, rec("b", "new", "new"), rec("b", "late", "2"), rec("b", "last", "last"))
	f.has(f.peek(f.list(window.Filter{})[0].ID), want...)
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	f.has(f.read(m, 1), want...)
	f.has(f.read(m, 100), want...)
	f.apply(m, delivered)
	f.books(tidemill.Books{Accepted: 43, Settled: tidemill.Count{Delivered: 43}})
}

func keepsBoth(f *fixture) {
	a, b := rec("b", "7_http://x", "sentence 1"), rec("b", "7_http://x", "sentence 2")
	a.Qualifier, b.Qualifier = "1", "2"
	f.fresh(a, b)
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	f.has(f.read(m, 10), a, b)
	f.apply(m, delivered)
}

func tellsApart(f *fixture) {
	var rs []window.Record
	parts := []string{"", "a", "\x00", "a\x00", "\x00a", "\x00\x01", "\x00\xff", "\x00\xffa", "\xff", "\x01", "a\x00\x01b", "{b}", ":", "/1", "é", "*"}
	for _, id := range parts[1:] {
		for _, q := range parts {
			rs = append(rs, window.Record{Batch: "b", Kind: "event", ID: id, Qualifier: q, Body: []byte(id + "|" + q)})
		}
	}
	for _, kind := range []string{"mention", "even", "events", "\x01", "event\xff"} {
		rs = append(rs, window.Record{Batch: "b", Kind: kind, ID: "a", Body: []byte(kind)})
	}
	f.fresh(rs...)
	var others []window.Record
	for _, batch := range []string{"{b}", "b}", "b/1", "b:1", "b\x00", "\xff\xfe", " ", "b\n", strings.Repeat("b", window.MaxBatch)} {
		others = append(others, rec(batch, "a", batch))
	}
	f.fresh(others...)
	f.Advance(length)
	f.sweep(1 + len(others))
	for _, m := range f.take(1 + len(others)) {
		s, err := window.Read(m)
		if err != nil || s.Batch != string(m.Key) {
			f.Fatalf("message of %q says %+v, %v", m.Key, s, err)
		}
		if s.Batch == "b" {
			f.has(f.read(m, 50), rs...)
		} else {
			f.has(f.read(m, 50), rec(s.Batch, "a", s.Batch))
		}
		f.apply(m, delivered)
	}
}

func keepsBytes(f *fixture) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	rs := []window.Record{rec("b", "empty", ""), rec("b", "all", string(all)), rec("b", "json", `{"a":12345678901234567890,"a":1}`),
		rec("b", "invalid", "\xff\xc3("), rec("b", "zeros", strings.Repeat("\x00", 1000))}
	f.fresh(rs...)
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	f.has(f.read(m, 2), rs...)
	f.apply(m, delivered)
}

func keepsTraces(f *fixture) {
	const a, b = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-00"
	traced := func(id, trace string) window.Record {
		r := rec("b", id, "body of "+id)
		r.Trace = trace
		return r
	}
	rs := []window.Record{traced("0", ""), traced("1", a), traced("2", a), traced("3", ""), traced("4", b), traced("5", a)}
	f.fresh(rs...)
	changed := []window.Record{traced("1", ""), traced("3", b), traced("6", a)} // which are in another blob
	for i := range changed {
		changed[i].Body = append(changed[i].Body, " is another"...) // one that is not changed need not be stored again
	}
	if err := f.Store.Put(f.Context(), changed, nil); err != nil {
		f.Fatal(err)
	}
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	got := map[string]string{}
	for _, r := range f.read(m, 2) {
		got[r.ID] = r.Trace
	}
	if want := map[string]string{"0": "", "1": "", "2": a, "3": b, "4": b, "5": a, "6": a}; !maps.Equal(got, want) {
		f.Errorf("the traces are %v, want %v", got, want)
	}
	f.apply(m, delivered)
}

func copies(f *fixture) {
	body := []byte("as it came")
	r := window.Record{Batch: "b", Kind: "event", ID: "1", Body: body}
	f.fresh(r)
	copy(body, "overwritten")
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	first := f.read(m, 1)
	f.has(first, rec("b", "1", "as it came"))
	copy(first[0].Body, "scribbled!")
	f.has(f.read(m, 1), rec("b", "1", "as it came"))
	f.apply(m, delivered)
}

func takesMany(f *fixture) {
	const batches, each = 40, 130
	var rs []window.Record
	for i := range each {
		for b := range batches {
			rs = append(rs, rec(fmt.Sprint("batch ", b), fmt.Sprint(i), fmt.Sprintf("%d of %d", i, b)))
		}
	}
	f.fresh(rs...)
	again := f.put(append(slices.Clone(rs[:200]), rec("batch 0", "more", "x"))...)
	if again[0] != window.Overwrote || again[199] != window.Overwrote || again[200] != window.New {
		f.Fatalf("Put of 200 known records and a new one says %v", again)
	}
	f.Advance(length)
	f.sweep(batches)
	for _, m := range f.take(batches) {
		var want []window.Record
		for _, r := range rs {
			if r.Batch == string(m.Key) {
				want = append(want, r)
			}
		}
		if string(m.Key) == "batch 0" {
			want = append(want, rec("batch 0", "more", "x"))
		}
		f.has(f.read(m, 33), want...)
		f.apply(m, delivered)
	}
	f.books(tidemill.Books{Accepted: batches*each + 1, Settled: tidemill.Count{Delivered: batches*each + 1}})
}

func takesLarge(f *fixture) {
	rs := []window.Record{rec("b", "small", "x"), {Batch: "b", Kind: "event", ID: strings.Repeat("i", 40_000), Body: bytes.Repeat([]byte("large "), 1<<20)}, rec("b", "after", "y")}
	f.fresh(rs...)
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	f.has(f.read(m, 10), rs...)
	f.apply(m, delivered)
}

func refusesNonsense(f *fixture) {
	good := rec("b", "1", "x")
	for name, bad := range map[string]window.Record{
		"no batch":    {Kind: "event", ID: "1"},
		"long batch":  {Batch: strings.Repeat("b", window.MaxBatch+1), Kind: "event", ID: "1"},
		"no kind":     {Batch: "b", ID: "1"},
		"long kind":   {Batch: "b", Kind: strings.Repeat("k", window.MaxKind+1), ID: "1"},
		"zero kind":   {Batch: "b", Kind: "a\x00b", ID: "1"},
		"no id":       {Batch: "b", Kind: "event"},
		"expectation": {Batch: "b", Kind: "event", ID: "1", Expect: -1},
	} {
		if err := f.Store.Put(f.Context(), []window.Record{good, bad}, nil); tidemill.KindOf(err) != tidemill.Validation {
			f.Errorf("Put of a record with %s: %v, want kind validation", name, err)
		}
	}
	if err := f.Store.Put(f.Context(), []window.Record{good}, make([]window.Kept, 2)); err == nil {
		f.Error("Put took room for two answers to one record")
	}
	if err := f.Store.Put(f.Context(), nil, nil); err != nil {
		f.Errorf("Put of nothing: %v", err)
	}
	f.books(tidemill.Books{})
}

func putsNothingAfterEnd(f *fixture) {
	if err := f.Store.Put(ended(), []window.Record{rec("b", "1", "x")}, nil); err == nil {
		f.Error("Put under a context that has ended did not say so")
	}
	f.books(tidemill.Books{})
}

func startsOne(f *fixture) {
	const workers, rounds = 8, 20
	var all sync.WaitGroup
	news := make([]int, workers)
	for w := range workers {
		all.Go(func() {
			for i := range rounds {
				rs := []window.Record{rec(fmt.Sprint("b", i), fmt.Sprint("of ", w), "x"), rec(fmt.Sprint("b", i), "shared", "x")}
				kept := make([]window.Kept, 2)
				if err := f.Store.Put(f.Context(), rs, kept); err != nil {
					f.Errorf("Put: %v", err)
				}
				if kept[1] == window.New {
					news[w]++
				}
			}
		})
	}
	all.Wait()
	if got := f.list(window.Filter{}); len(got) != rounds {
		f.Fatalf("%d windows of %d batch ids", len(got), rounds)
	}
	total := 0
	for _, n := range news {
		total += n
	}
	if total != rounds {
		f.Fatalf("%d of %d shared records were New", total, rounds)
	}
	f.books(tidemill.Books{Accepted: rounds * (workers + 1), Pending: rounds * (workers + 1)})
}
