// Package servers measures the analytics system on Redis, PostgreSQL and ClickHouse: the
// real binary, fed from a stream that producers wrote, all on this machine.
//
// scripts/services installs and starts the servers, in a folder of their own. A row has events a
// second, CPU per event of each process, the product's memory, and the ratio to the slowest of the
// raw limits measured in the same round: reading and acknowledging the stream and nothing else,
// upserting persons and nothing else, inserting and nothing else.
package servers

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "servers", About: "analytics on Redis, PostgreSQL and ClickHouse, fed from a stream", Run: run}

// options are the flags.
type options struct {
	*rounds.Flags
	events, backlog int
	bin             string
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("servers", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&o.events, "events", 400_000, "events of a scenario")
		f.IntVar(&o.backlog, "backlog", 0, "entries that wait in the memory scenario, which is made in the first round; 0: left out")
		f.StringVar(&o.bin, "bin", "", "binary to measure; empty: built now")
	}); err != nil {
		return err
	}
	tmp, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	if o.bin, err = process.Build(ctx, o.bin, tmp); err != nil {
		return err
	}
	t := rounds.Table[result, *result]{Flags: o.Flags, Compare: compare, Round: func(ctx context.Context, round int, tell func(*result)) error {
		return measure(ctx, o, filepath.Join(tmp, fmt.Sprint(round)), round, tell)
	}}
	return t.Measure(ctx)
}

// result is one row.
type result struct {
	rounds.Common
	Rate       float64 `json:"per_second" better:"more"`
	Product    float64 `json:"cpu_us" better:"less"` // CPU µs an event
	Redis      float64 `json:"cpu_us_redis" better:"less"`
	Postgres   float64 `json:"cpu_us_postgres" better:"less"`
	ClickHouse float64 `json:"cpu_us_clickhouse" better:"less"`
	RSS        float64 `json:"rss_mib,omitempty" better:"less"`
	Limit      float64 `json:"of_limit,omitempty" better:"more"` // of the slowest raw limit
}

var head = figures.Head(38, "", "events/s", "own µs", "redis µs", "pg µs", "ch µs", "RSS MiB", "of limit")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(38, r.Name)
	row.Cell("%.0f", r.Rate)
	for _, v := range []float64{r.Product, r.Redis, r.Postgres, r.ClickHouse} {
		row.Cell("%.1f", v)
	}
	row.Cell("%.0f", r.RSS)
	row.Cell("%.2f", r.Limit)
	return row.End(r.Problem)
}

// raw begins the names of limits.
const raw = "raw: "

func compare(round []*result, r *result) {
	if strings.HasPrefix(r.Name, raw) || r.Rate == 0 {
		return
	}
	slowest := 0.0
	for _, other := range round {
		if strings.HasPrefix(other.Name, raw) && (slowest == 0 || other.Rate < slowest) {
			slowest = other.Rate
		}
	}
	if slowest > 0 {
		r.Limit = r.Rate / slowest
	}
}

// measure makes a round on servers of its own.
func measure(ctx context.Context, o options, tmp string, round int, tell func(*result)) error {
	events := o.events
	s, err := startServers(ctx, tmp)
	if err != nil {
		return err
	}
	defer s.Stop()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr("redis")}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer client.Close()
	row := func(name string, r *result, p *instance) {
		if r.Name = name; p != nil {
			r.RSS = process.RSS(p.PID())
		}
		tell(r)
	}
	g := load.New(1, time.Now().Add(-time.Hour).UTC())
	if err := fill(ctx, client, g, "raw", events); err != nil {
		return err
	}
	drain, err := s.timed(nil, events, func() error { return rawDrain(ctx, client, "raw", events) })
	if err != nil {
		return err
	}
	row(raw+"XREADGROUP + XACK + XDEL", drain, nil)
	upsert, err := s.timed(nil, events, func() error { return rawUpsert(ctx, s.postgres, events) })
	if err != nil {
		return err
	}
	row(raw+"unnest upsert of persons", upsert, nil)
	insert, err := s.timed(nil, events, func() error { return rawInsert(ctx, s.clickhouse, load.New(2, time.Now().UTC()), events) })
	if err != nil {
		return err
	}
	row(raw+"insert of events, 2,000 a batch", insert, nil)

	if err := fill(ctx, client, g, "events:incoming", events); err != nil {
		return err
	}
	p, err := s.start(ctx, o.bin, filepath.Join(tmp, "data"))
	if err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- p.Profile(o.ProfileOf("stream"), 8) }()
	whole, err := s.timed(p, events, func() error { return p.drained(ctx, client, "events:incoming") })
	if err := cmp.Or(err, <-profiled); err != nil {
		return err
	}
	row(fmt.Sprintf("stream → persons, warehouse (%dk)", events/1000), whole, p)
	steady, err := s.timed(p, events, func() error { // every person is known by now
		return cmp.Or(fill(ctx, client, g, "events:incoming", events), p.drained(ctx, client, "events:incoming"))
	})
	if err != nil {
		return err
	}
	row("the same, while it is being filled", steady, p)
	if err := p.Stop(); err != nil {
		return err
	}
	if o.backlog == 0 || round > 0 {
		return nil
	}
	if err := fill(ctx, client, g, "events:incoming", o.backlog); err != nil {
		return err
	}
	if p, err = s.start(ctx, o.bin, filepath.Join(tmp, "data")); err != nil {
		return err
	}
	defer p.Stop()
	select {
	case <-time.After(40 * time.Second):
	case <-ctx.Done():
	}
	tell(&result{Common: rounds.Common{Name: fmt.Sprintf("%d waiting, most RSS in 40 s", o.backlog)}, RSS: process.MostRSS(p.PID())})
	return ctx.Err()
}
