// Package crm measures the CRM system against its limits and against BullMQ: embedded in one
// file, and on Redis and PostgreSQL, each contender a process of its own on real servers, all
// on this machine. Handlers do nothing, limits are off, and every event is begun and ended in
// the durable sync log.
package crm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// options are the flags.
type options struct {
	*rounds.Flags
	jobs, batch, ahead int
	peers              bool
}

// bench is one run.
type bench struct {
	options
	services *process.Services
	folder   string
}

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "crm", About: "CRM embedded, and on Redis and PostgreSQL, beside BullMQ", Run: run, Part: playPart}

func run(ctx context.Context, args []string) (err error) {
	b := &bench{}
	if b.Flags, err = rounds.Parse("crm", 3, args, func(f *flag.FlagSet) {
		f.IntVar(&b.jobs, "jobs", 50_000, "events of a measurement")
		f.IntVar(&b.batch, "batch", 0, "events that a worker of the product takes up together; 0: as it ships")
		f.IntVar(&b.ahead, "ahead", 0, "events that the product holds at the least; 0: as it ships")
		f.BoolVar(&b.peers, "peers", true, "measure BullMQ, too: it is installed first")
	}); err != nil {
		return err
	}
	if b.jobs < 1 {
		return fmt.Errorf("-jobs is %d: want at least 1", b.jobs)
	}
	folder, remove, err := b.Folder()
	if err != nil {
		return err
	}
	defer remove()
	b.folder = folder
	if b.services, err = process.StartServices(ctx, filepath.Join(folder, "servers"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, "redis", "postgres"); err != nil {
		return err
	}
	defer b.services.Stop()
	all, err := b.measurements(ctx)
	if err != nil {
		return err
	}
	var rows []rounds.Row[result]
	for _, m := range all {
		row := rounds.One(m.name, m.do)
		row.Ratios = func(round []*result, r *result) { compare(round, m, r) }
		rows = append(rows, row)
	}
	t := rounds.Table[result, *result]{Flags: b.Flags, Title: fmt.Sprintf("%d events of %d bytes, of %d members in %d clubs", b.jobs, len(newEvents().next().raw), members, clubs),
		Round: rounds.InTurns[result, *result](rows)}
	return t.Measure(ctx)
}

// playPart is a contender's process.
func playPart(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("want who plays, and which part")
	}
	who := args[0]
	p := &part{What: args[1], Talk: process.NewTalk()}
	f := flag.NewFlagSet(who, flag.ContinueOnError)
	p.flags(f)
	if err := f.Parse(args[2:]); err != nil {
		return err
	}
	if p.What != "add" && p.What != "process" {
		return fmt.Errorf("there is no part %q", p.What)
	}
	if who == "tidemill" {
		return playProduct(ctx, p)
	}
	return playLimit(ctx, p)
}

// measurement is one row.
type measurement struct {
	name   string
	limit  string   // the row of its limit; empty: not a row of the product
	bullmq []string // the rows of BullMQ that it is compared with: with the fastest of them
	do     func(context.Context, *result) error
}

// What is measured.
const (
	add     = "take in"
	by10    = "process, 10 workers"
	by100   = "process, 100 workers"
	batched = ", 100 a call"
	fresh   = ", new members"
)

// measurements are the rows in order: those that others are compared with come first.
func (b *bench) measurements(ctx context.Context) (chosen []measurement, err error) {
	var bullmq contender
	if b.peers {
		if bullmq, err = b.bullmq(ctx); err != nil {
			return nil, fmt.Errorf("%w\n-peers=false leaves it out", err)
		}
	}
	put := func(name, what string, c contender, part, limit string, more ...string) {
		m := measurement{name: name + ": " + what, limit: limit}
		m.do = b.play(m.name, c, part, more...)
		if m.bullmq = []string{"bullmq: " + by10, "bullmq: " + by100}; part == "add" {
			m.bullmq = []string{"bullmq: " + add}
		}
		if b.Wants(m.name) {
			chosen = append(chosen, m)
		}
	}
	const file, servers = "limit, one file", "limit, redis + postgres"
	mine := []string{"-batch", strconv.Itoa(b.batch), "-ahead", strconv.Itoa(b.ahead)}
	put(file, add, limitOf(), "add", "")
	put(servers, add, limitOf("redis", "postgres"), "add", "")
	if b.peers {
		put("bullmq", add, bullmq, "add", "")
	}
	put("tidemill sqlite", add, product(), "add", file+": "+add)
	put("tidemill redis + postgres", add, product("redis", "postgres"), "add", servers+": "+add)
	put(file, "process", limitOf(), "process", "")
	put(servers, "process", limitOf("redis", "postgres"), "process", "")
	if b.peers {
		put("bullmq", by10, bullmq, "process", "", "-workers", "10")
		put("bullmq", by100, bullmq, "process", "", "-workers", "100")
	}
	for _, row := range []struct {
		name, limit string
		c           contender
	}{{"tidemill sqlite", file, product()}, {"tidemill redis + postgres", servers, product("redis", "postgres")}} {
		put(row.name, by10, row.c, "process", row.limit+": process", mine...)
		put(row.name, by10+batched, row.c, "process", row.limit+": process", append(mine, "-many", "100")...)
		put(row.name, by10+fresh, row.c, "process", row.limit+": process", append(mine, "-fresh")...)
	}
	return chosen, nil
}
