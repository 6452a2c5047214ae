package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/requests"
	"github.com/tidemill/tidemill/bench/rounds"
)

// contestant is one server of a round, and its measurements so far.
type contestant struct {
	row       row
	program   *process.Program
	redis     *process.Services
	load      *requests.Load
	warm      int // requests before the measurements
	took      []time.Duration
	passed    time.Duration
	own, far  time.Duration // CPU of the server and of Redis
	loading   time.Duration // CPU of the load generator
	profiling chan error
}

// measure makes one round: a result of each wanted row, in the order of the table.
func measure(ctx context.Context, o options, redis *process.Services, dir string) (round []*result, err error) {
	var all []*contestant
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.stop())
		}
	}()
	for _, row := range rows {
		if !o.Wants(row.name) {
			continue
		}
		c, err := start(ctx, o, row, redis, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.name, err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		c.profiling = make(chan error, 1)
		go func() { c.profiling <- c.program.Profile(o.ProfileOf(c.row.name), max(1, o.seconds*len(all))) }()
	}
	turns := slices.Clone(all)
	for range o.seconds {
		for _, c := range turns {
			if err := c.turn(time.Second); err != nil {
				return nil, fmt.Errorf("%s: %w", c.row.name, err)
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		slices.Reverse(turns)
	}
	for _, c := range all {
		round = append(round, c.result())
	}
	return round, nil
}

// start starts a server and warms it up.
func start(ctx context.Context, o options, row row, redis *process.Services, dir string) (*contestant, error) {
	data, err := os.MkdirTemp(dir, row.server)
	if err != nil {
		return nil, err
	}
	cmd, err := rounds.Self(ctx, "ingest", row.server, redis.Addr("redis"), data)
	if err != nil {
		return nil, err
	}
	c := &contestant{row: row, redis: redis}
	if c.program, err = process.Listening(cmd); err != nil {
		return nil, err
	}
	if c.load, err = newLoad(strings.TrimPrefix(c.program.URL, "http://"), o, row.ids); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	warm, err := c.load.Run(time.Duration(o.warm * float64(time.Second)))
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.warm = len(warm)
	return c, nil
}

func (c *contestant) stop() error {
	if c.load != nil {
		c.load.Close()
	}
	return c.program.Stop()
}

// turn loads the server for a time.
func (c *contestant) turn(d time.Duration) error {
	own, far, loading := process.CPU(c.program.PID()), c.redis.CPU("redis"), process.CPU(os.Getpid())
	start := time.Now()
	took, err := c.load.Run(d)
	c.passed += time.Since(start)
	c.own += process.CPU(c.program.PID()) - own
	c.far += c.redis.CPU("redis") - far
	c.loading += process.CPU(os.Getpid()) - loading
	c.took = append(c.took, took...)
	return err
}

// result sums up, and checks that the server has kept what it acknowledged.
func (c *contestant) result() *result {
	n := len(c.took)
	q := figures.QuantilesOf(c.took)
	r := &result{Common: rounds.Common{Name: c.row.name}, Requests: n, Rate: float64(n) / c.passed.Seconds(), P50: q.P50, P99: q.P99,
		Own: process.Micros(c.own, n), Redis: process.Micros(c.far, n), Load: process.Micros(c.loading, n), RSS: process.MostRSS(c.program.PID())}
	figures.Note(&r.Problem, <-c.profiling)
	kept, err := c.program.Get("/kept")
	switch want := fmt.Sprint(n + c.warm); {
	case err != nil:
		figures.Note(&r.Problem, err)
	case string(kept) != want && c.row.server != "nothing":
		figures.Note(&r.Problem, fmt.Errorf("%s events are kept of %s that were accepted", kept, want))
	}
	return r
}
