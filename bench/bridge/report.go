package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
)

// result is one measurement: what is 0 does not apply.
type result struct {
	Round    int                `json:"round"` // 0: over all rounds, medians
	Name     string             `json:"name"`
	Messages int                `json:"messages,omitempty"`
	Seconds  float64            `json:"seconds,omitempty"`
	Rate     float64            `json:"per_second,omitempty"`
	Own      float64            `json:"cpu_us,omitempty"` // CPU µs a message: of the program that is measured
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
	b, err := json.Marshal(r)
	if err == nil {
		_, _ = fmt.Fprintf(w, "%s\n", b)
	}
}

// line is one row of what is printed while it runs.
func (r *result) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-34s", r.Name)
	cell := func(format string, v float64) {
		if v == 0 {
			fmt.Fprintf(&b, " %9s", "")
			return
		}
		fmt.Fprintf(&b, " %9s", fmt.Sprintf(format, v))
	}
	switch {
	case r.Latency != nil:
		for _, v := range []float64{r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.P999, r.Latency.Max} {
			cell("%.2f", v)
		}
	case r.Allocs != 0:
		fmt.Fprintf(&b, " idle CPU %.2f %%, %.2f allocations and %.0f bytes a message", r.Idle, r.Allocs, r.Bytes)
	default:
		cell("%.0f", r.Rate)
		cell("%.1f", r.Own)
		cell("%.1f", r.Redis)
		cell("%.1f", r.Broker)
		cell("%.1f", r.Side)
		cell("%.0f", r.RSS)
		cell("%.2f", r.Limit)
		cell("%.2f", r.Bento)
	}
	if r.Problem != "" {
		fmt.Fprintf(&b, "  PROBLEM: %s", r.Problem)
	}
	return strings.TrimRight(b.String(), " ")
}

// Heads of the columns of line.
var (
	rateHead    = fmt.Sprintf("%-34s %9s %9s %9s %9s %9s %9s %9s %9s", "", "msgs/s", "own µs", "redis µs", "broker µs", "far µs", "RSS MiB", "of limit", "of bento")
	latencyHead = fmt.Sprintf("%-34s %9s %9s %9s %9s %9s", "XADD → subscriber, ms", "p50", "p90", "p99", "p99.9", "max")
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
		Name: name, Messages: rounds[0].Messages,
		Seconds: of(func(r *result) float64 { return r.Seconds }), Rate: of(func(r *result) float64 { return r.Rate }),
		Own: of(func(r *result) float64 { return r.Own }), Redis: of(func(r *result) float64 { return r.Redis }),
		Broker: of(func(r *result) float64 { return r.Broker }), Side: of(func(r *result) float64 { return r.Side }),
		RSS: of(func(r *result) float64 { return r.RSS }), Limit: of(func(r *result) float64 { return r.Limit }), Bento: of(func(r *result) float64 { return r.Bento }),
		Idle: of(func(r *result) float64 { return r.Idle }), Allocs: of(func(r *result) float64 { return r.Allocs }), Bytes: of(func(r *result) float64 { return r.Bytes }),
	}
	for _, r := range rounds {
		s.late = append(s.late, r.late...)
		if r.Problem != "" {
			s.problem(fmt.Errorf("round %d: %s", r.Round, r.Problem))
		}
	}
	s.Latency = figures.QuantilesOf(s.late)
	return s
}
