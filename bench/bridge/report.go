package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
)

// result is one measurement: 0 does not apply.
type result struct {
	Round    int                `json:"round"` // 0: over all rounds, medians
	Name     string             `json:"name"`
	Messages int                `json:"messages,omitempty"`
	Seconds  float64            `json:"seconds,omitempty"`
	Rate     float64            `json:"per_second,omitempty"`
	Own      float64            `json:"cpu_us,omitempty"` // CPU µs a message: of the measured program
	Redis    float64            `json:"cpu_us_redis,omitempty"`
	Broker   float64            `json:"cpu_us_broker,omitempty"`
	Side     float64            `json:"cpu_us_far_side,omitempty"`
	RSS      float64            `json:"rss_mib,omitempty"`
	Latency  *figures.Quantiles `json:"latency_ms,omitempty"`
	Idle     float64            `json:"idle_cpu_percent,omitempty"`
	Allocs   float64            `json:"allocations,omitempty"` // a message
	Bytes    float64            `json:"allocated_bytes,omitempty"`
	Limit    float64            `json:"of_limit,omitempty"` // of the slower limit of the same round
	Bento    float64            `json:"of_bento,omitempty"`
	Problem  string             `json:"problem,omitempty"` // what was lost, doubled or went wrong

	late []time.Duration // of each entry
}

// line is a row of the output.
func (r *result) line() string {
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

// Heads of the columns of line.
var (
	rateHead    = figures.Head(34, "", "msgs/s", "own µs", "redis µs", "broker µs", "far µs", "RSS MiB", "of limit", "of bento")
	latencyHead = figures.Head(34, "XADD → subscriber, ms", "p50", "p90", "p99", "p99.9", "max")
)

// compare fills a round's ratios: to the slower limit, and to Bento, on the same broker.
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
	if read, write := rate(drainLimit), rate(publishLimit+m.on.name); r.Rate > 0 && read > 0 && write > 0 {
		r.Limit = r.Rate / min(read, write)
	}
	if peer := rate(bentoName + m.on.name); r.Rate > 0 && peer > 0 {
		r.Bento = r.Rate / peer
	}
}

// summary is the medians of one measurement over its rounds; the latency is that of all
// entries of all rounds together.
func summary(name string, rounds []*result) *result {
	s := &result{Name: name, Messages: rounds[0].Messages}
	figures.Medians(s, rounds)
	for _, r := range rounds {
		s.late = append(s.late, r.late...)
		if r.Problem != "" {
			figures.Note(&s.Problem, fmt.Errorf("round %d: %s", r.Round, r.Problem))
		}
	}
	s.Latency = figures.QuantilesOf(s.late)
	return s
}
