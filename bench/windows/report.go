package windows

import (
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// result is one measurement: 0 does not apply.
type result struct {
	rounds.Common
	Records  int     `json:"records,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Rate     float64 `json:"per_second,omitempty" better:"more"`
	Own      float64 `json:"cpu_us,omitempty" better:"less"` // CPU µs a record: of the contender's process
	Redis    float64 `json:"cpu_us_redis,omitempty" better:"less"`
	Kafka    float64 `json:"cpu_us_kafka,omitempty" better:"less"`
	RSS      float64 `json:"rss_mib,omitempty" better:"less"`
	Limit    float64 `json:"of_limit,omitempty" better:"more"`     // its rate over that of its limit in the same round
	LimitCPU float64 `json:"cpu_of_limit,omitempty" better:"more"` // the CPU of its limit over its own, of all processes
}

// fill fills a row.
func (r *result) fill(from, to spent) {
	n, took := to.done-from.done, to.At.Sub(from.At)
	r.Records, r.Seconds, r.Rate = n, took.Round(time.Millisecond).Seconds(), math.Round(float64(n)/took.Seconds())
	r.Own, r.RSS = process.Micros(to.Own-from.Own, n), to.RSS
	r.Redis, r.Kafka = process.Micros(to.Servers["redis"]-from.Servers["redis"], n), process.Micros(to.Servers["kafka"]-from.Servers["kafka"], n)
}

// all is the CPU of all processes.
func (r *result) all() float64 { return r.Own + r.Redis + r.Kafka }

// head is above the columns of Line.
var head = figures.Head(62, "", "seconds", "records/s", "own µs", "redis µs", "kafka µs", "all µs", "RSS MiB", "of limit", "by CPU")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
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
func compare(round []*result, limits []string, r *result) {
	for _, other := range round {
		if !slices.Contains(limits, other.Name) || other.Rate == 0 || r.Rate == 0 {
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
