// Package scale measures what an event costs as a system grows beyond one machine: by the number of
// instances that share its servers, by the shards of its queues, by the nodes of a Redis Cluster, and by
// the partitions of its topics. A row is one such shape of one system.
//
// All of it runs on this machine, so that the rate says nothing of many machines. What does is the CPU
// time that an event costs instances and each server, and what is written to disks: where these do not
// grow with the shape, more machines do more.
//
// Instances are the real binary. They are paused, the events are sent (for the bridge: written to its
// stream), they go on, and the measurement ends when nothing is in flight and the books balance. Delivery
// has one partner, in a process of its own, which counts each event by its id.
package scale

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "scale", About: "what an event costs with more instances, shards, nodes and partitions", Run: run, Part: playPartner}

// result is one row. CPU is in µs an event, what is written in bytes an event.
type result struct {
	rounds.Common
	Of             string  `json:"of"`
	Rate           float64 `json:"per_second"`
	Own            float64 `json:"cpu_us" better:"less"` // of all instances
	Redis          float64 `json:"cpu_us_redis,omitempty" better:"less"`
	Kafka          float64 `json:"cpu_us_kafka,omitempty" better:"less"`
	Postgres       float64 `json:"cpu_us_postgres,omitempty" better:"less"`
	ClickHouse     float64 `json:"cpu_us_clickhouse,omitempty" better:"less"`
	Broker         float64 `json:"cpu_us_broker,omitempty" better:"less"`
	All            float64 `json:"cpu_us_all" better:"less"`
	OfOne          float64 `json:"of_one,omitempty" better:"less"` // All over that of the system's first row
	Least          float64 `json:"least_share,omitempty" better:"more"`
	RedisDisk      float64 `json:"written_redis,omitempty" better:"less"`
	KafkaDisk      float64 `json:"written_kafka,omitempty" better:"less"`
	PostgresDisk   float64 `json:"written_postgres,omitempty" better:"less"`
	ClickHouseDisk float64 `json:"written_clickhouse,omitempty" better:"less"`
	Network        float64 `json:"network,omitempty" better:"less"` // bytes over the loopback interface
}

var head = figures.Head(56, "", "events/s", "own µs", "redis", "kafka", "pg", "ch", "broker", "all µs", "of one", "least", "redis B", "kafka B", "pg B", "ch B", "net B")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(56, r.Name)
	row.Cell("%.0f", r.Rate)
	for _, v := range []float64{r.Own, r.Redis, r.Kafka, r.Postgres, r.ClickHouse, r.Broker, r.All} {
		row.Cell("%.1f", v)
	}
	row.Cell("%.2f", r.OfOne)
	row.Cell("%.2f", r.Least)
	for _, v := range []float64{r.RedisDisk, r.KafkaDisk, r.PostgresDisk, r.ClickHouseDisk, r.Network} {
		row.Cell("%.0f", v)
	}
	return row.End(r.Problem)
}

// compare fills the ratio to the first row of the same system.
func compare(round []*result, r *result) {
	for _, b := range round {
		if b.Of == r.Of && b.All > 0 {
			r.OfOne = r.All / b.All
			return
		}
	}
}

func run(ctx context.Context, args []string) (err error) {
	var events int
	var bin string
	o, err := rounds.Parse("scale", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&events, "events", 100_000, "events of each row")
		f.StringVar(&bin, "bin", "", "binary to measure; empty: built now")
	})
	if err != nil {
		return err
	}
	if events < 1 {
		return fmt.Errorf("-events is %d: want at least 1", events)
	}
	tmp, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	if bin, err = process.Build(ctx, bin, tmp); err != nil {
		return err
	}
	t := rounds.Table[result, *result]{Flags: o, Compare: compare, Title: fmt.Sprintf("%d events a row", events),
		Round: func(ctx context.Context, round int, tell func(*result)) error {
			for i, s := range shapes() {
				if !o.Wants(s.name()) {
					continue
				}
				r := &result{Of: s.of}
				r.Name = s.name()
				err := s.measure(ctx, bin, filepath.Join(tmp, fmt.Sprint(round, "-", i)), o.ProfileOf(s.name()), events, r)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				figures.Note(&r.Problem, err)
				tell(r)
			}
			return nil
		}}
	return t.Measure(ctx)
}
