// Package sizes measures how many bytes an event takes: where it waits, and what stays of it when
// all have ended. The real binary is paused, loaded over HTTP, looked at, resumed, and looked at
// again, with each system in one file and on its servers. Bytes do not depend on what else the
// machine does.
package sizes

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "sizes", About: "bytes of an event that waits, and of one that has ended, of each system", Run: run}

// result is one row, in bytes an event.
type result struct {
	rounds.Common
	Sent       float64 `json:"sent"`
	Waiting    float64 `json:"waiting" better:"less"` // where it waits: in the file, or in Redis
	File       float64 `json:"left_file,omitempty" better:"less"`
	Redis      float64 `json:"left_redis,omitempty" better:"less"`
	Postgres   float64 `json:"left_postgres,omitempty" better:"less"`
	ClickHouse float64 `json:"left_clickhouse,omitempty" better:"less"`
}

var head = figures.Head(38, "bytes an event", "sent", "waiting", "file", "redis", "pg", "ch")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(38, r.Name)
	for _, v := range []float64{r.Sent, r.Waiting, r.File, r.Redis, r.Postgres, r.ClickHouse} {
		row.Cell("%.0f", v)
	}
	return row.End(r.Problem)
}

func run(ctx context.Context, args []string) (err error) {
	var events int
	var bin string
	o, err := rounds.Parse("sizes", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&events, "events", 100_000, "events of each row")
		f.StringVar(&bin, "bin", "", "binary to measure; empty: built now")
	})
	if err != nil {
		return err
	}
	tmp, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	if bin, err = process.Build(ctx, bin, tmp); err != nil {
		return err
	}
	s, err := startStores(ctx, filepath.Join(tmp, "servers"))
	if err != nil {
		return err
	}
	defer s.stop()
	var rows []rounds.Row[result]
	for _, sys := range load.Systems {
		for _, servers := range []string{"", sys.Servers} {
			name := sys.Name + ", " + cmp.Or(servers, "one file")
			if sys.Streams() && servers == "" || !o.Wants(name) {
				continue
			}
			rows = append(rows, rounds.One(name, func(ctx context.Context, r *result) error {
				folder := filepath.Join(tmp, fmt.Sprint("row", len(name), sys.Name, servers == ""))
				return s.measure(ctx, &measured{System: sys, events: events, bin: bin, folder: folder, onServers: servers != ""}, r)
			}))
		}
	}
	t := rounds.Table[result, *result]{Flags: o, Title: fmt.Sprintf("%d events, 20,000 persons, members or sites' users", events), Round: rounds.InTurns[result, *result](rows)}
	return t.Measure(ctx)
}
