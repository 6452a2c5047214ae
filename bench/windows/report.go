package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
)

// result is one measurement: what is 0 does not apply.
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
	Limit    float64 `json:"of_limit,omitempty"`     // its rate over that of what bounds it in the same round
	LimitCPU float64 `json:"cpu_of_limit,omitempty"` // the CPU of what bounds it over its own, of all processes
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

// problem keeps what went wrong; nil is nothing.
func (r *result) problem(err error) {
	switch {
	case err == nil:
	case r.Problem == "":
		r.Problem = err.Error()
	default:
		r.Problem += "; " + err.Error()
	}
}

func (r *result) json(w io.Writer) {
	if b, err := json.Marshal(r); err == nil {
		_, _ = fmt.Fprintf(w, "%s\n", b)
	}
}

// head is above the columns of line.
var head = fmt.Sprintf("%-62s %9s %9s %9s %9s %9s %9s %9s %9s %9s", "", "seconds", "records/s", "own µs", "redis µs", "kafka µs", "all µs", "RSS MiB", "of limit", "by CPU")

// line is one row of what is printed while it runs.
func (r *result) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-62s", r.Name)
	cell := func(format string, v float64) {
		if v == 0 {
			fmt.Fprintf(&b, " %9s", "")
			return
		}
		fmt.Fprintf(&b, " %9s", fmt.Sprintf(format, v))
	}
	cell("%.2f", r.Seconds)
	cell("%.0f", r.Rate)
	cell("%.1f", r.Own)
	cell("%.1f", r.Redis)
	cell("%.1f", r.Kafka)
	cell("%.1f", r.all())
	cell("%.0f", r.RSS)
	cell("%.2f", r.Limit)
	cell("%.2f", r.LimitCPU)
	if r.Problem != "" {
		fmt.Fprintf(&b, "  PROBLEM: %s", r.Problem)
	}
	return strings.TrimRight(b.String(), " ")
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
	of := func(get func(*result) float64) float64 {
		var v []float64
		for _, r := range rounds {
			if x := get(r); x != 0 {
				v = append(v, x)
			}
		}
		return figures.Median(v)
	}
	s := &result{
		Name: name, Records: rounds[0].Records,
		Seconds: of(func(r *result) float64 { return r.Seconds }), Rate: of(func(r *result) float64 { return r.Rate }),
		Own: of(func(r *result) float64 { return r.Own }), Redis: of(func(r *result) float64 { return r.Redis }),
		Kafka: of(func(r *result) float64 { return r.Kafka }), RSS: of(func(r *result) float64 { return r.RSS }),
		Limit: of(func(r *result) float64 { return r.Limit }), LimitCPU: of(func(r *result) float64 { return r.LimitCPU }),
	}
	for _, r := range rounds {
		if r.Problem != "" {
			s.problem(fmt.Errorf("round %d: %s", r.Round, r.Problem))
		}
	}
	return s
}
