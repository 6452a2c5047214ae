package figures

import (
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
