package main

import (
	"fmt"

	"github.com/tidemill/tidemill/bench/figures"
)

// result is one measurement: 0 does not apply.
type result struct {
	Round    int     `json:"round"` // 0: over all rounds, medians
	Name     string  `json:"name"`
	Jobs     int     `json:"events,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Rate     float64 `json:"per_second,omitempty"`
	Own      float64 `json:"cpu_us,omitempty"` // CPU µs an event: of the contender's process
	Redis    float64 `json:"cpu_us_redis,omitempty"`
	Postgres float64 `json:"cpu_us_postgres,omitempty"`
	RSS      float64 `json:"rss_mib,omitempty"`
	BullMQ   float64 `json:"of_bullmq,omitempty"` // its rate over BullMQ's in the same round, the faster of 10 and 100 workers
	Limit    float64 `json:"of_limit,omitempty"`  // over the rate of its limit
	Problem  string  `json:"problem,omitempty"`
}

// head is above the columns of line.
var head = figures.Head(58, "", "events/s", "own µs", "redis µs", "pg µs", "all µs", "RSS MiB", "of bullmq", "of limit")

// line is a row of the output.
func (r *result) line() string {
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

// summary is the medians of one measurement over its rounds.
func summary(name string, rounds []*result) *result {
	s := &result{Name: name, Jobs: rounds[0].Jobs}
	figures.Medians(s, rounds)
	for _, r := range rounds {
		if r.Problem != "" {
			figures.Note(&s.Problem, fmt.Errorf("round %d: %s", r.Round, r.Problem))
		}
	}
	return s
}
