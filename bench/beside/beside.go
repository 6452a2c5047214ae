// Package beside measures how requests are answered beside work: the real binary of delivery (with
// one slow and one dead partner), CRM and analytics, in one file and on servers, under 50 connections
// that each send one event after the other.
//
// Each is loaded in turns, and a turn goes through these phases:
//
//	alone             its pipelines are paused: nothing but requests
//	work alone        they go on, until all has come to its end
//	beside a backlog  requests, while they go on with what another phase has brought
//	meanwhile         requests, and the work on what they bring
//	with queries      the same, and readers of pages beside (analytics)
//
// Columns: requests a second, how long they took, and their rate over that of the first phase; events
// that came to their end a second (of delivery: at each partner that is well, by their ids; else by the
// books), and that over the work alone; and the share of the cores that product and servers used beyond
// what requests cost them in the first phase. Every event that was accepted has to come to its end.
package beside

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// options are the flags.
type options struct {
	*rounds.Flags
	connections, turns int
	phase              time.Duration
	bin                string
}

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "beside", About: "how requests are answered beside work: delivery with a slow and a dead partner, CRM, analytics with queries", Run: run, Part: playPartners}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("beside", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&o.connections, "connections", 50, "requests at once")
		f.IntVar(&o.turns, "turns", 5, "how often each phase is measured in a round")
		f.DurationVar(&o.phase, "phase", time.Second, "how long a phase is")
		f.StringVar(&o.bin, "bin", "", "binary to measure; empty: built now")
	}); err != nil {
		return err
	}
	if o.connections < 1 || o.turns < 1 || o.phase < 100*time.Millisecond {
		return fmt.Errorf("-connections is %d, -turns %d, -phase %v: want at least 1, 1 and 100ms", o.connections, o.turns, o.phase)
	}
	dir, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	if o.bin, err = process.Build(ctx, o.bin, dir); err != nil {
		return err
	}
	t := rounds.Table[result, *result]{Flags: o.Flags, Compare: compare, Round: func(ctx context.Context, round int, tell func(*result)) error {
		for i, s := range systems() {
			if !o.Wants(s.name) {
				continue
			}
			all, err := s.measure(ctx, &o, filepath.Join(dir, fmt.Sprint(round, "-", i)))
			for _, r := range all {
				tell(r)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		return nil
	}}
	return t.Measure(ctx)
}

// result is one phase of one system.
type result struct {
	rounds.Common
	Of      string  `json:"of"`
	Rate    float64 `json:"per_second" better:"more"`
	P50     float64 `json:"p50_ms" better:"less"`
	P99     float64 `json:"p99_ms" better:"less"`
	OfAlone float64 `json:"of_alone,omitempty" better:"more"` // its rate over that of the first phase
	Work    float64 `json:"work_per_second,omitempty" better:"more"`
	OfWork  float64 `json:"of_work,omitempty" better:"more"` // over the work alone
	Cores   float64 `json:"cores,omitempty"`                 // that product and servers used
	OfCores float64 `json:"work_of_cores,omitempty"`         // the share of the machine's that was not used for requests, by what one costs alone
	Pages   float64 `json:"pages_per_second,omitempty" better:"more"`
	PageP50 float64 `json:"page_p50_ms,omitempty" better:"less"`
}

var head = figures.Head(48, "", "req/s", "p50 ms", "p99 ms", "of alone", "work/s", "of work", "of cores", "pages/s", "page p50")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(48, r.Name)
	row.Cell("%.0f", r.Rate)
	row.Cell("%.2f", r.P50)
	row.Cell("%.2f", r.P99)
	row.Cell("%.2f", r.OfAlone)
	row.Cell("%.0f", r.Work)
	row.Cell("%.2f", r.OfWork)
	row.Cell("%.2f", r.OfCores)
	row.Cell("%.0f", r.Pages)
	row.Cell("%.2f", r.PageP50)
	return row.End(r.Problem)
}

// compare fills the ratios to the phases of the same system.
func compare(round []*result, r *result) {
	for _, b := range round {
		if b.Of != r.Of {
			continue
		}
		if b.Name == b.Of+": "+alone && r.Rate > 0 {
			r.OfAlone = r.Rate / b.Rate
			r.OfCores = (r.Cores - r.Rate*b.Cores/b.Rate) / float64(runtime.NumCPU())
		}
		if b.Name == b.Of+": "+work && b.Work > 0 {
			r.OfWork = r.Work / b.Work
		}
	}
}
