package warehousetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

func bounded(t *testing.T, h Harness) {
	b, ok := h.Store.(warehouse.Bounder)
	if !ok {
		return // it takes what memory there is
	}
	start := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	all := evs(0, 90) // thirty a month: January, February, March
	for i, e := range all {
		e.Timestamp = start.AddDate(0, i/30, 0).Add(time.Duration(i) * time.Second)
	}
	all[35].Project = projectB // the bound is that of all projects
	insertAll(t, h.Store, all)
	left := func() (n int64) {
		n, err := h.Store.Count(t.Context(), uuid.Nil)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	run := func(most int64, young time.Time) (sum int64, err error) {
		t.Helper()
		for more := true; more; {
			var n int64
			if n, more, err = b.Bound(t.Context(), most, young); n < 0 || err != nil && (n != 0 || more) {
				t.Fatalf("%d went, more %t: %v", n, more, err)
			}
			sum += n
		}
		return sum, err
	}
	if n, err := run(1<<40, start.AddDate(1, 0, 0)); n != 0 || err != nil || left() != 90 {
		t.Fatalf("%d went where there is room, %d are left: %v", n, left(), err)
	}
	if n, err := run(1, start); n != 0 || tidemill.KindOf(err) != tidemill.Business || left() != 90 {
		t.Fatalf("%d went that are young, %d are left: %v", n, left(), err)
	}
	march := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if n, err := run(1, march); n != 60 || tidemill.KindOf(err) != tidemill.Business || left() != 30 {
		t.Fatalf("%d went of January and February, %d are left: %v", n, left(), err)
	}
	for _, e := range list(t, h.Store, warehouse.Filter{Project: projectA}) {
		if e.Timestamp.Before(march) {
			t.Errorf("event %d of %v is there", number[e.ID], e.Timestamp)
		}
	}
	took := make([]warehouse.Outcome, 1)
	if err := h.Store.Insert(t.Context(), all[:1], took); err != nil { // it comes again: its settlement was lost
		t.Fatal(err)
	}
	if n, err := run(1<<40, march); n != 0 || err != nil || left() > 31 {
		t.Errorf("%d went where there is room again, %d are left: %v", n, left(), err)
	}
}

func boundedWarnings(t *testing.T, h Harness) {
	b, ok := h.Store.(warehouse.WarningBounder)
	if !ok {
		t.Fatal("its warnings have no bound")
	}
	var ws []warehouse.Warning
	for i := range 2500 {
		w := warehouse.Warning{Project: projectA, Type: "invalid_event", Reason: "x", At: noon.Add(time.Duration((i*7)%2500) * time.Minute)}
		if i%2 == 0 {
			w.Project = projectB
		}
		ws = append(ws, w)
	}
	if err := h.Store.Warn(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	run := func(most int) (sum int64) {
		t.Helper()
		for more := true; more; {
			var n int64
			var err error
			if n, more, err = b.BoundWarnings(t.Context(), most); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}
	if n := run(2500); n != 0 {
		t.Errorf("%d went where there is room", n)
	}
	if n := run(1000); n != 1500 {
		t.Errorf("%d went, want 1500", n)
	}
	if n := run(1000); n != 0 {
		t.Errorf("%d more went", n)
	}
	left := 0
	for _, p := range []uuid.UUID{projectA, projectB} {
		got, err := h.Store.Warnings(t.Context(), warehouse.WarningFilter{Project: p, Max: 5000})
		if err != nil {
			t.Fatal(err)
		}
		left += len(got)
		for _, w := range got {
			if w.At.Before(noon.Add(1500 * time.Minute)) {
				t.Fatalf("one of %v is left", w.At)
			}
		}
	}
	if left != 1000 {
		t.Errorf("%d are left, want 1000", left)
	}
}
