package gdelt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
)

func TestABrokenFileIsALetterAndOthersGoOn(t *testing.T) {
	synctest.Test(t, aBrokenFileIsALetterAndOthersGoOn)
}

func aBrokenFileIsALetterAndOthersGoOn(t *testing.T) {
	good := gdelttest.Batch{Stamp: "20250323151500", Events: 300}
	packed := gdelttest.Zip("x.export.CSV", good.Export())
	torn := slices.Clone(packed)
	torn[len(torn)/2] ^= 0xff
	for _, c := range []struct{ name, content, want string }{
		{"20250323150000.export.CSV.zip", string(torn), "cannot be unpacked"},
		{"20250323150000.export.CSV.zip", string(packed[:len(packed)-9]), "cannot be unpacked"},
		{"20250323150000.export.CSV.zip", "no zip", "cannot be unpacked"},
		{"20250323150000.export.CSV", "1,2025\n2,2025\n", "separated by tabs"},
		{"20250323150000.export.CSV", "1\t\n2\t" + strings.Repeat("x", 70<<10) + "\n", "line 2 has more than 65536 bytes"},
		{"20250323150000.export.CSV.zip", string(gdelttest.Zip("x", append([]byte("1\t"), make([]byte, 60<<10)...))) + "", ""},
		{"20250323150000.export.CSV.zip", string(gdelttest.Zip("x", bytes.Repeat([]byte("1\t          \n"), 1<<17))), "more than 1048576 bytes when unpacked"},
	} {
		w := newWorld(t, gdelt.Options{Quiet: -1, Limits: gdelt.Limits{Line: 64 << 10, File: 1 << 20}})
		w.put(c.name, c.content)
		if _, err := good.Write(w.dir, true); err != nil {
			t.Fatal(err)
		}
		got := w.take(1000, time.Second)
		all := w.letters()
		if c.want == "" {
			if len(all) != 0 || len(got) != 301 {
				t.Errorf("%d rows, letters %v", len(got), all)
			}
			continue
		}
		if len(got) != 300 || len(all) != 1 || all[0].ID != c.name || all[0].Kind != tidemill.Validation || !strings.Contains(all[0].Cause, c.want) || all[0].Type != "file" || !json.Valid(all[0].Payload) {
			t.Errorf("%q: %d rows, letters %+v", c.want, len(got), all)
		}
		// It is looked at once; a good one in its place is read.
		if err := w.Look(t.Context()); err != nil || len(w.letters()) != 1 {
			t.Errorf("%v, letters %v", err, w.letters())
		}
		content := string(gdelttest.Batch{Stamp: "20250323150000", Events: 7}.Export())
		if strings.HasSuffix(c.name, ".zip") {
			content = string(gdelttest.Zip("x", []byte(content)))
		}
		w.put(c.name, content)
		if err := w.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if more := w.take(7, time.Second); len(more) != 7 || !strings.HasPrefix(more[0].ID, c.name) {
			t.Errorf("%q: then %s", c.want, ids(more))
		}
	}
}

func TestZipsOfSeveralFilesAreRefused(t *testing.T) { synctest.Test(t, zipsOfSeveralFilesAreRefused) }

func zipsOfSeveralFilesAreRefused(t *testing.T) {
	// Of two concatenated archives the last one is read; a directory of many files is never
	// read to its end.
	w := newWorld(t, gdelt.Options{Quiet: -1})
	w.put("20250323150000.export.CSV.zip", string(manyFiles(t, 2)))
	w.put("20250323151500.export.CSV.zip", string(manyFiles(t, 5000)))
	if got := w.take(1, time.Second); len(got) != 0 {
		t.Fatalf("received %s", ids(got))
	}
	all := w.letters()
	if len(all) != 2 || !strings.Contains(all[0].Cause, "more than one file") || !strings.Contains(all[1].Cause, "more is read than such a file can need") {
		t.Errorf("letters %+v", all)
	}
}

// A full store of dead letters holds up the broken file, and no other.
func TestFullDeadLettersHoldUpBrokenFilesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, err := tabledeadletter.Memory(deadletter.Options{Max: 1})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, dir: t.TempDir(), o: gdelt.Options{Quiet: -1}, files: tableprogress.Memory(tableprogress.Options{}), dead: dead}
		w.start()
		for _, stamp := range []string{"1", "2"} {
			w.put(stamp+".export.CSV.zip", "no zip")
		}
		w.put("3.export.CSV", "1\t\n")
		if got := w.take(2, 5*time.Minute); ids(got) != "3.export.CSV:1" || len(w.letters()) != 1 {
			t.Fatalf("received %s, letters %v", ids(got), w.letters())
		}
		for _, l := range w.letters() {
			if n, err := dead.Delete(t.Context(), deadletter.Filter{Pipeline: l.Pipeline}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		w.take(1, 5*time.Minute)
		if all := w.letters(); len(all) != 1 || all[0].ID != "2.export.CSV.zip" {
			t.Fatalf("letters %v", all)
		}
	})
}

// A file with no ended rows is gone, comes back as another, and is given up.
func TestAFileThatGoesAwayIsNotLostInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gdelt.Options{Quiet: -1, Every: time.Second})
		b := gdelttest.Batch{Stamp: "20250323150000", Events: 5}
		name, _ := b.Names()
		w.put(name, string(b.Export()))
		if err := w.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(w.dir, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		w.put("20250323151500.export.CSV", "1\t\n")
		if got := w.take(9, 5*time.Second); ids(got) != "20250323151500.export.CSV:1" {
			t.Fatalf("received %s; others go on", ids(got))
		}
		if r := w.Reading(); len(r) != 2 || r[0].Trouble == "" || r[0].Pending != 5 {
			t.Fatalf("reading %+v", r)
		}
		w.put(name, "1\t\n2\t\n3\t\n4\t\n5\t\n")
		if got := w.take(1, 5*time.Second); len(got) != 0 || !strings.Contains(w.Reading()[0].Trouble, "changed") {
			t.Fatalf("received %s, %+v", ids(got), w.Reading())
		}
		w.put(name, string(b.Export()))
		got := w.take(2, 5*time.Second)
		if len(got) != 2 || w.Reading()[0].Trouble != "" {
			t.Fatalf("received %s, %+v", ids(got), w.Reading())
		}
		w.settle(tidemill.Delivered, got[0])
		if _, err := w.GiveUp(t.Context(), name, "no"); tidemill.KindOf(err) != tidemill.NotFound {
			t.Fatalf("a file without trouble is given up: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.take(1, 2*time.Second)
		lost, err := w.GiveUp(t.Context(), name, "gone")
		if err != nil || lost != 4 {
			t.Fatalf("lost %d, %v", lost, err)
		}
		books, err := w.Books(t.Context())
		if want := (tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 1}, Pending: 1, Lost: 4}); err != nil || books != want {
			t.Fatalf("books are %+v, %v, want %+v", books, err, want)
		}
	})
}

func TestWhatIsLeftComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gdelt.Options{Quiet: -1, Left: time.Minute, MaxAhead: 10})
		w.put("20250323151500.export.CSV", string(gdelttest.Batch{Stamp: "20250323151500", Events: 30}.Export()))
		start := time.Now()
		got := w.take(30, time.Second)
		if len(got) != 10 {
			t.Fatalf("%d are out, want 10: MaxAhead", len(got))
		}
		w.settle(tidemill.Delivered, got[1:]...)
		ends := []tidemill.Settlement{{ID: got[0].ID, Mark: got[0].Mark, End: tidemill.Left}}
		if err := w.Settle(t.Context(), ends); err != nil || ends[0].Outcome != tidemill.Applied {
			t.Fatalf("left: %v, %v", ends, err)
		}
		again := w.take(1, time.Hour)
		if len(again) != 1 || again[0].ID != got[0].ID || again[0].Handed != 2 || !again[0].Mark.At(got[0].Mark) || again[0].Mark == got[0].Mark {
			t.Fatalf("again %+v after %+v", again, got[0])
		}
		if took := time.Since(start); took < time.Minute || took > time.Minute+5*time.Second {
			t.Errorf("it came again after %v", took)
		}
		stale := []tidemill.Settlement{{ID: got[0].ID, Mark: got[0].Mark, Fate: tidemill.Delivered}}
		if err := w.Settle(t.Context(), stale); err != nil || stale[0].Outcome != tidemill.Stale {
			t.Errorf("under the old mark: %v, %v", stale, err)
		}
		w.settle(tidemill.Delivered, again...)
		for _, m := range w.take(20, time.Second) { // one by one, by their IDs alone
			ack := []tidemill.Settlement{{ID: m.ID, Fate: tidemill.Skipped}}
			if err := w.Settle(t.Context(), ack); err != nil || ack[0].Outcome != tidemill.Applied {
				t.Fatalf("%v, %v", ack, err)
			}
		}
		for _, m := range w.take(20, time.Second) {
			w.settle(tidemill.Skipped, m)
		}
		books, err := w.Books(t.Context())
		if want := (tidemill.Books{Accepted: 30, Settled: tidemill.Count{Delivered: 10, Skipped: 20}}); err != nil || books != want {
			t.Errorf("books are %+v, %v", books, err)
		}
	})
}

// Whatever is done and whenever the process dies: every row ends once, and the books say so.
func TestBooksBalance(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t, gdelt.Options{Quiet: -1, Backlog: 3, MaxAhead: 50, Left: time.Minute})
			ended := map[string]int{}
			var held []*tidemill.Message
			rows := 0
			end := func(m *tidemill.Message, f tidemill.Fate) {
				e := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: f}}
				if err := w.Settle(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				if e[0].Outcome == tidemill.Applied {
					ended[m.ID]++
				}
			}
			for i := range 300 {
				switch rng.IntN(10) {
				case 0:
					n := 1 + rng.IntN(40)
					rows += n
					if _, err := (gdelttest.Batch{Stamp: fmt.Sprintf("2025%010d", i), Events: n}).Write(w.dir, rng.IntN(2) == 0); err != nil {
						t.Fatal(err)
					}
				case 1, 2, 3:
					held = append(held, w.take(1+rng.IntN(30), time.Millisecond)...)
				case 4:
					if rng.IntN(4) == 0 {
						w.start()
						w.take(0, time.Millisecond)
					}
				case 5:
					time.Sleep(20 * time.Second)
				default:
					for range min(len(held), 1+rng.IntN(20)) {
						j := rng.IntN(len(held))
						if rng.IntN(8) == 0 {
							left := []tidemill.Settlement{{ID: held[j].ID, Mark: held[j].Mark, End: tidemill.Left}}
							if err := w.Settle(t.Context(), left); err != nil {
								t.Fatal(err)
							}
						} else {
							end(held[j], tidemill.Fate(1+rng.IntN(3)))
						}
						if rng.IntN(5) > 0 {
							held = slices.Delete(held, j, j+1)
						}
					}
				}
				if b, err := w.Books(t.Context()); err != nil || b.Off() != 0 {
					t.Fatalf("seed %d: books are off by %d, %v", seed, b.Off(), err)
				}
			}
			w.start() // unsettled rows come again only by this
			for len(ended) < rows {
				got := w.take(rows-len(ended), time.Hour)
				if len(got) == 0 {
					t.Fatalf("seed %d: %d of %d rows ended, no more come", seed, len(ended), rows)
				}
				for _, m := range got {
					end(m, tidemill.Delivered)
				}
			}
			b, err := w.Books(t.Context())
			if err != nil || b.Pending != 0 || b.Settled.Total() != uint64(rows) || len(ended) != rows {
				t.Fatalf("seed %d: %d rows, %d ended, %+v, %v", seed, rows, len(ended), b, err)
			}
			for id, n := range ended {
				if n != 1 {
					t.Errorf("seed %d: %s ended %d times", seed, id, n)
				}
			}
		})
	}
}

// Everything at once, for the race detector: files come, are looked for, read and settled,
// while another goroutine lists them.
func TestEverythingAtOnce(t *testing.T) {
	w := newWorld(t, gdelt.Options{Quiet: -1, Backlog: 4, Every: time.Millisecond})
	const files, rows = 20, 30
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	all.Go(func() {
		for i := range files {
			if _, err := (gdelttest.Batch{Stamp: fmt.Sprintf("2025%010d", i), Events: rows}).Write(w.dir, i%2 == 0); err != nil {
				t.Error(err)
			}
			if err := w.Look(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		for ctx.Err() == nil {
			w.Reading()
			if b, err := w.Books(ctx); err == nil && b.Off() != 0 {
				t.Errorf("books are off by %d", b.Off())
			}
		}
	})
	ends := make(chan tidemill.Settlement, 100)
	all.Go(func() {
		for e := range ends {
			one := []tidemill.Settlement{e}
			if err := w.Settle(context.WithoutCancel(ctx), one); err != nil || one[0].Outcome != tidemill.Applied {
				t.Errorf("%+v, %v", one[0], err)
			}
		}
		stop()
	})
	into := make([]*tidemill.Message, 7)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	for got := 0; got < files*rows; {
		n, err := w.Receive(ctx, into)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range into[:n] {
			ends <- tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
		}
		got += n
	}
	close(ends)
	all.Wait()
	if b, err := w.Books(t.Context()); err != nil || b.Settled.Delivered != files*rows || b.Pending != 0 {
		t.Errorf("books are %+v, %v", b, err)
	}
}
