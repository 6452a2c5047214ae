package entry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestWhatASettlementAddsToTheBooks(t *testing.T) {
	type count = tidemill.Count
	for _, c := range []struct {
		s    tidemill.Settlement
		want count
	}{
		{tidemill.Settlement{End: tidemill.Again, Fate: tidemill.Delivered}, count{}},
		{tidemill.Settlement{End: tidemill.Left}, count{}},
		{tidemill.Settlement{Fate: tidemill.Delivered}, count{Delivered: 7, Dead: 3}},
		{tidemill.Settlement{Fate: tidemill.Skipped}, count{Skipped: 7, Dead: 3}},
		{tidemill.Settlement{Fate: tidemill.Dead}, count{Dead: 10}},
		{tidemill.Settlement{Fate: tidemill.Dead, Records: count{Delivered: 7}}, count{Dead: 10}},
		{tidemill.Settlement{Fate: tidemill.Skipped, Records: count{Delivered: 5, Skipped: 1, Dead: 1}}, count{Delivered: 5, Skipped: 1, Dead: 4}},
	} {
		if got := entry.Booked(&c.s, 10, 3); got != c.want {
			t.Errorf("%+v of 10 records, 3 of them lost: %+v, want %+v", c.s, got, c.want)
		}
	}
}

func TestACauseIsKeptUpToItsEnd(t *testing.T) {
	whole := strings.Repeat("x", 4<<10-1)
	for in, want := range map[string]string{whole + "\xff": whole + "\xff", whole + "é": whole, whole + "xy": whole + "x"} {
		if got := entry.Cut(in); got != want {
			t.Errorf("of %d bytes it has %d, want %d", len(in), len(got), len(want))
		}
	}
}

func TestRevisionsGrow(t *testing.T) {
	for _, c := range []struct {
		last uint64
		now  time.Time
		want uint64
	}{{0, time.UnixMilli(-5), 1}, {0, time.UnixMilli(0), 1}, {0, time.UnixMilli(9), 9}, {8, time.UnixMilli(9), 9}, {9, time.UnixMilli(9), 10}, {20, time.UnixMilli(9), 21}} {
		if got := entry.NextRevision(c.last, c.now); got != c.want {
			t.Errorf("after %d at %d: %d, want %d", c.last, c.now.UnixMilli(), got, c.want)
		}
	}
}

func TestAWindowIsOverByCountOrTime(t *testing.T) {
	for _, c := range []struct {
		records, expect int64
		after           time.Duration
		want            window.Why
	}{
		{0, 0, 0, ""}, {5, 0, time.Minute - 1, ""}, {5, 0, time.Minute, window.ByTime}, {4, 5, 0, ""}, {5, 5, 0, window.ByCount}, {6, 5, time.Hour, window.ByCount}, {4, 5, time.Hour, window.ByTime},
		{1, 1, 0, window.ByCount},
	} {
		e := entry.Start("b", 1, noon)
		e.Records, e.Expect = c.records, c.expect
		if why, over := e.Over(noon.Add(c.after), time.Minute); why != c.want || over != (c.want != "") {
			t.Errorf("%d of %d records after %v: %q, %v; want %q", c.records, c.expect, c.after, why, over, c.want)
		}
	}
}

func TestEveryLeaseIsANewOne(t *testing.T) {
	e := entry.Start("b", 7, noon)
	for n := range 3 {
		e.Lease(noon, time.Minute, "o")
		if want := (tidemill.Mark{Epoch: uint32(n + 1), Lo: 7}); e.Position() != want || e.Handed != n+1 {
			t.Errorf("lease %d: %+v after %d hand-outs, want %+v", n+1, e.Position(), e.Handed, want)
		}
	}
}

func TestWhatIsKeptHasLimits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	good := window.Record{Batch: long(window.MaxBatch), Kind: long(window.MaxKind), ID: "i", Body: make([]byte, 1<<20)}
	for name, change := range map[string]func(*window.Record){
		"no batch": func(r *window.Record) { r.Batch = "" }, "a long batch": func(r *window.Record) { r.Batch += "x" },
		"no kind": func(r *window.Record) { r.Kind = "" }, "a long kind": func(r *window.Record) { r.Kind += "x" }, "a zero in the kind": func(r *window.Record) { r.Kind = "\x00" },
		"no id": func(r *window.Record) { r.ID = "" }, "an expectation below zero": func(r *window.Record) { r.Expect = -1 },
	} {
		bad := good
		if change(&bad); entry.CheckPut([]window.Record{good, bad}, nil) == nil {
			t.Errorf("%s is let pass", name)
		}
	}
	small := good
	small.Body = nil
	for _, c := range []struct {
		records []window.Record
		kept    int
		ok      bool
	}{
		{slices.Repeat([]window.Record{good}, window.MaxPutBytes>>20), 0, true},
		{slices.Repeat([]window.Record{good}, window.MaxPutBytes>>20+1), 0, false},
		{slices.Repeat([]window.Record{small}, window.MaxPut), window.MaxPut, true},
		{slices.Repeat([]window.Record{small}, window.MaxPut+1), 0, false},
		{[]window.Record{small}, 2, false},
	} {
		var kept []window.Kept
		if c.kept > 0 {
			kept = make([]window.Kept, c.kept)
		}
		if err := entry.CheckPut(c.records, kept); (err == nil) != c.ok {
			t.Errorf("%d records, room for %d answers: %v", len(c.records), c.kept, err)
		}
	}
}

// Who gives no room has made a mistake that no retry mends.
func TestNoRoomIsAMistakeOfOurs(t *testing.T) {
	if k := tidemill.KindOf(entry.NoRoom()); k != tidemill.Internal {
		t.Errorf("%v, want internal", k)
	}
}
