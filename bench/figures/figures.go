// Package figures has the common figures of all benchmarks.
package figures

import (
	"slices"
	"time"
)

// Quantiles of a latency, in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// QuantilesOf finds them; nil: nothing was measured.
func QuantilesOf(all []time.Duration) *Quantiles {
	if len(all) == 0 {
		return nil
	}
	at := func(q float64) float64 { return At(all, q) }
	return &Quantiles{at(0.5), at(0.9), at(0.99), at(0.999), at(1)}
}

// At is a quantile, as 0.95, in milliseconds; 0: nothing was measured.
func At(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return float64(all[min(len(all)-1, int(q*float64(len(all))))].Microseconds()) / 1000
}

// Median of the values; 0: none.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
