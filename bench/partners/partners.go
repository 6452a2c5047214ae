// Package partners measures what a dead partner costs the others: two instances of the real
// binary run side by side with the same partners. In one of them the last partner answers like
// the others, in the other it is dead. Both are loaded in turns, so that other load on the
// machine affects both: first while the dead partner's queue has room, then beyond its limit.
//
// Columns: deliveries a second at each of the
// other partners during a burst; how long a single event takes from the request to another
// partner, at 100 a second; CPU of instance and Redis in µs an event; and rate and latency over
// those of the instance whose partners are all alive. Every event has to come to every living
// partner, and to no dead one.
package partners

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

type options struct {
	*rounds.Flags
	turns, burst, paced, others int
	full                        string
}

// ways of being dead.
var ways = []string{"503", "silent", "refused"}

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "partners", About: "what a dead partner costs the others: two instances side by side, one with and one without", Run: run}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("partners", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&o.turns, "turns", 8, "how often each instance is loaded below the limit, and again beyond it")
		f.IntVar(&o.burst, "burst", 1000, "events of a burst")
		f.IntVar(&o.paced, "paced", 100, "events sent one by one behind it, 10 ms apart")
		f.IntVar(&o.others, "others", 4, "partners beside the dead one")
		f.StringVar(&o.full, "full", "hold", "what becomes of events beyond the limit: hold, dead_letter or drop_oldest")
	}); err != nil {
		return err
	}
	dir, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	bin, err := process.Build(ctx, "", dir)
	if err != nil {
		return err
	}
	t := rounds.Table[result, *result]{Flags: o.Flags, Round: func(ctx context.Context, round int, tell func(*result)) error {
		for _, place := range []string{"file", "redis"} {
			for _, way := range ways {
				name := place + ", " + way
				if !o.Wants(name) {
					continue
				}
				if err := measure(ctx, o, bin, filepath.Join(dir, fmt.Sprint(round, place, way)), place, way, tell); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		return nil
	}}
	return t.Measure(ctx)
}

// result is one row: medians of turns.
type result struct {
	rounds.Common
	Rate   float64 `json:"per_second" better:"more"`
	P50    float64 `json:"p50_ms" better:"less"`
	P99    float64 `json:"p99_ms" better:"less"`
	CPU    float64 `json:"cpu_us" better:"less"`
	OfRate float64 `json:"of_rate,omitempty" better:"more"` // over the same of the instance whose partners are all alive
	OfP50  float64 `json:"of_p50,omitempty" better:"less"`
	OfP99  float64 `json:"of_p99,omitempty" better:"less"`
	Beyond float64 `json:"beyond,omitempty"` // jobs that were beyond the dead partner's limit at the end
}

var head = figures.Head(34, "", "rate", "p50 ms", "p99 ms", "cpu µs", "of rate", "of p50", "of p99", "beyond")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(34, r.Name)
	row.Cell("%.0f", r.Rate)
	for _, v := range []float64{r.P50, r.P99} {
		row.Cell("%.2f", v)
	}
	row.Cell("%.1f", r.CPU)
	for _, v := range []float64{r.OfRate, r.OfP50, r.OfP99} {
		row.Cell("%.2f", v)
	}
	row.Cell("%.0f", r.Beyond)
	return row.End(r.Problem)
}

// measure makes the turns of one place and one way of being dead.
func measure(ctx context.Context, o options, bin, dir, place, way string, tell func(*result)) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	limit := o.turns*(o.burst+o.paced) + o.burst // all events before it are within the limit
	var pair []*contestant
	defer func() {
		for _, c := range pair {
			err = errors.Join(err, c.stop())
		}
	}()
	for _, way := range []string{"", way} {
		c, err := start(ctx, o, bin, filepath.Join(dir, "dead"+way), place, way, limit)
		if err != nil {
			return err
		}
		pair = append(pair, c)
	}
	for _, c := range pair { // one-time costs
		if err := c.turn(ctx, o.burst/2, 0); err != nil {
			return err
		}
	}
	for _, phase := range []string{"below its limit", "beyond it"} {
		for _, c := range pair {
			c.begin()
		}
		order := slices.Clone(pair)
		for range o.turns {
			for _, c := range order {
				if err := c.turn(ctx, o.burst, o.paced); err != nil {
					return err
				}
			}
			slices.Reverse(order)
		}
		alive, dead := pair[0].result(), pair[1].result()
		name := fmt.Sprintf("%s, %s, %s", place, way, phase)
		tell(&result{Common: rounds.Common{Name: name + ", alive"}, Rate: alive.rate, P50: alive.p50, P99: alive.p99, CPU: alive.cpu})
		r := &result{Common: rounds.Common{Name: name}, Rate: dead.rate, P50: dead.p50, P99: dead.p99, CPU: dead.cpu, OfRate: ratio(pair, func(t turned) float64 { return t.rate }),
			OfP50: ratio(pair, func(t turned) float64 { return t.p50 }), OfP99: ratio(pair, func(t turned) float64 { return t.p99 })}
		if phase == "beyond it" {
			r.Beyond, err = pair[1].beyond(o.full)
			figures.Note(&r.Problem, err)
		}
		tell(r)
		for _, c := range pair { // on to the next phase
			for left := limit + o.burst - c.sent; phase == "below its limit" && left > 0; left -= o.burst {
				if err := c.turn(ctx, o.burst, 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ratio is the median of the ratios of simultaneous turns.
func ratio(pair []*contestant, of func(turned) float64) float64 {
	var all []float64
	for i, t := range pair[1].turns {
		all = append(all, of(t)/of(pair[0].turns[i]))
	}
	return figures.Median(all)
}
