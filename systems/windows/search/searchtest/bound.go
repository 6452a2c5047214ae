package searchtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/search"
)

func bounded(w *world) {
	first := w.doc("1", `{"title":"first `+strings.Repeat("x", 2000)+`"}`)
	first.Day = yesterday
	second := w.doc("1", `{"title":"second"}`)
	second.Schema = w.other.Name
	third := w.doc("1", `{"title":"third"}`)
	for _, d := range []search.Doc{first, second, third} {
		before := time.Now()
		w.index(d)
		for time.Since(before) < 5*time.Millisecond { // indices are told apart by milliseconds
			time.Sleep(time.Millisecond)
		}
	}
	bound := func(most int64, young time.Time) string {
		w.Helper()
		gone, err := w.Store.Bound(w.Context(), most, young)
		if err != nil {
			w.Fatalf("Bound(%d): %v", most, err)
		}
		w.refresh()
		return gone
	}
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	if _, err := w.Store.Bound(ctx, 1, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		w.Errorf("Bound, told to stop: %v", err)
	}
	later := time.Now().Add(time.Hour)
	if gone := bound(1<<40, later); gone != "" {
		w.Fatalf("%s went where there is room", gone)
	}
	if gone, err := w.Store.Bound(w.Context(), 1, time.Now().Add(-time.Hour)); gone != "" || tidemill.KindOf(err) != tidemill.Business {
		w.Fatalf("%q went though it is young: %v", gone, err)
	}
	w.wantIDs("first", "1")
	for _, want := range []string{w.schema.Index(yesterday), w.other.Index(today), w.schema.Index(today), ""} {
		if gone := bound(1, later); gone != want {
			w.Fatalf("%q went, want %q", gone, want)
		}
	}
	w.wantIDs("")
	w.index(first) // one whose settlement was lost comes again
	w.wantIDs("first", "1")
	for i := range 20 { // what is replaced counts no more
		first.Body = fmt.Appendf(nil, `{"title":"first","number":%d}`, i)
		w.index(first)
	}
	w.wantBody("1", string(first.Body))
	if gone := bound(1<<20, later); gone != "" {
		w.Errorf("%s went where there is room again", gone)
	}
}
