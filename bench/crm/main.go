// Command crm measures the CRM system against its limits and against BullMQ: embedded in one
// file, and on Redis and PostgreSQL, each contender a process of its own on real servers, all
// on this machine. Handlers do nothing, limits are off, and every event is begun and ended in
// the durable sync log.
//
//	go run ./bench/crm             # all of it, some minutes
//	go run ./bench/crm -run 'process' -rounds 5
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
	"syscall"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
)

// options are the flags.
type options struct {
	rounds, jobs  int
	batch, ahead  int
	run           *regexp.Regexp
	peers, json   bool
	dir, profiles string
}

// bench is one run.
type bench struct {
	options
	services *process.Services
	folder   string
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
		return playPart(ctx, args[0], args[1:])
	}
	var o options
	f := flag.NewFlagSet("crm", flag.ExitOnError)
	only := f.String("run", "", "measure only what this regular expression matches")
	f.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made, in turns")
	f.IntVar(&o.jobs, "jobs", 50_000, "events of a measurement")
	f.IntVar(&o.batch, "batch", 0, "events that a worker of the product takes up together; 0: as it ships")
	f.IntVar(&o.ahead, "ahead", 0, "events that the product holds at the least; 0: as it ships")
	f.BoolVar(&o.peers, "peers", true, "measure BullMQ, too: it is installed first")
	f.BoolVar(&o.json, "json", false, "print a JSON line for each measurement, and one for its medians")
	f.StringVar(&o.dir, "dir", "", "folder for the servers' data; empty: a temporary one")
	f.StringVar(&o.profiles, "profile", "", "write CPU profiles of the product to files whose names begin so")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.jobs < 1 {
		return fmt.Errorf("%d rounds of %d events: want at least one of each", o.rounds, o.jobs)
	}
	var err error
	if o.run, err = regexp.Compile(*only); err != nil {
		return err
	}
	return measureAll(ctx, o)
}

// playPart is a contender's process.
func playPart(ctx context.Context, who string, args []string) error {
	p := &part{What: args[0], Talk: process.NewTalk()}
	f := flag.NewFlagSet(who, flag.ExitOnError)
	p.flags(f)
	if err := f.Parse(args[1:]); err != nil {
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
	do     func(*result) error
}

// What is measured.
const (
	add     = "take in"
	by10    = "process, 10 workers"
	by100   = "process, 100 workers"
	batched = ", 100 a call"
	fresh   = ", new members"
)

func measureAll(ctx context.Context, o options) error {
	folder, err := os.MkdirTemp(o.dir, "bench-crm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil { // the servers' own users must reach it
		return err
	}
	b := &bench{options: o, folder: folder}
	if b.services, err = process.StartServices(ctx, filepath.Join(folder, "servers"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, "redis", "postgres"); err != nil {
		return err
	}
	defer b.services.Stop()
	all, err := b.measurements(ctx)
	if err != nil {
		return err
	}
	if !o.json {
		fmt.Printf("%d events of %d bytes, of %d members in %d clubs\n%s\n", o.jobs, len(newEvents().next().raw), members, clubs, head)
	}
	results, bad := map[string][]*result{}, 0
	for round := range o.rounds {
		var now []*result
		for _, m := range all {
			r := &result{Round: round + 1, Name: m.name}
			figures.Note(&r.Problem, m.do(r))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if r.Problem != "" {
				bad++
			}
			compare(now, m, r)
			now = append(now, r)
			results[m.name] = append(results[m.name], r)
			o.print(r)
		}
	}
	if !o.json {
		fmt.Printf("\nmedians of %d rounds; ratios are to the same round\n%s\n", o.rounds, head)
	}
	for _, m := range all {
		o.print(summary(m.name, results[m.name]))
	}
	if bad > 0 {
		return fmt.Errorf("%d measurements had a problem", bad)
	}
	return nil
}

func (o *options) print(r *result) {
	if o.json {
		figures.JSON(os.Stdout, r)
		return
	}
	fmt.Println(r.line())
}

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
		m.do = b.play(ctx, m.name, c, part, more...)
		if m.bullmq = []string{"bullmq: " + by10, "bullmq: " + by100}; part == "add" {
			m.bullmq = []string{"bullmq: " + add}
		}
		if b.run.MatchString(m.name) {
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
