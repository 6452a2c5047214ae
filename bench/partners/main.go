// Command partners measures what a dead partner costs the others: two instances of the real
// binary run side by side with the same partners. In one of them the last partner answers like
// the others, in the other it is dead. Both are loaded in turns, so that other load on the
// machine affects both: first while the dead partner's queue has room, then beyond its limit.
//
//	go run ./bench/partners             # in a file and on Redis, each way of being dead: ten minutes
//	go run ./bench/partners -run '^file, 503'
//
// Run it from the root of the repository, on Linux. Columns: deliveries a second at each of the
// other partners during a burst; how long a single event takes from the request to another
// partner, at 100 a second; CPU of instance and Redis in µs an event; and rate and latency over
// those of the instance whose partners are all alive. Every event has to come to every living
// partner, and to no dead one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
)

type options struct {
	turns, burst, paced, others int
	full                        string
	run                         *regexp.Regexp
	dir                         string
}

// ways of being dead.
var ways = []string{"503", "silent", "refused"}

func main() {
	log.SetFlags(0)
	var o options
	run := flag.String("run", "", "measure only what this regular expression matches: a place and a way of being dead")
	flag.IntVar(&o.turns, "turns", 8, "how often each instance is loaded below the limit, and again beyond it")
	flag.IntVar(&o.burst, "burst", 1000, "events of a burst")
	flag.IntVar(&o.paced, "paced", 100, "events sent one by one behind it, 10 ms apart")
	flag.IntVar(&o.others, "others", 4, "partners beside the dead one")
	flag.StringVar(&o.full, "full", "hold", "what becomes of events beyond the limit: hold, dead_letter or drop_oldest")
	flag.StringVar(&o.dir, "dir", "", "folder for data; empty: a temporary one")
	flag.Parse()
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = measureAll(ctx, o)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

const head = "%-34s %8s %8s %8s %8s %8s %8s %8s\n"

func measureAll(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.dir, "bench-partners")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the server's own user must reach it
		return err
	}
	bin, err := process.Build(ctx, "", dir)
	if err != nil {
		return err
	}
	fmt.Printf(head, "", "rate", "p50 ms", "p99 ms", "cpu µs", "of rate", "of p50", "of p99")
	for _, place := range []string{"file", "redis"} {
		for _, way := range ways {
			name := place + ", " + way
			if !o.run.MatchString(name) {
				continue
			}
			if err := measure(ctx, o, bin, filepath.Join(dir, place+way), place, way); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// measure makes the turns of one place and one way of being dead.
func measure(ctx context.Context, o options, bin, dir, place, way string) (err error) {
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
		fmt.Printf("%-34s %8.0f %8.2f %8.2f %8.1f\n", name+", alive", alive.rate, alive.p50, alive.p99, alive.cpu)
		fmt.Printf("%-34s %8.0f %8.2f %8.2f %8.1f %8.2f %8.2f %8.2f\n", name, dead.rate, dead.p50, dead.p99, dead.cpu, ratio(pair, func(t turned) float64 { return t.rate }),
			ratio(pair, func(t turned) float64 { return t.p50 }), ratio(pair, func(t turned) float64 { return t.p99 }))
		for _, c := range pair { // on to the next phase
			for left := limit + o.burst - c.sent; phase == "below its limit" && left > 0; left -= o.burst {
				if err := c.turn(ctx, o.burst, 0); err != nil {
					return err
				}
			}
		}
	}
	return pair[1].beyond(o.full)
}

// ratio is the median of the ratios of simultaneous turns.
func ratio(pair []*contestant, of func(turned) float64) float64 {
	var all []float64
	for i, t := range pair[1].turns {
		all = append(all, of(t)/of(pair[0].turns[i]))
	}
	return figures.Median(all)
}
