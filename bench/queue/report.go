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
	Round     int                `json:"round"` // 0: over all rounds, medians
	Name      string             `json:"name"`
	Jobs      int                `json:"jobs,omitempty"`
	Seconds   float64            `json:"seconds,omitempty"`
	Rate      float64            `json:"per_second,omitempty"`
	Own       float64            `json:"cpu_us,omitempty"`        // CPU µs a job: of the contender's process
	Server    float64            `json:"cpu_us_server,omitempty"` // of its server
	RSS       float64            `json:"rss_mib,omitempty"`
	ServerRSS float64            `json:"rss_mib_server,omitempty"`
	Bytes     float64            `json:"bytes_a_job,omitempty"` // of Redis' memory, or of files
	Latency   *figures.Quantiles `json:"latency_ms,omitempty"`
	Fair      float64            `json:"fairness,omitempty"`
	BullMQ    float64            `json:"of_bullmq,omitempty"` // its rate over that of BullMQ doing the same in the same round
	Asynq     float64            `json:"of_asynq,omitempty"`
	Limit     float64            `json:"of_limit,omitempty"`   // of a script a job
	Without   float64            `json:"of_without,omitempty"` // with limits: of the same without
	Problem   string             `json:"problem,omitempty"`

	late []time.Duration // of each job
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

// Heads of the columns of line.
var (
	rateHead    = fmt.Sprintf("%-40s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s", "", "jobs/s", "own µs", "server µs", "RSS MiB", "server MiB", "bytes/job", "of bullmq", "of asynq", "of limit", "of without")
	latencyHead = fmt.Sprintf("%-40s %9s %9s %9s %9s %9s", "add → handler, ms", "p50", "p90", "p99", "p99.9", "max")
)

// line is one row of what is printed while it runs.
func (r *result) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-40s", r.Name)
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
		fmt.Fprintf(&b, "   own %.0f µs, server %.0f µs a job", r.Own, r.Server)
	case r.Fair != 0:
		fmt.Fprintf(&b, " Jain's index %.3f", r.Fair)
	default:
		cell("%.0f", r.Rate)
		cell("%.1f", r.Own)
		cell("%.1f", r.Server)
		cell("%.0f", r.RSS)
		cell("%.0f", r.ServerRSS)
		cell("%.0f", r.Bytes)
		cell("%.2f", r.BullMQ)
		cell("%.2f", r.Asynq)
		cell("%.2f", r.Limit)
		cell("%.2f", r.Without)
	}
	if r.Problem != "" {
		fmt.Fprintf(&b, "  PROBLEM: %s", r.Problem)
	}
	return strings.TrimRight(b.String(), " ")
}

// compare fills a round's ratios: to those who do the same.
func compare(round []*result, m measurement, r *result) {
	rate := func(name string) float64 {
		for _, other := range round {
			if other.Name == name && r.Rate > 0 && other != r {
				return other.Rate
			}
		}
		return 0
	}
	over := func(to *float64, name string) {
		if other := rate(name); other > 0 {
			*to = r.Rate / other
		}
	}
	over(&r.BullMQ, "bullmq: "+m.same)
	over(&r.Asynq, "asynq: "+m.same)
	over(&r.Limit, "limit: script a job, "+m.same)
	over(&r.Without, m.without)
}

// summary is the medians of one measurement over its rounds; the latency is that of all jobs
// of all rounds together.
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
		Own: of(func(r *result) float64 { return r.Own }), Server: of(func(r *result) float64 { return r.Server }),
		RSS: of(func(r *result) float64 { return r.RSS }), ServerRSS: of(func(r *result) float64 { return r.ServerRSS }),
		Bytes: of(func(r *result) float64 { return r.Bytes }), Fair: of(func(r *result) float64 { return r.Fair }),
		BullMQ: of(func(r *result) float64 { return r.BullMQ }), Asynq: of(func(r *result) float64 { return r.Asynq }),
		Limit: of(func(r *result) float64 { return r.Limit }), Without: of(func(r *result) float64 { return r.Without }),
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
