package bridge

import (
	"strings"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/rounds"
)

// result is one measurement: 0 does not apply.
type result struct {
	rounds.Common
	Messages int     `json:"messages,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Rate     float64 `json:"per_second,omitempty" better:"more"`
	Own      float64 `json:"cpu_us,omitempty" better:"less"` // CPU µs a message: of the measured program
	Redis    float64 `json:"cpu_us_redis,omitempty" better:"less"`
	Broker   float64 `json:"cpu_us_broker,omitempty" better:"less"`
	Side     float64 `json:"cpu_us_far_side,omitempty" better:"less"`
	RSS      float64 `json:"rss_mib,omitempty" better:"less"`
	Idle     float64 `json:"idle_cpu_percent,omitempty" better:"less"`
	Allocs   float64 `json:"allocations,omitempty" better:"less"` // a message
	Bytes    float64 `json:"allocated_bytes,omitempty" better:"less"`
	Limit    float64 `json:"of_limit,omitempty" better:"more"` // of the slower limit of the same round
	Bento    float64 `json:"of_bento,omitempty" better:"more"`
}

// Head is the names above the columns of Line.
func (r *result) Head() string {
	if r.Latency != nil {
		return latencyHead
	}
	return rateHead
}

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(34, r.Name)
	switch {
	case r.Latency != nil:
		row.Quantiles(r.Latency)
	case r.Allocs != 0:
		row.Text(" idle CPU %.2f %%, %.2f allocations and %.0f bytes a message", r.Idle, r.Allocs, r.Bytes)
	default:
		row.Cell("%.0f", r.Rate)
		row.Cell("%.1f", r.Own)
		row.Cell("%.1f", r.Redis)
		row.Cell("%.1f", r.Broker)
		row.Cell("%.1f", r.Side)
		row.Cell("%.0f", r.RSS)
		row.Cell("%.2f", r.Limit)
		row.Cell("%.2f", r.Bento)
	}
	return row.End(r.Problem)
}

// Heads of the columns of Line.
var (
	rateHead    = figures.Head(34, "", "msgs/s", "own µs", "redis µs", "broker µs", "far µs", "RSS MiB", "of limit", "of bento")
	latencyHead = figures.Head(34, "XADD → subscriber, ms", "p50", "p90", "p99", "p99.9", "max")
)

// compare fills a round's ratios: to the slower limit, and to Bento, on the same broker. The limit of
// publishing is the one with the same receiver.
func compare(round []*result, m measurement, r *result) {
	rate := func(name string) float64 {
		for _, other := range round {
			if other.Name == name {
				return other.Rate
			}
		}
		return 0
	}
	if strings.HasPrefix(m.name, "limit") {
		return
	}
	publish := publishLimit + m.on.name
	if answers, ok := strings.CutPrefix(m.name, answered); ok {
		publish = answeredLimit + answers
	}
	if read, write := rate(drainLimit), rate(publish); r.Rate > 0 && read > 0 && write > 0 {
		r.Limit = r.Rate / min(read, write)
	}
	if peer := rate(bentoName + m.on.name); r.Rate > 0 && peer > 0 {
		r.Bento = r.Rate / peer
	}
}
