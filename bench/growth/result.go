package growth

import (
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/rounds"
)

// result is a row: work at a size, or the reading of pages.
type result struct {
	rounds.Common
	Of       string  `json:"of"`
	Size     float64 `json:"size"`
	Rate     float64 `json:"per_second,omitempty" better:"more"`
	RateOf   float64 `json:"rate_of_fresh,omitempty" better:"more"` // over that of the fresh one in the same turn
	CPU      float64 `json:"cpu_us,omitempty" better:"less"`        // µs of all processes
	FreshCPU float64 `json:"fresh_cpu_us,omitempty"`
	CPUOf    float64 `json:"cpu_of_fresh,omitempty" better:"less"`
	Bytes    float64 `json:"bytes,omitempty" better:"less"` // of all files, for each that is there
	RSS      float64 `json:"rss_mib,omitempty" better:"less"`
	P50      float64 `json:"p50_ms,omitempty" better:"less"`
	P95      float64 `json:"p95_ms,omitempty" better:"less"`
	Fresh    float64 `json:"fresh_p50_ms,omitempty"`
	P50Of    float64 `json:"p50_of_fresh,omitempty" better:"less"`
	Removed  float64 `json:"removed_per_second,omitempty"` // by retention, meanwhile
}

var head = figures.Head(56, "", "a second", "of fresh", "CPU µs", "fresh", "of fresh", "bytes", "RSS MiB", "p50 ms", "p95 ms", "fresh", "of fresh", "removed/s")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(56, r.Name)
	row.Cell("%.0f", r.Rate)
	row.Cell("%.2f", r.RateOf)
	row.Cell("%.1f", r.CPU)
	row.Cell("%.1f", r.FreshCPU)
	row.Cell("%.2f", r.CPUOf)
	row.Cell("%.0f", r.Bytes)
	row.Cell("%.0f", r.RSS)
	row.Cell("%.2f", r.P50)
	row.Cell("%.2f", r.P95)
	row.Cell("%.2f", r.Fresh)
	row.Cell("%.2f", r.P50Of)
	row.Cell("%.0f", r.Removed)
	return row.End(r.Problem)
}
