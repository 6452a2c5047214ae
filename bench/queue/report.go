package queue

import (
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/rounds"
)

// result is one measurement: 0 does not apply.
type result struct {
	rounds.Common
	Jobs      int     `json:"jobs,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
	Rate      float64 `json:"per_second,omitempty" better:"more"`
	Own       float64 `json:"cpu_us,omitempty" better:"less"`        // CPU µs a job: of the contender's process
	Server    float64 `json:"cpu_us_server,omitempty" better:"less"` // of its server
	RSS       float64 `json:"rss_mib,omitempty" better:"less"`
	ServerRSS float64 `json:"rss_mib_server,omitempty" better:"less"`
	Bytes     float64 `json:"bytes_a_job,omitempty" better:"less"` // of Redis' memory, or of files
	Fair      float64 `json:"fairness,omitempty" better:"more"`
	BullMQ    float64 `json:"of_bullmq,omitempty" better:"more"` // its rate over BullMQ's for the same in the same round
	Asynq     float64 `json:"of_asynq,omitempty" better:"more"`
	Limit     float64 `json:"of_limit,omitempty" better:"more"`   // of a script a job
	Without   float64 `json:"of_without,omitempty" better:"more"` // with limits: of the same without
}

// Heads of the columns of line.
var (
	rateHead    = figures.Head(40, "", "jobs/s", "own µs", "server µs", "RSS MiB", "server MiB", "bytes/job", "of bullmq", "of asynq", "of limit", "of without")
	latencyHead = figures.Head(40, "add → handler, ms", "p50", "p90", "p99", "p99.9", "max")
)

// Head is the names above the columns of Line.
func (r *result) Head() string {
	if r.Latency != nil {
		return latencyHead
	}
	return rateHead
}

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(40, r.Name)
	switch {
	case r.Latency != nil:
		row.Quantiles(r.Latency)
		row.Text("   own %.0f µs, server %.0f µs a job", r.Own, r.Server)
	case r.Fair != 0:
		row.Text(" Jain's index %.3f", r.Fair)
	default:
		row.Cell("%.0f", r.Rate)
		row.Cell("%.1f", r.Own)
		row.Cell("%.1f", r.Server)
		row.Cell("%.0f", r.RSS)
		row.Cell("%.0f", r.ServerRSS)
		row.Cell("%.0f", r.Bytes)
		row.Cell("%.2f", r.BullMQ)
		row.Cell("%.2f", r.Asynq)
		row.Cell("%.2f", r.Limit)
		row.Cell("%.2f", r.Without)
	}
	return row.End(r.Problem)
}

// compare fills a round's ratios: to comparable rows.
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
