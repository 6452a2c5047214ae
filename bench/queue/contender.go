package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// contender is a queue: a program that plays parts with it.
type contender struct {
	name    string
	command func(ctx context.Context, args ...string) (*exec.Cmd, error)
	on      string   // the server that keeps its jobs; empty: a file of its own
	more    []string // flags of its own
}

// play makes a contender play a part, and checks the result: every job was handled once, and
// the queue holds what it should.
func (b *bench) play(row string, c contender, what string, jobs int, more ...string) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) (err error) {
		before, err := b.empty(ctx)
		if err != nil {
			return err
		}
		folder, err := os.MkdirTemp(b.dir, "queue")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		args := append([]string{what, "-jobs", strconv.Itoa(jobs), "-rate", fmt.Sprint(b.rate), "-seconds", fmt.Sprint(b.seconds), "-folder", folder}, c.more...)
		if c.on == "redis" {
			args = append(args, "-redis", b.services.Addr("redis"))
		}
		if strings.HasPrefix(c.name, "tidemill") {
			args = append(args, "-profile", b.flags.ProfileOf(row))
		}
		cmd, err := c.command(ctx, append(args, more...)...)
		if err != nil {
			return err
		}
		looks, told, err := process.Converse[report](cmd, b.services)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		return b.judge(ctx, c, r, what, jobs, looks[0], looks[1], told, before)
	}
}

// judge fills a row.
func (b *bench) judge(ctx context.Context, c contender, r *result, what string, jobs int, from, to process.Look, told report, before int64) error {
	if what == "latency" {
		jobs = int(b.rate * b.seconds)
	}
	held := int64(0)
	switch what {
	case "add", "single":
		held = int64(jobs)
	case "fair":
		jobs += (tenants - 1) * few
	}
	switch {
	case told.Failed != "":
		return errors.New(told.Failed)
	case told.Done != jobs || told.Twice != 0 || told.Held != held:
		return fmt.Errorf("%d jobs of %d were done, %d of them more than once, and %d are left instead of %d", told.Done, jobs, told.Twice, told.Held, held)
	}
	took := to.At.Sub(from.At)
	r.Jobs, r.Seconds, r.Own, r.RSS = jobs, took.Round(time.Millisecond).Seconds(), process.Micros(to.Own-from.Own, jobs), to.RSS
	if c.on != "" {
		r.Server = process.Micros(to.Servers[c.on]-from.Servers[c.on], jobs)
	}
	for _, us := range told.Late {
		r.Late = append(r.Late, time.Duration(us)*time.Microsecond)
	}
	r.Fair = told.Fair
	if r.Latency = figures.QuantilesOf(r.Late); r.Latency == nil {
		r.Rate = math.Round(float64(jobs) / took.Seconds())
	}
	if held > 0 {
		size := told.Size
		if c.on == "redis" {
			used, rss, err := b.memory(ctx)
			if err != nil {
				return err
			}
			size, r.ServerRSS = used-before, float64(rss>>20)
		}
		r.Bytes = math.Round(float64(size) / float64(jobs))
	}
	return nil
}

// shipped is the product's queue, on Redis or in a file.
func shipped(name, on string, more ...string) contender {
	return contender{name: name, on: on, more: more, command: ourselves("tidemill")}
}

// raw is a limit.
func raw(how string) contender {
	return contender{name: how, on: "redis", command: ourselves("limit", how)}
}

func ourselves(first ...string) func(context.Context, ...string) (*exec.Cmd, error) {
	return func(ctx context.Context, args ...string) (*exec.Cmd, error) {
		return rounds.Self(ctx, "queue", append(first, args...)...)
	}
}

// program is a peer that was built.
func program(name, on, bin string, more ...string) contender {
	return contender{name: name, on: on, more: more, command: func(ctx context.Context, args ...string) (*exec.Cmd, error) {
		return exec.CommandContext(ctx, bin, args...), nil
	}}
}

// peers are built, or installed, in the folder of the run.
func (b *bench) peers(ctx context.Context) (asynq, river, bullmq contender, err error) {
	events := filepath.Join(b.dir, "events.jsonl")
	if err = writeEvents(events, max(b.jobs, int(b.rate*b.seconds))); err != nil {
		return
	}
	build := func(name string) (bin string) {
		if err == nil {
			fmt.Fprintln(os.Stderr, "building", name)
			bin, err = process.BuildModule(ctx, "bench/peers/"+name, ".", filepath.Join(b.dir, name))
		}
		return bin
	}
	asynq = program("asynq", "redis", build("asynq"), "-events", events)
	river = program("river", "postgres", build("river"), "-events", events, "-postgres", "postgres://postgres@"+b.services.Addr("postgres")+"/test?sslmode=disable")
	if err != nil {
		return
	}
	node, err := process.BullMQ(ctx, filepath.Join(b.dir, "bullmq"))
	bullmq = contender{name: "bullmq", on: "redis", more: []string{"-events", events}, command: func(ctx context.Context, args ...string) (*exec.Cmd, error) { return node(ctx, args...), nil }}
	return
}
