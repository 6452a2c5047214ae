package figures

import (
	"errors"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.of); got != c.want {
			t.Errorf("Median(%v) = %v; want %v", c.of, got, c.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	var all []time.Duration
	for i := 1000; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Millisecond)
	}
	if q := *QuantilesOf(all); q != (Quantiles{501, 901, 991, 1000, 1000}) {
		t.Errorf("quantiles of 1 to 1,000 ms are %v", q)
	}
}

func TestMediansAreOfRoundsInWhichANumberApplies(t *testing.T) {
	type result struct {
		Name      string
		Rate, RSS float64
		Jobs      int
		late      float64
	}
	got := result{Name: "x", Jobs: 4}
	Medians(&got, []*result{{Rate: 1, RSS: 7, late: 1}, {Rate: 9, Jobs: 1}, {Rate: 2}})
	if want := (result{Name: "x", Rate: 2, RSS: 7, Jobs: 4}); got != want {
		t.Errorf("medians are %+v; want %+v", got, want)
	}
}

func TestARow(t *testing.T) {
	if head := Head(6, "", "jobs/s", "own µs"); head != "          jobs/s    own µs" {
		t.Errorf("the head is %q", head)
	}
	r := NewRow(6, "mine")
	r.Cell("%.0f", 1234.4)
	r.Cell("%.1f", 0)
	r.Cell("%.1f", 2.25)
	var problem string
	Note(&problem, nil)
	Note(&problem, errors.New("one is left"))
	Note(&problem, errors.New("and gone"))
	if line := r.End(problem); line != "mine        1234                 2.2  PROBLEM: one is left; and gone" {
		t.Errorf("the row is %q", line)
	}
	if line := NewRow(6, "mine").End(""); line != "mine" {
		t.Errorf("an empty row is %q", line)
	}
}
