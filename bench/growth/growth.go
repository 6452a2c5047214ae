// Package growth measures what the same work costs at growing sizes: the real binary on the embedded
// default (or on Redis, PostgreSQL and ClickHouse) with up to 20 million events of a million persons,
// and the stores of queues, dead letters, ledgers, windows and the search index in this process.
//
// At each size a part of the usual work is measured on the store that has grown, and in turns on a
// fresh one beside it: what does not grow with the size has the ratio 1. Then pages are read through
// the API. In a last phase old events are removed while new ones come.
package growth

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "growth", About: "cost against size: events, queue, dead letters, ledger, windows, search, beside fresh stores", Run: run}

// options are the flags.
type options struct {
	*rounds.Flags
	n, persons, part, turns, conns int
	of, on, bin                    string
	plot, with                     string
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("growth", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&o.n, "n", 20_000_000, "events at the end; there are half as many jobs, a quarter as many entries of the ledger, a twentieth as many dead letters and documents, a two-hundredth as many windows")
		f.IntVar(&o.persons, "persons", 1_000_000, "persons at the end; 20,000 of them, or a tenth, are active at a time")
		f.IntVar(&o.part, "part", 0, "events of a turn; 0: a hundredth of -n, 2,000 at least. Of the others a fiftieth of their number, 2,000 (windows: 200) at least")
		f.IntVar(&o.turns, "turns", 2, "turns of each size, on the store that has grown and on a fresh one")
		f.IntVar(&o.conns, "connections", 16, "connections that send events")
		f.StringVar(&o.of, "of", every, "what is measured, with commas between: events, queue, deadletters, ledger, windows, search; all: those that can be there; none: only -with is plotted")
		f.StringVar(&o.on, "on", onFile, "where: sqlite; redis or postgres (events on neither); servers (events on Redis, PostgreSQL and ClickHouse)")
		f.StringVar(&o.bin, "bin", "", "binary to measure; empty: built now")
		f.StringVar(&o.plot, "plot", "", "write a plot of cost against size to this file, as SVG")
		f.StringVar(&o.with, "with", "", "files of -out of earlier runs, with commas between, that are plotted too")
	}); err != nil {
		return err
	}
	kinds, err := o.kinds()
	if err != nil {
		return err
	}
	rows, err := o.kept()
	if err != nil {
		return err
	}
	if len(kinds) > 0 {
		more, err := o.measure(ctx, kinds)
		if rows = append(rows, more...); err != nil && len(more) == 0 {
			return err
		}
		return errors.Join(err, o.draw(rows)) // a plot has the problems too
	}
	return o.draw(rows)
}

// measure measures, and returns the medians.
func (o *options) measure(ctx context.Context, kinds []kind) (medians []*result, err error) {
	tmp, remove, err := o.Folder()
	if err != nil {
		return nil, err
	}
	defer remove()
	if slices.ContainsFunc(kinds, func(k kind) bool { return k.name == ofEvents }) {
		if o.bin, err = process.Build(ctx, o.bin, tmp); err != nil {
			return nil, err
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as tidemill run does
	var names []string
	all := map[string][]*result{}
	t := rounds.Table[result, *result]{Flags: o.Flags, Title: fmt.Sprintf("up to %d events of %d persons, %d turns of each size, %s", o.n, o.persons, o.turns, o.on),
		Round: func(ctx context.Context, round int, tell func(*result)) error {
			for _, k := range kinds {
				folder := filepath.Join(tmp, fmt.Sprint(k.name, "-", round))
				if err := os.MkdirAll(folder, 0o755); err != nil {
					return err
				}
				if err := k.measure(ctx, o, folder, func(r *result) {
					r.Of = k.name
					if tell(r); all[r.Name] == nil {
						names = append(names, r.Name)
					}
					all[r.Name] = append(all[r.Name], r)
				}); err != nil {
					return err
				}
				if err := os.RemoveAll(folder); err != nil {
					return err
				}
			}
			return nil
		}}
	err = t.Measure(ctx)
	for _, name := range names {
		medians = append(medians, rounds.Median(all[name]))
	}
	return medians, err
}

// What is measured, and where it is.
const (
	every     = "all"
	nothing   = "none"
	ofEvents  = "events"
	onFile    = "sqlite"
	onServers = "servers"
)

// kinds are those that the flags choose.
func (o *options) kinds() (chosen []kind, err error) {
	if o.n < 100_000 || o.persons < 20 || o.turns < 1 {
		return nil, fmt.Errorf("-n is %d, -persons %d, -turns %d: want at least 100,000, 20 and 1", o.n, o.persons, o.turns)
	}
	if o.part == 0 {
		o.part = max(o.n/100, least)
	}
	all := append([]kind{o.events()}, o.roles()...)
	for name := range strings.SplitSeq(o.of, ",") {
		switch i := slices.IndexFunc(all, func(k kind) bool { return k.name == name }); {
		case name == nothing:
		case name == every:
			for _, k := range all {
				if slices.Contains(k.on, o.on) {
					chosen = append(chosen, k)
				}
			}
			if len(chosen) == 0 {
				return nil, fmt.Errorf("-on is %q: want sqlite, redis, postgres or servers", o.on)
			}
		case i < 0:
			return nil, fmt.Errorf("-of is %q: want all, none, or some of events, queue, deadletters, ledger, windows, search", name)
		case !slices.Contains(all[i].on, o.on):
			return nil, fmt.Errorf("%s are not on %q: want -on %s", name, o.on, strings.Join(all[i].on, ", "))
		default:
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}
