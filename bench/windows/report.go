package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
)

// result is one measurement: 0 does not apply.
type result struct {
	Round    int     `json:"round"` // 0: over all rounds, medians
	Name     string  `json:"name"`
	Records  int     `json:"records,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Rate     float64 `json:"per_second,omitempty"`
	Own      float64 `json:"cpu_us,omitempty"` // CPU µs a record: of the contender's process
	Redis    float64 `json:"cpu_us_redis,omitempty"`
	Kafka    float64 `json:"cpu_us_kafka,omitempty"`
	RSS      float64 `json:"rss_mib,omitempty"`
	Limit    float64 `json:"of_limit,omitempty"`     // its rate over that of its limit in the same round
	LimitCPU float64 `json:"cpu_of_limit,omitempty"` // the CPU of its limit over its own, of all processes
	Problem  string  `json:"problem,omitempty"`
}

// fill fills a row.
func (r *result) fill(from, to spent) {
	n, took := to.done-from.done, to.at.Sub(from.at)
	per := func(d time.Duration) float64 { return math.Round(d.Seconds()*1e8/float64(n)) / 100 }
	r.Records, r.Seconds, r.Rate = n, took.Round(time.Millisecond).Seconds(), math.Round(float64(n)/took.Seconds())
	r.Own, r.Redis, r.Kafka, r.RSS = per(to.own-from.own), per(to.redis-from.redis), per(to.kafka-from.kafka), to.rss
}

// all is the CPU of all processes.
func (r *result) all() float64 { return r.Own + r.Redis + r.Kafka }

// head is above the columns of line.
var head = figures.Head(62, "", "seconds", "records/s", "own µs", "redis µs", "kafka µs", "all µs", "RSS MiB", "of limit", "by CPU")

// line is a row of the output.
func (r *result) line() string {
	row := figures.NewRow(62, r.Name)
	row.Cell("%.2f", r.Seconds)
	row.Cell("%.0f", r.Rate)
	row.Cell("%.1f", r.Own)
	row.Cell("%.1f", r.Redis)
	row.Cell("%.1f", r.Kafka)
	row.Cell("%.1f", r.all())
	row.Cell("%.0f", r.RSS)
	row.Cell("%.2f", r.Limit)
	row.Cell("%.2f", r.LimitCPU)
	return row.End(r.Problem)
}

// compare fills the ratios to the fastest limit of the same round, and to the one that needs
// the least CPU.
func compare(round []*result, m measurement, r *result) {
	for _, other := range round {
		if !slices.Contains(m.limits, other.Name) || other.Rate == 0 || r.Rate == 0 {
			continue
		}
		if of := r.Rate / other.Rate; r.Limit == 0 || of < r.Limit {
			r.Limit = of
		}
		if of := other.all() / max(r.all(), 0.01); r.LimitCPU == 0 || of < r.LimitCPU {
			r.LimitCPU = of
		}
	}
}

// summary is the medians of one measurement over its rounds.
func summary(name string, rounds []*result) *result {
	s := &result{Name: name, Records: rounds[0].Records}
	figures.Medians(s, rounds)
	for _, r := range rounds {
		if r.Problem != "" {
			figures.Note(&s.Problem, fmt.Errorf("round %d: %s", r.Round, r.Problem))
		}
	}
	return s
}
