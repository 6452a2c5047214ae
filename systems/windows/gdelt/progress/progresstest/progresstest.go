// Package progresstest is the contract of every progress.Store as a table of cases.
package progresstest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// Harness is one fresh, empty store under test.
type Harness struct {
	Store progress.Store
	// Reopen is the store after a restart of the process.
	Reopen func() progress.Store
	// Other is the store of another feed in the same place; nil: none.
	Other progress.Store
}

// Run checks every promise against fresh stores. now is their clock.
func Run(t *testing.T, fresh func(t *testing.T, now func() time.Time) Harness) {
	for _, c := range []struct {
		name, reason string
		holds        func(*bench)
	}{
		{"remembers a file as it was added", "after a crash its rows are read again by it", asAdded},
		{"remembers a file of the beginning of 1970", "archives are packed with that time, and are to be read once", epoch},
		{"adds an open or done file once", "rows that come twice are records twice", once},
		{"lets a broken file be replaced", "a good one is put in the place of a bad one", replaces},
		{"lets a done file be replaced by one of other bytes", "what is in it was never read", renews},
		{"saves ends across a restart", "what has ended must not come again", saves},
		{"saves all or nothing", "books change in one transaction", allOrNothing},
		{"finds nothing of files it does not know", "new files are found by it", finds},
		{"forgets what is neither open nor listed", "memory has an end, and the books have none", forgets},
		{"counts what there is", "accepted = settled + pending + lost", counts},
		{"changes nothing under a context that has ended", "nobody would hear of it", ended},
		{"keeps feeds apart", "two feeds may have files of one name", apart},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bench{T: t, at: time.UnixMilli(1_700_000_000_000)}
			b.Harness = fresh(t, func() time.Time { return b.at })
			c.holds(b)
			if t.Failed() {
				t.Log("why it matters:", c.reason)
			}
		})
	}
}

type bench struct {
	*testing.T
	Harness
	at time.Time
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) add(name string, rows uint64) *progress.File {
	b.Helper()
	f := &progress.File{Name: name, Size: 100, Mod: time.UnixMilli(5), Sum: 1<<63 + 7, Rows: rows, Status: progress.Open}
	b.must(b.Store.Add(b.Context(), f))
	return f
}

func (b *bench) find(name string) progress.File {
	b.Helper()
	all, err := b.Store.Find(b.Context(), []string{name})
	b.must(err)
	return all[0]
}

func (b *bench) totals(want progress.Totals) {
	b.Helper()
	got, err := b.Store.Totals(b.Context())
	b.must(err)
	if got != want {
		b.Fatalf("totals are\n%+v, want\n%+v", got, want)
	}
}

// end ends the file's first n rows as delivered.
func end(f *progress.File, n uint64) {
	for i := range n {
		f.Ended.Add(i)
	}
	f.Settled.Delivered = n
	if f.Pending() == 0 {
		f.Status = progress.Done
	}
}

func asAdded(b *bench) {
	want := progress.File{Name: "a.export.CSV", From: "https://example.com/a", Size: 1 << 40, Mod: time.UnixMilli(1234567), Sum: 1<<64 - 1, Rows: 10, Idless: 3,
		Status: progress.Open, Ended: progress.Spans{{From: 2, To: 4}}, Settled: tidemill.Count{Delivered: 1, Dead: 1}}
	b.must(b.Store.Add(b.Context(), &want))
	b.Store = b.Reopen()
	open, err := b.Store.Open(b.Context())
	b.must(err)
	if len(open) != 1 || !open[0].Mod.Equal(want.Mod) {
		b.Fatalf("open are %+v", open)
	}
	open[0].Mod = want.Mod
	if !reflect.DeepEqual(open[0], want) {
		b.Fatalf("it is\n%+v, want\n%+v", open[0], want)
	}
	got := b.find(want.Name)
	got.Mod, want.Ended = want.Mod, nil
	if !reflect.DeepEqual(got, want) {
		b.Fatalf("found is\n%+v, want\n%+v", got, want)
	}
}

func epoch(b *bench) {
	f := &progress.File{Name: "a", Mod: time.UnixMilli(0), Status: progress.Open}
	b.must(b.Store.Add(b.Context(), f))
	b.Store = b.Reopen()
	if got := b.find("a"); !got.Mod.Equal(f.Mod) {
		b.Fatalf("it is of %v, want %v", got.Mod, f.Mod)
	}
}

func once(b *bench) {
	f := b.add("a", 2)
	if err := b.Store.Add(b.Context(), &progress.File{Name: "a", Sum: 8, Status: progress.Open}); !errors.Is(err, progress.ErrKnown) {
		b.Fatalf("another while it is open: %v", err)
	}
	for range 2 {
		if err := b.Store.Add(b.Context(), &progress.File{Name: "a", Sum: f.Sum, Status: progress.Open}); !errors.Is(err, progress.ErrKnown) {
			b.Fatalf("a second time: %v", err)
		}
		end(f, 2)
		if f.Status = progress.Done; b.find("a").Status == progress.Open {
			b.must(b.Store.Save(b.Context(), []*progress.File{f}))
		}
	}
	if g := b.add("b", 1); g.Number <= f.Number {
		b.Fatalf("numbers are %d and %d, want them to grow", f.Number, g.Number)
	}
}

func replaces(b *bench) {
	bad := &progress.File{Name: "a", Status: progress.Broken, Cause: "torn", Size: 1}
	b.must(b.Store.Add(b.Context(), bad))
	if got := b.find("a"); got.Status != progress.Broken || got.Cause != "torn" {
		b.Fatalf("found %+v", got)
	}
	good := b.add("a", 3)
	if good.Number <= bad.Number || b.find("a").Status != progress.Open {
		b.Fatalf("number %d after %d, %+v", good.Number, bad.Number, b.find("a"))
	}
	if err := b.Store.Save(b.Context(), []*progress.File{bad}); !errors.Is(err, progress.ErrUnknown) {
		b.Fatalf("the old one is saved: %v", err)
	}
	b.totals(progress.Totals{Books: tidemill.Books{Accepted: 3, Pending: 3}, Open: 1, Broken: 1})
}

func renews(b *bench) {
	old := b.add("a", 2)
	end(old, 2)
	b.must(b.Store.Save(b.Context(), []*progress.File{old}))
	b.Store = b.Reopen()
	other := &progress.File{Name: "a", Sum: old.Sum + 1, Rows: 3, Status: progress.Open}
	b.must(b.Store.Add(b.Context(), other))
	if got := b.find("a"); got.Number != other.Number || got.Number <= old.Number || got.Status != progress.Open || got.Pending() != 3 {
		b.Fatalf("number %d after %d, %+v", other.Number, old.Number, got)
	}
	b.totals(progress.Totals{Books: tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 2}, Pending: 3}, Open: 1, Done: 1})
	if err := b.Store.Save(b.Context(), []*progress.File{old}); !errors.Is(err, progress.ErrUnknown) {
		b.Fatalf("the old one is saved: %v", err)
	}
	end(other, 3)
	b.must(b.Store.Save(b.Context(), []*progress.File{other}))
	b.must(b.Store.Add(b.Context(), &progress.File{Name: "a", Status: progress.Broken, Cause: "torn"}))
	b.totals(progress.Totals{Books: tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}}, Done: 2, Broken: 1})
	lost := b.add("lost", 4)
	lost.Lost, lost.Ended, lost.Status = 4, progress.Spans{{From: 0, To: 4}}, progress.Done
	b.must(b.Store.Save(b.Context(), []*progress.File{lost}))
	if back := b.add("lost", 4); back.Number <= lost.Number { // the same bytes come back
		b.Fatalf("number %d after %d", back.Number, lost.Number)
	}
	b.totals(progress.Totals{Books: tidemill.Books{Accepted: 13, Settled: tidemill.Count{Delivered: 5}, Pending: 4, Lost: 4}, Open: 1, Done: 3, Broken: 1})
}

func saves(b *bench) {
	f, g := b.add("a", 5), b.add("b", 2)
	f.Ended.Add(3)
	f.Settled.Skipped = 1
	end(g, 2)
	b.must(b.Store.Save(b.Context(), []*progress.File{f, g}))
	b.Store = b.Reopen()
	open, err := b.Store.Open(b.Context())
	b.must(err)
	if len(open) != 1 || open[0].Name != "a" || !open[0].Ended.Has(3) || open[0].Pending() != 4 || open[0].Settled != f.Settled {
		b.Fatalf("open are %+v", open)
	}
	if got := b.find("b"); got.Status != progress.Done || got.Settled.Delivered != 2 {
		b.Fatalf("b is %+v", got)
	}
}

func allOrNothing(b *bench) {
	f, g := b.add("a", 1), b.add("b", 1)
	end(g, 1)
	b.must(b.Store.Save(b.Context(), []*progress.File{g}))
	end(f, 1)
	if err := b.Store.Save(b.Context(), []*progress.File{f, g}); !errors.Is(err, progress.ErrUnknown) {
		b.Fatalf("a done file is saved: %v", err)
	}
	if got := b.find("a"); got.Status != progress.Open {
		b.Fatalf("a is %+v", got)
	}
}

func finds(b *bench) {
	b.add("b", 1)
	names := []string{"a", "b", "c"}
	for range 1500 {
		names = append(names, "more")
	}
	all, err := b.Store.Find(b.Context(), names)
	b.must(err)
	for i, f := range all {
		if (f.Status != 0) != (i == 1) {
			b.Fatalf("%s is %+v", names[i], f)
		}
	}
	if all, err := b.Store.Find(b.Context(), nil); err != nil || len(all) != 0 {
		b.Fatalf("of none: %v, %v", all, err)
	}
}

func forgets(b *bench) {
	done, open, listed := b.add("done", 1), b.add("open", 1), b.add("listed", 1)
	end(done, 1)
	end(listed, 1)
	b.must(b.Store.Save(b.Context(), []*progress.File{done, listed}))
	b.must(b.Store.Add(b.Context(), &progress.File{Name: "broken", Status: progress.Broken}))
	want := progress.Totals{Books: tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 2}, Pending: 1}, Open: 1, Done: 2, Broken: 1}
	b.totals(want)
	b.must(b.Store.Listed(b.Context(), []string{"listed", "nobody"}, b.at.Add(time.Hour)))
	if n, err := b.Store.Forget(b.Context(), b.at); n != 0 || err != nil {
		b.Fatalf("forgot %d, %v: too early", n, err)
	}
	if n, err := b.Store.Forget(b.Context(), b.at.Add(time.Minute)); n != 2 || err != nil {
		b.Fatalf("forgot %d, %v; want done and broken", n, err)
	}
	b.Store = b.Reopen()
	if b.find("done").Status != 0 || b.find("broken").Status != 0 || b.find("listed").Status != progress.Done || b.find("open").Status != progress.Open {
		b.Fatal("others were forgotten")
	}
	b.totals(want)
	if n, err := b.Store.Forget(b.Context(), b.at.Add(2*time.Hour)); n != 1 || err != nil {
		b.Fatalf("forgot %d, %v", n, err)
	}
	b.totals(want)
	if again := b.add("done", 1); again.Number <= open.Number {
		b.Fatalf("number %d came again", again.Number)
	}
}

func counts(b *bench) {
	b.totals(progress.Totals{})
	f := &progress.File{Name: "a", Rows: 10, Idless: 4, Status: progress.Open}
	b.must(b.Store.Add(b.Context(), f))
	b.totals(progress.Totals{Books: tidemill.Books{Accepted: 10, Pending: 10}, Idless: 4, Open: 1})
	for i := range uint64(3) {
		f.Ended.Add(2 * i)
	}
	f.Settled = tidemill.Count{Delivered: 1, Skipped: 1, Dead: 1}
	b.must(b.Store.Save(b.Context(), []*progress.File{f, f}))
	b.totals(progress.Totals{Books: tidemill.Books{Accepted: 10, Settled: f.Settled, Pending: 7}, Idless: 4, Open: 1})
	f.Ended, f.Lost, f.Status, f.Cause = progress.Spans{{From: 0, To: 10}}, 7, progress.Done, "given up"
	b.must(b.Store.Save(b.Context(), []*progress.File{f}))
	b.totals(progress.Totals{Books: tidemill.Books{Accepted: 10, Settled: f.Settled, Lost: 7}, Idless: 4, Done: 1})
}

func ended(b *bench) {
	f := b.add("a", 1)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	g := *f
	end(&g, 1)
	_, err1 := b.Store.Find(ctx, []string{"a"})
	_, err2 := b.Store.Open(ctx)
	_, err3 := b.Store.Forget(ctx, b.at)
	_, err4 := b.Store.Totals(ctx)
	for i, err := range []error{err1, err2, err3, err4, b.Store.Add(ctx, &progress.File{Name: "b", Status: progress.Open}),
		b.Store.Save(ctx, []*progress.File{&g}), b.Store.Listed(ctx, []string{"a"}, b.at)} {
		if !errors.Is(err, context.Canceled) {
			b.Errorf("call %d: %v", i, err)
		}
	}
	if b.find("a").Status != progress.Open || b.find("b").Status != 0 {
		b.Error("something was changed")
	}
}

func apart(b *bench) {
	if b.Other == nil {
		return
	}
	f := b.add("a", 1)
	g := &progress.File{Name: "a", Rows: 2, Status: progress.Open}
	b.must(b.Other.Add(b.Context(), g))
	end(f, 1)
	b.must(b.Store.Save(b.Context(), []*progress.File{f}))
	if err := b.Other.Save(b.Context(), []*progress.File{f}); !errors.Is(err, progress.ErrUnknown) {
		b.Fatalf("a file of another feed is saved: %v", err)
	}
	if n, err := b.Other.Forget(b.Context(), b.at.Add(time.Hour)); n != 0 || err != nil {
		b.Fatalf("forgot %d, %v", n, err)
	}
	b.totals(progress.Totals{Books: tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}}, Done: 1})
}
