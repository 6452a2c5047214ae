// Command queue measures the queues against their limits and against peers: each contender a
// process of its own, on a real Redis (or a file, or PostgreSQL), all on this machine.
//
//	go run ./bench/queue             # all of it, some minutes
//	go run ./bench/queue -run 'process' -rounds 5
//
// Run it from the root of the repository. bench/README.md says what each row means.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
)

// bench is one run.
type bench struct {
	services *process.Services
	redis    rueidis.Client
	dir      string
	jobs     int
	rate     float64 // jobs a second in the latency measurement
	seconds  float64 // duration of the latency measurement
	profile  string
}

// options are the flags.
type options struct {
	rounds      int
	run         *regexp.Regexp
	peers, json bool
	million     int
	dir         string
	bench
}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // so that servers are ended
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 1 && (args[0] == "tidemill" || args[0] == "limit") {
		return playPart(ctx, args)
	}
	var o options
	f := flag.NewFlagSet("queue", flag.ExitOnError)
	only := f.String("run", "", "measure only what this regular expression matches")
	f.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made, in turns")
	f.IntVar(&o.jobs, "jobs", 100_000, "jobs of a measurement")
	f.IntVar(&o.million, "memory", 1_000_000, "jobs that memory is measured with")
	f.Float64Var(&o.rate, "rate", 1000, "jobs a second for latency")
	f.Float64Var(&o.seconds, "seconds", 4, "how long latency is measured in a round")
	f.BoolVar(&o.peers, "peers", true, "measure BullMQ, Asynq and River, too: they are built or installed first")
	f.BoolVar(&o.json, "json", false, "print a JSON line for each measurement, and one for its medians")
	f.StringVar(&o.dir, "dir", "", "folder for the servers' data; empty: a temporary one")
	f.StringVar(&o.profile, "profile", "", "write CPU profiles of the product to files whose names begin so")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if o.run, err = regexp.Compile(*only); err != nil {
		return err
	}
	return measureAll(ctx, o)
}

// playPart is a contender's process.
func playPart(ctx context.Context, args []string) error {
	p := &part{Talk: process.NewTalk()}
	how := args[0]
	args = args[1:]
	if how == "limit" {
		how, args = args[0], args[1:]
	}
	p.What = args[0]
	f := flag.NewFlagSet(how, flag.ExitOnError)
	p.flags(f)
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if how == "tidemill" {
		return playProduct(ctx, p)
	}
	return playLimit(ctx, p, how)
}

// measurement is one row.
type measurement struct {
	name    string
	same    string // what is measured, in the same words for all contenders
	without string // limits: the row without
	once    bool   // in the first round only
	do      func(*result) error
}

func measureAll(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.dir, "bench-queue")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the servers' own users must reach it
		return err
	}
	b := &o.bench
	b.dir = dir
	defer b.stop()
	if err := b.startServers(ctx, filepath.Join(dir, "servers"), o.peers); err != nil {
		return err
	}
	all, err := b.measurements(ctx, o)
	if err != nil {
		return err
	}
	results := map[string][]*result{}
	bad := 0
	if !o.json {
		fmt.Printf("%d jobs of %d bytes\n%s\n%s\n", b.jobs, len(newEvents().next("").Payload), rateHead, latencyHead)
	}
	for round := range o.rounds {
		var now []*result
		for _, m := range all {
			if m.once && round > 0 {
				continue
			}
			r := &result{Round: round + 1, Name: m.name}
			figures.Note(&r.Problem, m.do(r))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if r.Problem != "" {
				bad++
			}
			now = append(now, r)
			compare(now, m, r)
			results[m.name] = append(results[m.name], r)
			if o.json {
				figures.JSON(os.Stdout, r)
			} else {
				fmt.Println(r.line())
			}
		}
	}
	if !o.json {
		fmt.Printf("\nmedians of %d rounds; ratios are to the same round\n%s\n", o.rounds, rateHead)
	}
	latency := false
	for _, m := range all {
		s := summary(m.name, results[m.name])
		if o.json {
			figures.JSON(os.Stdout, s)
			continue
		}
		if s.Latency != nil && !latency {
			latency = true
			fmt.Println(latencyHead)
		}
		fmt.Println(s.line())
	}
	if bad > 0 {
		return fmt.Errorf("%d measurements had a problem", bad)
	}
	return nil
}

// What is measured.
const (
	bulk    = "bulk add"
	single  = "single add, 50 in flight"
	by10    = "process, 10 workers"
	by100   = "process, 100 workers"
	limited = ", limits of tenants"
	delay   = "latency"
)

// measurements are the rows in order: comparable ones are next to each other.
func (b *bench) measurements(ctx context.Context, o options) (chosen []measurement, err error) {
	var asynq, river, bullmq contender
	if o.peers {
		if asynq, river, bullmq, err = b.peers(ctx); err != nil {
			return nil, fmt.Errorf("%w\n-peers=false leaves the peers out", err)
		}
	}
	add := func(name, what string, c contender, part string, jobs int, more ...string) {
		m := measurement{name: name + what, same: what, do: b.play(ctx, c, part, jobs, more...)}
		if o.run.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	onRedis, inFile := shipped("tidemill redis", "redis"), shipped("tidemill sqlite", "")
	stream, script, lots := raw(byStream), raw(byScript), raw(byBulk)
	for _, row := range []struct {
		what, part string
		more       []string
	}{
		{bulk, "add", nil}, {single, "single", nil}, {by10, "process", []string{"-workers", "10"}}, {by100, "process", []string{"-workers", "100"}},
	} {
		add("limit: stream, ", row.what, stream, row.part, b.jobs, row.more...)
		if row.part != "single" {
			add("limit: bulk scripts, ", row.what, lots, row.part, b.jobs, row.more...)
		}
		add("limit: script a job, ", row.what, script, row.part, b.jobs, row.more...)
		if o.peers {
			add("bullmq: ", row.what, bullmq, row.part, b.jobs, row.more...)
			if row.part != "add" { // it can only add one by one
				add("asynq: ", row.what, asynq, row.part, b.jobs, row.more...)
			}
		}
		add("tidemill redis: ", row.what, onRedis, row.part, b.jobs, row.more...)
		if row.part == "process" {
			add("tidemill redis: ", row.what+limited, onRedis, row.part, b.jobs, append(row.more, "-limits")...)
		}
		add("tidemill sqlite: ", row.what, inFile, row.part, b.jobs, row.more...)
		if o.peers {
			// A tenth: River adds one by one at some thousands a second, and handles as many.
			add("river: ", row.what, river, row.part, b.jobs/10, append(row.more, "-cooldown", "1ms")...)
		}
	}
	add("limit: stream, ", delay, stream, "latency", 0)
	add("limit: script a job, ", delay, script, "latency", 0)
	if o.peers {
		add("bullmq: ", delay, bullmq, "latency", 0)
	}
	add("tidemill redis: ", delay, onRedis, "latency", 0)
	add("tidemill sqlite: ", delay, inFile, "latency", 0)
	if o.peers {
		add("asynq: ", delay, asynq, "latency", 0)
		add("river: ", delay, river, "latency", 0)
	}
	add("tidemill redis: ", "fairness", onRedis, "fair", b.jobs, "-workers", "10")
	add("tidemill sqlite: ", "fairness", inFile, "fair", b.jobs, "-workers", "10")
	from := len(chosen)
	add("tidemill redis: ", "memory, "+strconv.Itoa(o.million)+" jobs", onRedis, "add", o.million)
	add("tidemill sqlite: ", "memory, "+strconv.Itoa(o.million)+" jobs", inFile, "add", o.million)
	for i := range chosen {
		m := &chosen[i]
		m.once = i >= from
		m.same = strings.TrimSuffix(m.same, limited)
		if plain := strings.TrimSuffix(m.name, limited); plain != m.name {
			m.without = plain // a row with limits is compared with the same without
		}
	}
	return chosen, nil
}
