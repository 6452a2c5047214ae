package crm

import (
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/rounds"
)

// result is one measurement: 0 does not apply.
type result struct {
	rounds.Common
	Jobs     int     `json:"events,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Rate     float64 `json:"per_second,omitempty" better:"more"`
	Own      float64 `json:"cpu_us,omitempty" better:"less"` // CPU µs an event: of the contender's process
	Redis    float64 `json:"cpu_us_redis,omitempty" better:"less"`
	Postgres float64 `json:"cpu_us_postgres,omitempty" better:"less"`
	RSS      float64 `json:"rss_mib,omitempty" better:"less"`
	BullMQ   float64 `json:"of_bullmq,omitempty" better:"more"` // its rate over BullMQ's in the same round, the faster of 10 and 100 workers
	Limit    float64 `json:"of_limit,omitempty" better:"more"`  // over the rate of its limit
}

// head is above the columns of Line.
var head = figures.Head(58, "", "events/s", "own µs", "redis µs", "pg µs", "all µs", "RSS MiB", "of bullmq", "of limit")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(58, r.Name)
	row.Cell("%.0f", r.Rate)
	row.Cell("%.1f", r.Own)
	row.Cell("%.1f", r.Redis)
	row.Cell("%.1f", r.Postgres)
	row.Cell("%.1f", r.Own+r.Redis+r.Postgres)
	row.Cell("%.0f", r.RSS)
	row.Cell("%.2f", r.BullMQ)
	row.Cell("%.2f", r.Limit)
	return row.End(r.Problem)
}

// compare fills the ratios of the product's rows, to those of the same round.
func compare(round []*result, m measurement, r *result) {
	if m.limit == "" {
		return
	}
	fastest := func(names ...string) (rate float64) {
		for _, other := range round {
			for _, name := range names {
				if other.Name == name {
					rate = max(rate, other.Rate)
				}
			}
		}
		return rate
	}
	if rate := fastest(m.bullmq...); rate > 0 {
		r.BullMQ = r.Rate / rate
	}
	if rate := fastest(m.limit); rate > 0 {
		r.Limit = r.Rate / rate
	}
}
