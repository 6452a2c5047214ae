package connect

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// TestDeadLettersAreKeptForSoLong has old and young ones in the store of all and in one of a system,
// more than one slice of them, and one that is being replayed.
func TestDeadLettersAreKeptForSoLong(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	store := func(old int) deadletter.Store {
		rows, err := memorytable.New(memorytable.NewDB(), tabledeadletter.Spec())
		if err != nil {
			t.Fatal(err)
		}
		s, err := tabledeadletter.New(t.Context(), rows, tabledeadletter.Options{Options: deadletter.Options{Now: func() time.Time { return now }}})
		if err != nil {
			t.Fatal(err)
		}
		var all []tidemill.DeadLetter
		for i := range old + 3 {
			at := now.Add(-time.Hour)
			if i < old {
				at = now.Add(-time.Hour - time.Millisecond)
			}
			all = append(all, tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Partner, Cause: "answered 500", At: at, Message: &tidemill.Message{ID: time.Duration(i).String(), Tenant: "shop"}})
		}
		if err := s.Put(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		return s
	}
	of, own := store(401), store(1)
	if n, err := own.Replay(t.Context(), deadletter.Filter{}); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	run := func(keep time.Duration) []int {
		c := &config.Loaded{}
		c.Dead.Keep = keep
		i := &Instance{Host: &system.Host{Config: c, Now: func() time.Time { return now }, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}}
		i.forgetDead(&admin.Parts{Letters: of, OwnLetters: []admin.OwnLetters{{System: "crm", Store: own}}})
		for _, loop := range i.Retention() {
			if err := loop.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var left []int
		for _, s := range []deadletter.Store{of, own} {
			n, err := s.Count(t.Context(), deadletter.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, n)
		}
		return left
	}
	if left := run(0); left[0] != 404 || left[1] != 4 {
		t.Errorf("%v are left where they are kept for ever, want 404 and 4", left)
	}
	if left := run(time.Hour); left[0] != 3 || left[1] != 4 {
		t.Errorf("%v are left, want the 3 that are an hour old, and 4 that are being replayed", left)
	}
}
