package page

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/api"
)

func TestATrendFillsItsBox(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := api.History{Step: 10}
	for i, n := range []uint64{0, 8, 4} {
		h.Points = append(h.Points, api.Point{At: begin.Add(time.Duration(i) * 10 * time.Second), In: n, Failed: 1, Oldest: float64(30 - 10*i)})
	}
	got := newTrend(h)
	if want := "0.0,78.0 300.0,2.0 600.0,40.0 "; got.In != want {
		t.Errorf("the line is %q, want %q", got.In, want)
	}
	if got.Most != 8 || got.SumIn != 12 || got.SumOut != 0 || got.SumFailed != 3 {
		t.Errorf("the numbers are %+v", got)
	}
	if want := "0.0,2.0 300.0,27.3 600.0,52.7 "; got.Late != want || got.LateNow != 10 || got.LateMost != 30 {
		t.Errorf("the oldest makes the line %q, %v now, at most %v", got.Late, got.LateNow, got.LateMost)
	}
	h.Points = h.Points[:1]
	if one := newTrend(h); one.In != "" || one.SumFailed != 1 {
		t.Errorf("one point makes the line %q", one.In)
	}
	h.Points = []api.Point{{At: begin}, {At: begin.Add(time.Minute)}}
	if flat := newTrend(h); flat.In != "0.0,78.0 600.0,78.0 " {
		t.Errorf("nothing makes the line %q", flat.In)
	}
}

// TestATrendIsATableToo holds that the rows have all that the lines have, in steps of five minutes or an hour.
func TestATrendIsATableToo(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for span, want := range map[time.Duration]time.Duration{time.Hour: 5 * time.Minute, 24 * time.Hour: time.Hour} {
		var h api.History
		for at := time.Duration(0); at < span; at += time.Minute {
			h.Points = append(h.Points, api.Point{At: begin.Add(at), In: 2, Out: 1, Failed: 3, Oldest: at.Seconds()})
		}
		rows := newTrend(h).Rows
		if len(rows) != int(span/want) {
			t.Fatalf("%v is %d rows", span, len(rows))
		}
		n := uint64(want / time.Minute)
		if r := rows[1]; !r.At.Equal(begin.Add(want)) || r.In != 2*n || r.Out != n || r.Failed != 3*n || r.Oldest != (2*want-time.Minute).Seconds() {
			t.Errorf("a row of %v is %+v", span, r)
		}
	}
}
