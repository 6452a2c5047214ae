// Command ingest measures the ingest API of delivery against its limits: one event a request,
// with its own idempotency key, from 50 connections. Each server is a process of its own,
// started for a round, with a real Redis of this run. They are loaded in turns, a second each,
// every other time backwards: virtual machines change their speed within seconds.
//
//	go run ./bench/ingest            # three rounds, three minutes
//	go run ./bench/ingest -run 'Redis$' -profile cpu.out
//
// Run it from the root of the repository, on Linux. Rows:
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
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/tidemill/tidemill/bench/process"
)

// options are the flags.
type options struct {
	rounds, connections, seconds int
	warm                         float64
	purchases                    bool
	run                          *regexp.Regexp
	profile, dir                 string
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

func main() {
	log.SetFlags(0)
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		if err := serveUntilStopped(os.Args[2], os.Args[3:]); err != nil {
			log.Fatal(os.Args[2], ": ", err)
		}
		return
	}
	var o options
	run := flag.String("run", "", "measure only what this regular expression matches")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made")
	flag.IntVar(&o.connections, "connections", 50, "requests at once")
	flag.IntVar(&o.seconds, "seconds", 10, "how long one is measured in a round, a second at a time")
	flag.Float64Var(&o.warm, "warm", 1, "how long one is loaded before that, in seconds")
	flag.BoolVar(&o.purchases, "purchases", false, "send purchases, each with an order, in place of page views")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of each of our servers here, its name appended")
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

// result is one measurement.
type result struct {
	name             string
	requests         int
	rate             float64
	p50, p99         time.Duration
	own, redis, load float64 // CPU µs a request: of the server, of Redis, of the load generator
	rss              float64 // MiB
	ofLimit          float64 // its rate over that of the first row of the round
	ofLimitCPU       float64 // the first row's CPU of server and Redis over its own
	problem          error
}

const head = "                                              req/s   p50 ms   p99 ms   own µs redis µs  load µs  RSS MiB of limit by CPU"

func (r *result) line() string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	s := fmt.Sprintf("%-42s %8.0f %8.2f %8.2f %8.1f %8.1f %8.1f %8.0f %8.2f %6.2f", r.name, r.rate, ms(r.p50), ms(r.p99), r.own, r.redis, r.load, r.rss, r.ofLimit, r.ofLimitCPU)
	if r.problem != nil {
		s += "  PROBLEM: " + r.problem.Error()
	}
	return s
}

func measureAll(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.dir, "bench-ingest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	redis, err := process.StartServices(ctx, filepath.Join(dir, "redis"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, "redis")
	if err != nil {
		return err
	}
	defer redis.Stop()
	all := map[string][]*result{}
	bad := 0
	fmt.Println(head)
	for range o.rounds {
		round, err := measure(ctx, o, redis, dir)
		if err != nil {
			return err
		}
		for _, r := range round {
			if first := round[0]; first.name == rows[0].name {
				r.ofLimit, r.ofLimitCPU = r.rate/first.rate, (first.own+first.redis)/(r.own+r.redis)
			}
			if r.problem != nil {
				bad++
			}
			all[r.name] = append(all[r.name], r)
			fmt.Println(r.line())
		}
	}
	fmt.Printf("\nmedians of %d rounds; ratios are to the same round\n%s\n", o.rounds, head)
	for _, row := range rows {
		if rs := all[row.name]; rs != nil {
			fmt.Println(median(rs).line())
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d measurements had a problem", bad)
	}
	return nil
}

// median is the middle of each number.
func median(rs []*result) *result {
	m := &result{name: rs[0].name}
	for _, f := range []struct {
		to *float64
		of func(*result) float64
	}{
		{&m.rate, func(r *result) float64 { return r.rate }}, {&m.own, func(r *result) float64 { return r.own }}, {&m.redis, func(r *result) float64 { return r.redis }},
		{&m.load, func(r *result) float64 { return r.load }}, {&m.rss, func(r *result) float64 { return r.rss }},
		{&m.ofLimit, func(r *result) float64 { return r.ofLimit }}, {&m.ofLimitCPU, func(r *result) float64 { return r.ofLimitCPU }},
	} {
		*f.to = middle(rs, f.of)
	}
	m.p50 = middle(rs, func(r *result) time.Duration { return r.p50 })
	m.p99 = middle(rs, func(r *result) time.Duration { return r.p99 })
	for _, r := range rs {
		m.problem = cmp.Or(m.problem, r.problem)
	}
	return m
}

func middle[T cmp.Ordered](rs []*result, of func(*result) T) T {
	all := make([]T, len(rs))
	for i, r := range rs {
		all[i] = of(r)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
