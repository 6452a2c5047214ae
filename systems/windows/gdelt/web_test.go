package gdelt_test

import (
	"bytes"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
)

// newWeb is a world whose files come from a server.
func newWeb(t *testing.T, list string, o gdelt.Options) *world {
	t.Helper()
	guard, err := httpguard.New(httpguard.Options{Plain: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "spool"), files: tableprogress.Memory(tableprogress.Options{}), dead: letters(t)}
	if w.Source, err = gdelt.NewURL(list, w.dir, guard, w.files, w.dead, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// ready looks for files and takes n rows that are there.
func (w *world) ready(n int) []*tidemill.Message {
	w.Helper()
	if err := w.Look(w.Context()); err != nil {
		w.Fatal(err)
	}
	if n == 0 {
		return nil
	}
	return w.take(n, 10*time.Second)
}

func TestAList(t *testing.T) {
	server := gdelttest.NewServer(t)
	b := gdelttest.Batch{Stamp: "20250323151500", Events: 20, Mentions: 30}
	export, mentions := b.Names()
	old, _ := gdelttest.Batch{Stamp: "20200101000000"}.Names()
	server.Publish(old+".zip", gdelttest.Zip(old, []byte("1\t\n")))
	server.Publish(export+".zip", gdelttest.Zip(export, b.Export()))
	server.Publish("20250323151500.gkg.csv.zip", []byte("x"))
	server.Publish(mentions+".zip", gdelttest.Zip(mentions, b.MentionsFile()))
	w := newWeb(t, server.List(), gdelt.Options{Since: "20250101"})
	got := w.ready(50)
	if len(got) != 50 || server.Asked("/"+old+".zip") != 0 || server.Asked("/20250323151500.gkg.csv.zip") != 0 {
		t.Fatalf("%d rows", len(got))
	}
	w.settle(tidemill.Delivered, got[:49]...)
	w.ready(0)
	if r := w.Reading(); len(r) != 1 || r[0].Pending != 1 || r[0].Batch != b.Stamp {
		t.Errorf("reading %+v", r)
	}
	w.settle(tidemill.Delivered, got[49])
	w.take(1, 50*time.Millisecond) // done files are removed meanwhile
	left, err := os.ReadDir(w.dir)
	if err != nil || len(left) != 0 {
		t.Errorf("%v stays, %v", left, err)
	}
	if n := server.Asked("/" + export + ".zip"); n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

func TestOneFileByItsURL(t *testing.T) {
	server := gdelttest.NewServer(t)
	server.Publish("20250323151500.export.CSV", []byte("1\t\n2\t\n"))
	w := newWeb(t, server.URL+"/20250323151500.export.CSV", gdelt.Options{})
	if got := w.ready(2); len(got) != 2 {
		t.Errorf("received %s", ids(got))
	}
}

func TestFilesThatAreNotWhatTheListSays(t *testing.T) {
	const name = "20250323150000.export.CSV"
	for _, c := range []struct {
		what string
		lie  func(s *gdelttest.Server)
		want string
	}{
		{"another MD5", func(s *gdelttest.Server) { s.Lie(name, "4 00000000000000000000000000000000 "+s.URL+"/"+name) }, "MD5"},
		{"longer", func(s *gdelttest.Server) { s.Lie(name, "3 00000000000000000000000000000000 "+s.URL+"/"+name) }, "more than the 3 bytes"},
		{"shorter", func(s *gdelttest.Server) { s.Lie(name, "5 00000000000000000000000000000000 "+s.URL+"/"+name) }, "has 4 bytes, the list says 5"},
		{"not there", func(s *gdelttest.Server) { s.Withdraw(name) }, "answers 404"},
		{"on a forbidden host", func(s *gdelttest.Server) {
			s.Lie(name, "4 00000000000000000000000000000000 http://169.254.169.254/"+name)
		}, "refused"},
		{"huge", func(s *gdelttest.Server) {
			s.Lie(name, "99999999999 00000000000000000000000000000000 "+s.URL+"/"+name)
		}, "more than"},
	} {
		t.Run(c.what, func(t *testing.T) {
			server := gdelttest.NewServer(t)
			server.Publish(name, []byte("1\t\n\n"))
			server.Publish("20250323151500.export.CSV", []byte("2\t\n"))
			c.lie(server)
			now := time.Now()
			w := newWeb(t, server.List(), gdelt.Options{Now: func() time.Time { return now }})
			for i := range 4 {
				w.ready(0)
				now = now.Add(2 * time.Minute)
				if i == 0 {
					if got := w.ready(1); len(got) != 1 || got[0].To == name {
						t.Fatalf("received %s, others go on", ids(got))
					}
				}
			}
			all := w.letters()
			if len(all) != 1 || all[0].ID != name || !strings.Contains(all[0].Cause, c.want) || !bytes.Contains(all[0].Payload, []byte(name)) {
				t.Fatalf("letters are %+v", all)
			}
			asked := server.Asked("/" + name)
			now = now.Add(time.Hour)
			w.ready(0)
			if again := server.Asked("/" + name); again != asked {
				t.Errorf("it is fetched for ever: %d, then %d times", asked, again)
			}
			if left, err := os.ReadDir(w.dir); err != nil || len(left) != 1 {
				t.Errorf("%v stays, %v", left, err)
			}
		})
	}
}

// A refused file may exist by now: it is asked for again, once a day while it is listed, or on
// request.
func TestAFileOfAListThatWasRefusedIsAskedForAgain(t *testing.T) {
	const name = "20250323150000.export.CSV"
	for _, c := range []struct {
		what  string
		lists string // the list's line by then; empty: the truth
		wait  time.Duration
		wants bool
	}{
		{"a day later", "", 25 * time.Hour, false},
		{"by hand", "", time.Second, true},
		{"by hand, and not listed any more", "-", time.Second, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			server := gdelttest.NewServer(t)
			server.Publish(name, []byte("1\t\n"))
			server.Withdraw(name)
			now := time.Now()
			w := newWeb(t, server.List(), gdelt.Options{Now: func() time.Time { return now }})
			look := func() {
				if c.wants {
					if err := w.Again(t.Context(), name); err != nil {
						t.Fatal(err)
					}
				}
				w.ready(0)
			}
			for range 4 {
				w.ready(0)
				now = now.Add(2 * time.Minute)
			}
			now = now.Add(c.wait)
			look()
			if n, all := server.Asked("/"+name), w.letters(); n != 4 || len(all) != 1 {
				t.Fatalf("asked for %d times while it is not there, %d letters", n, len(all))
			}
			server.Publish(name, []byte("1\t\n"))
			server.Lie(name, c.lists)
			now = now.Add(c.wait)
			look()
			if got := w.ready(1); len(got) != 1 || string(got[0].Key) != "1" {
				t.Fatalf("received %s of a file that is there", ids(got))
			}
			if err := w.Again(t.Context(), "20250323151500.export.CSV"); tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("a file that nobody knows: %v", err)
			}
		})
	}
}

func TestOnlyWhatTheGuardAllowsIsAsked(t *testing.T) {
	guard, err := httpguard.New(httpguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	for _, list := range []string{"http://example.com/list", "https://127.0.0.1/list", "ftp://example.com/list", "list", "", "https://u:secret@example.com/list"} {
		_, err := gdelt.NewURL(list, t.TempDir(), guard, tableprogress.Memory(tableprogress.Options{}), letters(t), gdelt.Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", list, err)
		}
	}
}

func TestAServerThatIsAwayIsAskedAgain(t *testing.T) {
	server := gdelttest.NewServer(t)
	u, err := url.Parse(server.List())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/nothing.txt"
	w := newWeb(t, u.String(), gdelt.Options{})
	for range 2 {
		if err := w.Look(t.Context()); err == nil || tidemill.KindOf(err) != tidemill.Transient || !strings.Contains(err.Error(), "404") {
			t.Errorf("%v", err)
		}
	}
}

func TestAListThatCannotBeReadSaysWhyAndKeepsItsQuery(t *testing.T) {
	w := newWeb(t, "http://127.0.0.1:1/list?signature=hush", gdelt.Options{}) // an unused address
	err := w.Look(t.Context())
	if tidemill.KindOf(err) != tidemill.Transient || !strings.Contains(err.Error(), "dial tcp") {
		t.Errorf("%v, want what the connection failed with", err)
	}
	if !strings.Contains(err.Error(), "?[secret]: ") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v, want no query", err)
	}
}
