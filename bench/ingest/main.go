// Command ingest measures the door of delivery beside what bounds it: one event a request,
// with an idempotency key of its own, from 50 connections. Each server is a process of its
// own, started for its measurement, beside a real Redis of this run.
//
//	go run ./bench/ingest            # three rounds, a minute or two
//	go run ./bench/ingest -run 'Redis$' -profile cpu.out
//
// It is run from the root of the repository, on Linux. Rows, measured in turns, every other
// round backwards:
//
//	limit: net/http and one script   a check that the body is JSON, then one Lua script: SET NX
//	                                 of the key and XADD. It forgets the answer, knows no
//	                                 bodies, ids or orders, and its stream no limits
//	limit: net/http, nothing kept    an answer at once
//	tidemill on Redis, keys alone    the door as it is, over redisledger and redisqueue: events
//	                                 without ids of their own, protected by their keys alone, as
//	                                 those of the limit are
//	tidemill on Redis                the same with eventIds, by which they are known under other
//	                                 keys too
//	tidemill on SQLite               the same over one file
//
// Columns: CPU in µs a request of the server (own), of Redis and of what loads it; the rate
// over that of the first row of the same round, and CPU of server and Redis together of the
// first row over its own: on a busy machine the steadier ratio. Every measurement checks
// that as many events are kept as were answered 202.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemill/tidemill/bench/process"
)

// options are the flags.
type options struct {
	rounds, connections int
	seconds, warm       float64
	purchases           bool
	run                 *regexp.Regexp
	profile, dir        string
}

// rows are what is measured, in turns. The first is what ratios refer to.
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
	flag.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made, in turns")
	flag.IntVar(&o.connections, "connections", 50, "requests at once")
	flag.Float64Var(&o.seconds, "seconds", 5, "how long one is measured")
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
	own, redis, load float64 // CPU µs a request: of the server, of Redis, of what loads it
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
	chosen := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !o.run.MatchString(r.name) })
	for n := range o.rounds {
		round := make([]*result, len(chosen))
		for i := range chosen {
			if n%2 == 1 { // backwards: a machine that slows down by and by slows all alike
				i = len(chosen) - 1 - i
			}
			row := chosen[i]
			r := &result{name: row.name}
			r.problem = measure(ctx, o, redis, dir, row, r)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if r.problem != nil {
				bad++
			}
			all[row.name] = append(all[row.name], r)
			round[i] = r
		}
		for _, r := range round {
			if first := round[0]; first.name == rows[0].name {
				r.ofLimit, r.ofLimitCPU = r.rate/first.rate, (first.own+first.redis)/(r.own+r.redis)
			}
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

// measure starts a server, loads it, and checks that it has kept what it said.
func measure(ctx context.Context, o options, redis *process.Services, dir string, row row, r *result) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp(dir, row.server)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "serve", row.server, redis.Addr("redis"), data)
	p, err := process.Listening(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	l, err := newLoad(strings.TrimPrefix(p.URL, "http://"), o, row.ids)
	if err != nil {
		return err
	}
	defer l.close()
	warm, err := l.run(time.Duration(o.warm * float64(time.Second)))
	if err != nil {
		return err
	}
	var profiled chan error
	if o.profile != "" {
		profiled = make(chan error, 1)
		go func() { profiled <- p.Profile(o.profile+"."+row.server, max(1, int(o.seconds))) }()
	}
	own, far, load := process.CPU(p.PID()), redis.CPU("redis"), process.CPU(os.Getpid())
	start := time.Now()
	took, err := l.run(time.Duration(o.seconds * float64(time.Second)))
	seconds := time.Since(start).Seconds()
	if err != nil {
		return err
	}
	n := len(took)
	us := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	r.requests, r.rate = n, float64(n)/seconds
	r.own, r.redis, r.load = us(process.CPU(p.PID())-own), us(redis.CPU("redis")-far), us(process.CPU(os.Getpid())-load)
	slices.Sort(took)
	r.p50, r.p99 = took[n/2], took[n*99/100]
	r.rss = process.MostRSS(p.PID())
	if profiled != nil {
		if err := <-profiled; err != nil {
			return err
		}
	}
	kept, err := p.Get("/kept")
	if err != nil {
		return err
	}
	if want := fmt.Sprint(n + len(warm)); string(kept) != want && row.server != "nothing" {
		return fmt.Errorf("%s events are kept of %s that were accepted", kept, want)
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
