package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/tidemill/tidemill/bench/figures"
)

// result is one measurement: what is 0 does not apply.
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
	Limit    float64 `json:"of_limit,omitempty"`  // over that of what bounds it
	Problem  string  `json:"problem,omitempty"`
}

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
var head = fmt.Sprintf("%-58s %9s %9s %9s %9s %9s %9s %9s %9s", "", "events/s", "own µs", "redis µs", "pg µs", "all µs", "RSS MiB", "of bullmq", "of limit")

// line is one row of what is printed while it runs.
func (r *result) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-58s", r.Name)
	cell := func(format string, v float64) {
		if v == 0 {
			fmt.Fprintf(&b, " %9s", "")
			return
		}
		fmt.Fprintf(&b, " %9s", fmt.Sprintf(format, v))
	}
	cell("%.0f", r.Rate)
	cell("%.1f", r.Own)
	cell("%.1f", r.Redis)
	cell("%.1f", r.Postgres)
	cell("%.1f", r.Own+r.Redis+r.Postgres)
	cell("%.0f", r.RSS)
	cell("%.2f", r.BullMQ)
	cell("%.2f", r.Limit)
	if r.Problem != "" {
		fmt.Fprintf(&b, "  PROBLEM: %s", r.Problem)
	}
	return strings.TrimRight(b.String(), " ")
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
		Name: name, Jobs: rounds[0].Jobs,
		Seconds: of(func(r *result) float64 { return r.Seconds }), Rate: of(func(r *result) float64 { return r.Rate }),
		Own: of(func(r *result) float64 { return r.Own }), Redis: of(func(r *result) float64 { return r.Redis }),
		Postgres: of(func(r *result) float64 { return r.Postgres }), RSS: of(func(r *result) float64 { return r.RSS }),
		BullMQ: of(func(r *result) float64 { return r.BullMQ }), Limit: of(func(r *result) float64 { return r.Limit }),
	}
	for _, r := range rounds {
		if r.Problem != "" {
			s.problem(fmt.Errorf("round %d: %s", r.Round, r.Problem))
		}
	}
	return s
}
