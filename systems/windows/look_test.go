package windows_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/search"
)

func TestALargeWindowIsCountedInPart(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{})
		records := make([]window.Record, 0, 100_000)
		for i := range 105_000 {
			kind := "event"
			if i%4 == 0 {
				kind = "mention"
			}
			if records = append(records, window.Record{Batch: "b", Kind: kind, ID: fmt.Sprint(i), Body: []byte("{}")}); len(records) == 35_000 {
				if err := w.windows.Put(t.Context(), records, nil); err != nil {
					t.Fatal(err)
				}
				records = records[:0]
			}
		}
		st, err := w.sys.Look(t.Context(), w.only().ID)
		if err != nil {
			t.Fatal(err)
		}
		w.same("records, counted, by kind", fmt.Sprintf("%d %d %v %s", st.Records, st.Counted, st.Kinds, st.Waits), "105000 100000 map[event:75000 mention:25000] records")
		if _, err := w.sys.Look(t.Context(), "b/1"); !errors.Is(err, window.ErrNotFound) || tidemill.KindOf(err) != tidemill.NotFound {
			t.Errorf("of a window that is not there: %v", err)
		}
	})
}

func TestAWindowForWhoseLettersThereIsNoRoomSaysSo(t *testing.T) {
	in(t, func(w *world) {
		w.letters = must(tabledeadletter.Memory(deadletter.Options{Max: 1}))
		w.up(windows.Options{}, process.Step{Processor: process.Each("none", func(_ context.Context, _ string, it *process.Item) error {
			it.Refuse(tidemill.Fail(tidemill.Validation, "as the test says"))
			return nil
		})})
		w.send("b", "event", event(1))
		w.send("b", "event", event(2))
		rest(10 * time.Minute)
		for range 10 {
			st, err := w.sys.Look(t.Context(), w.only().ID)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(st.Because, "dead letters are full: replay") {
				t.Fatalf("it waits for %s because of %q", st.Waits, st.Because)
			}
			rest(300 * time.Millisecond)
		}
	})
}

func TestFamiliesHaveShortNames(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{})
		for name, want := range map[string]string{"events": "gdelt-events", "mentions": "gdelt-mentions", "gdelt-events": "gdelt-events", "": "", "s": "", "gdelt": "", "event": ""} {
			got, err := w.sys.Family(name)
			if got != want || (err == nil) != (want != "") || err != nil && tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("%q is %q, %v; want %q", name, got, err, want)
			}
		}
		if _, err := w.sys.Search(t.Context(), search.Query{Schema: "mentions"}); err != nil {
			t.Error(err)
		}
		if _, err := w.sys.Search(t.Context(), search.Query{Schema: "events", Text: "nix:1"}); tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("a wrong question: %v", err)
		}
	})
}
