package gdelt_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
)

// world is a folder with a source on it.
type world struct {
	*testing.T
	dir   string
	o     gdelt.Options
	files *tableprogress.Store[*memorytable.Tx]
	dead  deadletter.Store
	*gdelt.Source
}

func newWorld(t *testing.T, o gdelt.Options) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), o: o, files: tableprogress.Memory(tableprogress.Options{}), dead: letters(t)}
	w.start()
	return w
}

// start makes a new source, as after a crash.
func (w *world) start() {
	w.Helper()
	if w.Source != nil {
		_ = w.Close()
	}
	s, err := gdelt.NewFolder(w.dir, w.files, w.dead, w.o)
	if err != nil {
		w.Fatal(err)
	}
	w.Source = s
	w.Cleanup(func() { _ = s.Close() })
}

// Reading are the open files.
func (w *world) Reading() []gdelt.Reading {
	w.Helper()
	all, err := w.Source.Reading(w.Context())
	if err != nil {
		w.Error(err)
	}
	return all
}

func (w *world) put(name, content string) {
	w.Helper()
	if err := gdelttest.Put(w.dir, name, []byte(content)); err != nil {
		w.Fatal(err)
	}
}

// take receives up to n rows, until none comes for d.
func (w *world) take(n int, d time.Duration) []*tidemill.Message {
	w.Helper()
	var all []*tidemill.Message
	for len(all) < n {
		ctx, cancel := context.WithTimeout(w.Context(), d)
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		got, err := w.Receive(ctx, into)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, into[:got]...)
	}
	return all
}

func (w *world) settle(f tidemill.Fate, ms ...*tidemill.Message) {
	w.Helper()
	ends := make([]tidemill.Settlement, len(ms))
	for i, m := range ms {
		ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: f}
	}
	if err := w.Settle(w.Context(), ends); err != nil {
		w.Fatal(err)
	}
	for _, e := range ends {
		if e.Outcome != tidemill.Applied {
			w.Fatalf("%s was taken as %d", e.ID, e.Outcome)
		}
	}
}

func (w *world) letters() []*deadletter.Letter {
	w.Helper()
	var all []*deadletter.Letter
	for l, err := range w.dead.List(w.Context(), deadletter.Filter{}) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func ids(ms []*tidemill.Message) string {
	var all []string
	for _, m := range ms {
		all = append(all, m.ID)
	}
	return strings.Join(all, " ")
}

func letters(t *testing.T) deadletter.Store {
	t.Helper()
	s, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// manyFiles is an archive of n empty files.
func manyFiles(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range n {
		if _, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%0200d.export.CSV", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
