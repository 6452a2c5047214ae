// Package ingest measures the ingest API of delivery against its limits: one event a request,
// with its own idempotency key, from 50 connections. Each server is a process of its own,
// started for a round, with a real Redis of this run. They are loaded in turns, a second each,
// every other time backwards: virtual machines change their speed within seconds.
//
// Rows:
//
//	limit: net/http and one script   a check that the body is JSON, then one Lua script: SET NX
//	                                 of the key and XADD. It forgets the answer, knows no
//	                                 bodies, ids or orders, and its stream no limits
//	limit: net/http, nothing kept    an answer at once
//	tidemill on Redis, keys alone    the real API, over redisledger and redisqueue: events
//	                                 without ids of their own, protected by their keys alone, as
//	                                 those of the limit are
//	tidemill on Redis                the same with eventIds, by which they are known under other
//	                                 keys too
//	tidemill on SQLite               the same over one file
//
// Columns: CPU in µs a request of the server (own), of Redis and of the load generator; the
// rate over that of the first row of the same round; and CPU of server and Redis together of
// the first row over its own, the steadier ratio on a busy machine. Every measurement checks
// that as many events are kept as were answered 202.
package ingest

import (
	"context"
	"flag"
	"path/filepath"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// options are the flags.
type options struct {
	*rounds.Flags
	connections, seconds int
	warm                 float64
	purchases            bool
}

// rows are measured in turns. Ratios refer to the first.
var rows = []row{
	{"limit: net/http and one script", "script", true},
	{"limit: net/http, nothing kept", "nothing", true},
	{"tidemill on Redis, keys alone", "redis", false},
	{"tidemill on Redis", "redis", true},
	{"tidemill on SQLite", "sqlite", true},
}

type row struct {
	name, server string
	ids          bool // events have ids of their own
}

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "ingest", About: "the ingest API of delivery on Redis and SQLite, beside net/http with one script", Run: run, Part: serve}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("ingest", 3, args, func(f *flag.FlagSet) {
		f.IntVar(&o.connections, "connections", 50, "requests at once")
		f.IntVar(&o.seconds, "seconds", 10, "how long one is measured in a round, a second at a time")
		f.Float64Var(&o.warm, "warm", 1, "how long one is loaded before that, in seconds")
		f.BoolVar(&o.purchases, "purchases", false, "send purchases, each with an order, in place of page views")
	}); err != nil {
		return err
	}
	dir, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	redis, err := process.StartServices(ctx, filepath.Join(dir, "redis"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, "redis")
	if err != nil {
		return err
	}
	defer redis.Stop()
	t := rounds.Table[result, *result]{Flags: o.Flags, Compare: compare, Round: func(ctx context.Context, _ int, tell func(*result)) error {
		round, err := measure(ctx, o, redis, dir)
		for _, r := range round {
			tell(r)
		}
		return err
	}}
	return t.Measure(ctx)
}

// result is one measurement.
type result struct {
	rounds.Common
	Requests   int     `json:"requests"`
	Rate       float64 `json:"per_second" better:"more"`
	P50        float64 `json:"p50_ms" better:"less"`
	P99        float64 `json:"p99_ms" better:"less"`
	Own        float64 `json:"cpu_us" better:"less"` // CPU µs a request: of the server
	Redis      float64 `json:"cpu_us_redis" better:"less"`
	Load       float64 `json:"cpu_us_load"` // of the load generator
	RSS        float64 `json:"rss_mib" better:"less"`
	OfLimit    float64 `json:"of_limit,omitempty" better:"more"`     // its rate over that of the first row of the round
	OfLimitCPU float64 `json:"cpu_of_limit,omitempty" better:"more"` // the first row's CPU of server and Redis over its own
}

var head = figures.Head(34, "", "req/s", "p50 ms", "p99 ms", "own µs", "redis µs", "load µs", "RSS MiB", "of limit", "by CPU")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(34, r.Name)
	row.Cell("%.0f", r.Rate)
	row.Cell("%.2f", r.P50)
	row.Cell("%.2f", r.P99)
	row.Cell("%.1f", r.Own)
	row.Cell("%.1f", r.Redis)
	row.Cell("%.1f", r.Load)
	row.Cell("%.0f", r.RSS)
	row.Cell("%.2f", r.OfLimit)
	row.Cell("%.2f", r.OfLimitCPU)
	return row.End(r.Problem)
}

// compare fills the ratios to the first row.
func compare(round []*result, r *result) {
	first := r
	if len(round) > 0 {
		first = round[0]
	}
	if first.Name == rows[0].name {
		r.OfLimit, r.OfLimitCPU = r.Rate/first.Rate, (first.Own+first.Redis)/(r.Own+r.Redis)
	}
}
