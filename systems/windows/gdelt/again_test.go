package gdelt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
)

const again = "20250323150000.export.CSV"

// there reports whether the file is in the folder.
func (w *world) there() bool {
	_, err := os.Stat(filepath.Join(w.dir, again))
	return err == nil
}

// ends receives all rows, and ends them.
func (w *world) ends() string {
	w.Helper()
	got := w.take(100, 5*time.Second)
	w.settle(tidemill.Delivered, got...)
	var keys []string
	for _, m := range got {
		keys = append(keys, string(m.Key))
	}
	return strings.Join(keys, " ")
}

// A file put in place of one that was read, under its name, is read; it is not confused with
// the old one, and above all not removed as such.
func TestAnotherFileUnderTheNameOfOneThatIsDone(t *testing.T) {
	for _, remove := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, gdelt.Options{Quiet: -1, Every: time.Second, Remove: remove})
			first := "1\t\n2\t\n"
			w.put(again, first)
			if got := w.ends(); got != "1 2" {
				t.Fatalf("received %s", got)
			}
			if got := w.ends(); got != "" || w.there() == remove {
				t.Fatalf("received %s again, the file is there: %t", got, w.there())
			}
			w.start()
			time.Sleep(time.Second)
			w.put(again, first) // the same bytes at another time
			if got := w.ends(); got != "" || w.there() == remove {
				t.Fatalf("received %s of the same bytes, the file is there: %t", got, w.there())
			}
			time.Sleep(time.Second)
			w.put(again, first+"3\t\n")
			if got := w.ends(); got != "1 2 3" {
				t.Fatalf("received %s of a file that has grown", got)
			}
			if got := w.ends(); got != "" || w.there() == remove {
				t.Fatalf("received %s again, the file is there: %t", got, w.there())
			}
			books, err := w.Books(t.Context())
			if want := (tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}}); err != nil || books != want {
				t.Errorf("books are %+v, %v", books, err)
			}
		})
	}
}

// A file that is renamed over one being read is another: it is read after it.
func TestAnotherFileOverOneThatIsBeingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gdelt.Options{Quiet: -1, Every: time.Second, Remove: true})
		w.put(again, "1\t\n2\t\n")
		got := w.take(1, 5*time.Second)
		next := filepath.Join(w.dir, "next")
		if err := os.WriteFile(next, []byte("7\t\n8\t\n9\t\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(w.dir, again)); err != nil {
			t.Fatal(err)
		}
		w.settle(tidemill.Delivered, got...)
		if got := w.ends(); got != "2" {
			t.Fatalf("received %s", got)
		}
		if got := w.ends(); got != "7 8 9" {
			t.Fatalf("received %s, the file is there: %t", got, w.there())
		}
		if got := w.ends(); got != "" || w.there() {
			t.Fatalf("received %s again, the file is there: %t", got, w.there())
		}
	})
}

// The last row of a torn file may have a cut id.
func TestAFileThatEndsInARowIsTorn(t *testing.T) {
	whole := "12" + strings.Repeat("\t", 60)
	for content, want := range map[string]string{
		whole + "\n" + "12":               "it ends in the middle of line 2",
		whole + "\n" + whole[:40]:         "it ends in the middle of line 2",
		"12":                              "it ends in the middle of line 1",
		whole + "\n" + whole:              "",
		whole + "\n" + whole + "a":        "",
		whole + "\n" + "12\n":             "", // a short row is not torn
		whole + "\n" + "end":              "", // not a row
		whole + "\n" + "\t" + whole + " ": "",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, gdelt.Options{Quiet: -1, Every: time.Second})
			w.put(again, content)
			got, all := w.ends(), w.letters()
			if want == "" {
				if got == "" || len(all) != 0 {
					t.Errorf("%q: received %s, letters %v", content, got, all)
				}
				return
			}
			if got != "" || len(all) != 1 || !strings.Contains(all[0].Cause, want) {
				t.Errorf("%q: received %s, letters %v; want %s", content, got, all, want)
			}
			w.put(again, content+"3\n") // the rest comes
			if got := w.ends(); got == "" {
				t.Errorf("%q: nothing is received when it is whole", content)
			}
		})
	}
}

// A file that was given up and comes back was not read before, and is read.
func TestAFileThatWasGivenUpComesBack(t *testing.T) {
	for _, remove := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, gdelt.Options{Quiet: -1, Every: time.Second, Remove: remove})
			const content = "1\t\n2\t\n"
			w.put(again, content)
			if err := w.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(w.dir, again)); err != nil {
				t.Fatal(err)
			}
			w.start()
			if r := w.Reading(); len(r) != 1 || r[0].Pending != 2 {
				t.Fatalf("before anybody receives: %+v", r)
			}
			w.take(1, 5*time.Second)
			if lost, err := w.GiveUp(t.Context(), again, "gone"); err != nil || lost != 2 {
				t.Fatalf("lost %d, %v", lost, err)
			}
			w.put(again, content)
			if got := w.ends(); got != "1 2" {
				t.Fatalf("received %s", got)
			}
			if got := w.ends(); got != "" || w.there() == remove {
				t.Fatalf("received %s again, the file is there: %t", got, w.there())
			}
		})
	}
}
