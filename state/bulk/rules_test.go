package bulk_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/bulk"
)

var day = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestAPreviewIsStartedInTime(t *testing.T) {
	o := &bulk.Operation{State: bulk.Previewed, Made: day}
	if err := o.Start("ada", 0, day, day.Add(bulk.PreviewFor)); !errors.Is(err, bulk.ErrTooOld) || o.State != bulk.Previewed {
		t.Errorf("after its time: %v, %s", err, o.State)
	}
	if err := o.Start("ada", 3600, day.Add(time.Minute), day.Add(bulk.PreviewFor-1)); err != nil || o.By != "ada" || o.Rate != 3600 {
		t.Errorf("in time: %v, %+v", err, o)
	}
	if err := o.Start("eve", 0, day, day); !errors.Is(err, bulk.ErrState) || o.By != "ada" {
		t.Errorf("the second time: %v, %+v", err, o)
	}
}

func TestNobodyClaimsWhatIsNotDueOrAnothers(t *testing.T) {
	o := &bulk.Operation{State: bulk.Scheduled, Starts: day.Add(time.Minute)}
	for i, c := range []struct {
		owner string
		at    time.Duration
		want  error
	}{
		{"a", time.Minute - 1, bulk.ErrState}, // in the window of undoing
		{"a", time.Minute, nil},
		{"b", time.Minute, bulk.ErrHeld},
		{"a", 80 * time.Second, nil},             // renewed
		{"b", 110*time.Second - 1, bulk.ErrHeld}, // 30s after that
		{"b", 110 * time.Second, nil},            // its lease ran out
		{"a", 111 * time.Second, bulk.ErrHeld},   // a late owner
	} {
		if err := o.Claim(c.owner, 30*time.Second, day.Add(c.at)); !errors.Is(err, c.want) {
			t.Errorf("claim %d: %v, want %v", i, err, c.want)
		}
	}
	if err := o.Release("a"); !errors.Is(err, bulk.ErrHeld) {
		t.Errorf("a late owner releases: %v", err)
	}
	if err := o.Release("b"); err != nil {
		t.Fatal(err)
	}
	if err := o.Claim("a", time.Second, day.Add(112*time.Second)); err != nil || !o.Begun.Equal(day.Add(time.Minute)) {
		t.Errorf("after a release: %v, begun %v", err, o.Begun)
	}
}

func TestAStoppedOperationBeginsNoSliceAndCountsTheLast(t *testing.T) {
	o := &bulk.Operation{State: bulk.Running, Owner: "a", Starts: day}
	if err := o.Begin("a", bulk.Slice{To: "9", N: 9}); err != nil {
		t.Fatal(err)
	}
	if err := o.Stop("eve", day); err != nil || o.State != bulk.Stopped || o.StoppedBy != "eve" {
		t.Fatalf("%v, %+v", err, o)
	}
	if err := o.Stop("bob", day.Add(1)); err != nil || o.StoppedBy != "eve" || !o.Ended.Equal(day) {
		t.Errorf("a second stop: %v, %+v", err, o)
	}
	did := bulk.Progress{Changed: 8, Failed: map[string]int{"damaged": 1}, Failures: []bulk.Failure{{ID: "x"}}}
	if err := o.Count("b", "9", did); !errors.Is(err, bulk.ErrHeld) {
		t.Errorf("another counts: %v", err)
	}
	if err := o.Count("a", "9", did); err != nil || o.Through() != 9 || o.Cursor != "9" || o.Slice.N != 0 {
		t.Errorf("its owner counts: %v, %+v", err, o)
	}
	if err := o.Count("a", "9", did); !errors.Is(err, bulk.ErrHeld) || o.Through() != 9 {
		t.Errorf("a slice is counted twice: %v, %+v", err, o)
	}
	for what, err := range map[string]error{"a slice": o.Begin("a", bulk.Slice{N: 1}), "an end": o.End("a", "", day), "a claim": o.Claim("a", time.Second, day)} {
		if !errors.Is(err, bulk.ErrState) {
			t.Errorf("%s of what was stopped: %v", what, err)
		}
	}
}

func TestOfFailuresTheFirstHundredAreNamed(t *testing.T) {
	o := &bulk.Operation{State: bulk.Running, Owner: "a"}
	for range 3 {
		if err := o.Begin("a", bulk.Slice{N: 60}); err != nil {
			t.Fatal(err)
		}
		if err := o.Count("a", "", bulk.Progress{Failed: map[string]int{"damaged": 60}, Failures: slices.Repeat([]bulk.Failure{{ID: "x"}}, 60)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.Failures) != bulk.MaxFailures || o.FailedAll() != 180 {
		t.Errorf("%d are named, and %d counted", len(o.Failures), o.FailedAll())
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]bulk.Rate{"50/s": 180_000, "50": 180_000, "50/m": 3000, "50/h": 50, "1000000/s": 3_600_000_000} {
		var r bulk.Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%s = %d, %v; want %d", text, r, err, want)
		}
		var again bulk.Rate
		if err := again.UnmarshalText([]byte(r.String())); err != nil || again != r {
			t.Errorf("%s is written %s, which is %d", text, r, again)
		}
	}
	for _, text := range []string{"", "fast", "0/s", "-1/s", "1/d", "1000001", "1e3/s"} {
		var r bulk.Rate
		if r.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a rate: %d", text, r)
		}
	}
	if got := bulk.Rate(1800).Takes(10); got != 20*time.Second {
		t.Errorf("10 at one in two seconds take %v", got)
	}
}
