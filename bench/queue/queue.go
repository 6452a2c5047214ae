// Package queue measures the queues against their limits and against peers: each contender a
// process of its own, on a real Redis (or a file, or PostgreSQL), all on this machine.
package queue

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// bench is one run.
type bench struct {
	services *process.Services
	redis    rueidis.Client
	dir      string
	jobs     int
	rate     float64 // jobs a second in the latency measurement
	seconds  float64 // duration of the latency measurement
	flags    *rounds.Flags
}

// options are the flags.
type options struct {
	*rounds.Flags
	peers   bool
	million int
	bench
}

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "queue", About: "queues on Redis and SQLite, beside BullMQ, Asynq and River", Run: run, Part: playPart}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("queue", 3, args, func(f *flag.FlagSet) {
		f.IntVar(&o.jobs, "jobs", 100_000, "jobs of a measurement")
		f.IntVar(&o.million, "memory", 1_000_000, "jobs that memory is measured with")
		f.Float64Var(&o.rate, "rate", 1000, "jobs a second for latency")
		f.Float64Var(&o.seconds, "seconds", 4, "how long latency is measured in a round")
		f.BoolVar(&o.peers, "peers", true, "measure BullMQ, Asynq and River, too: they are built or installed first")
	}); err != nil {
		return err
	}
	dir, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	b := &o.bench
	b.dir, b.flags = dir, o.Flags
	defer b.stop()
	if err := b.startServers(ctx, filepath.Join(dir, "servers"), o.peers); err != nil {
		return err
	}
	all, err := b.measurements(ctx, o)
	if err != nil {
		return err
	}
	var rows []rounds.Row[result]
	for _, m := range all {
		row := rounds.One(m.name, m.do)
		row.Once, row.Ratios = m.once, func(round []*result, r *result) { compare(round, m, r) }
		rows = append(rows, row)
	}
	t := rounds.Table[result, *result]{Flags: o.Flags, Title: fmt.Sprintf("%d jobs of %d bytes", b.jobs, len(newEvents().next("").Payload)),
		Round: rounds.InTurns[result, *result](rows)}
	return t.Measure(ctx)
}

// playPart is a contender's process.
func playPart(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("want who plays, and which part")
	}
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
	do      func(context.Context, *result) error
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
		m := measurement{name: name + what, same: what, do: b.play(name+what, c, part, jobs, more...)}
		if o.Wants(m.name) {
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
