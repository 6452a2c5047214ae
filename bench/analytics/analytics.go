// Package analytics measures the analytics system as shipped: the real binary on the embedded
// default, loaded over HTTP from another process on the same machine. A row has events a second,
// the server's CPU per event, its memory, and the ratio to a raw limit measured in the same round.
package analytics

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "analytics", About: "analytics on the embedded default, loaded over HTTP", Run: run}

// options are the flags.
type options struct {
	*rounds.Flags
	events, backlog, conns int
	bin                    string
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("analytics", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&o.events, "events", 400_000, "events of a scenario")
		f.IntVar(&o.backlog, "backlog", 1_000_000, "events that wait in the backlog scenario; 0: left out")
		f.IntVar(&o.conns, "connections", 16, "connections that send")
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
	g := load.New(1, time.Now().Add(-time.Hour).UTC())
	bodies := make([][]byte, 0, max(o.events, o.backlog)/PerBody)
	for range cap(bodies) {
		bodies = append(bodies, Body(g, false))
	}
	size := len(bodies[0]) / PerBody
	t := rounds.Table[result, *result]{Flags: o.Flags, Title: fmt.Sprintf("events of %d bytes, %d a request, %d connections", size, PerBody, o.conns), Compare: compare,
		Round: func(ctx context.Context, round int, tell func(*result)) error {
			return measure(ctx, o, filepath.Join(tmp, fmt.Sprint(round)), bodies, tell)
		}}
	return t.Measure(ctx)
}

// result is one row.
type result struct {
	rounds.Common
	Rate   float64 `json:"per_second" better:"more"`
	CPU    float64 `json:"cpu_us,omitempty" better:"less"` // µs an event
	RSS    float64 `json:"rss_mib,omitempty" better:"less"`
	Insert float64 `json:"of_insert,omitempty" better:"more"` // its rate over that of a bare insert
}

var head = figures.Head(38, "", "events/s", "own µs", "RSS MiB", "of insert")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(38, r.Name)
	row.Cell("%.0f", r.Rate)
	row.Cell("%.1f", r.CPU)
	row.Cell("%.0f", r.RSS)
	row.Cell("%.2f", r.Insert)
	return row.End(r.Problem)
}

const inserted = "raw: SQLite insert, 1,000 a txn"

func compare(round []*result, r *result) {
	for _, other := range round {
		if other.Name == inserted {
			r.Insert = r.Rate / other.Rate
		}
	}
}

// measure makes a round in files of its own.
func measure(ctx context.Context, o options, tmp string, bodies [][]byte, tell func(*result)) error {
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	events, backlog, conns := o.events, o.backlog, o.conns
	parse := rawParse(bodies[:min(len(bodies), 200)], time.Second)
	insert, err := rawInsert(filepath.Join(tmp, "raw"), 200_000)
	if err != nil {
		return err
	}
	row := func(name string, r result) {
		r.Name = name
		tell(&r)
	}
	row("raw: JSON checked, one core", result{Rate: parse, CPU: 1e6 / parse})
	row(inserted, result{Rate: insert})

	use := bodies[:events/PerBody]
	s, err := Start(ctx, o.bin, filepath.Join(tmp, "whole"))
	if err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- s.Profile(o.ProfileOf("whole"), 8) }()
	m, err := measured(s, len(use)*PerBody, func() error { return cmp.Or(s.Send(use, conns), s.Drained()) })
	row("HTTP → warehouse, whole way", m)
	if err := cmp.Or(err, <-profiled, s.Stop()); err != nil {
		return err
	}

	if backlog == 0 {
		return nil
	}
	if s, err = Start(ctx, o.bin, filepath.Join(tmp, "parts")); err != nil {
		return err
	}
	defer s.Stop()
	if err := s.Steer("analytics", "pause"); err != nil {
		return err
	}
	use = bodies[:backlog/PerBody]
	m, err = measured(s, len(use)*PerBody, func() error { return s.Send(use, conns) })
	if err != nil {
		return err
	}
	row("HTTP → durable, pipeline paused", m)
	m, err = measured(s, len(use)*PerBody, func() error { return cmp.Or(s.Steer("analytics", "resume"), s.Drained()) })
	row(fmt.Sprintf("queue → warehouse, %d waiting", backlog), m)
	return err
}

// measured is the work of a row, and what it cost the server.
func measured(s *Server, events int, do func() error) (r result, err error) {
	w, err := s.Measure(events, do)
	return result{Rate: w.Rate, CPU: w.CPU, RSS: process.RSS(s.PID())}, err
}
