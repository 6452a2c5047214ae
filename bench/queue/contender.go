package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
)

// contender is a queue: a program that plays parts with it.
type contender struct {
	name    string
	command func(ctx context.Context, args ...string) *exec.Cmd
	on      string   // the server that keeps its jobs; empty: a file of its own
	more    []string // flags of its own
}

// spent is what every process has used at one moment.
type spent struct {
	at          time.Time
	own, server time.Duration
}

func (b *bench) look(c contender, p *process.Program) spent {
	s := spent{at: time.Now(), own: process.CPU(p.PID())}
	if c.on != "" {
		s.server = b.services.CPU(c.on)
	}
	return s
}

// play makes a contender play a part, and checks the result: every job was handled once, and
// the queue holds what it should.
func (b *bench) play(ctx context.Context, c contender, what string, jobs int, more ...string) func(*result) error {
	return func(r *result) (err error) {
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
		if b.profile != "" && strings.HasPrefix(c.name, "tidemill") {
			args = append(args, "-profile", fmt.Sprintf("%s-%s-%s.prof", b.profile, strings.ReplaceAll(c.name, " ", "-"), what))
		}
		cmd := c.command(ctx, append(args, more...)...)
		out, in, err := os.Pipe()
		if err != nil {
			return err
		}
		defer out.Close()
		cmd.Stdout = in
		on, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		p, err := process.Start(cmd)
		_ = in.Close() // it has its own
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Stop()) }()
		var from, to spent
		var told report
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			switch line = strings.TrimSpace(line); line {
			case "begin":
				from = b.look(c, p)
				_, err = io.WriteString(on, "\n")
				from.at = time.Now()
			case "end":
				to = b.look(c, p)
				r.RSS = process.MostRSS(p.PID())
				_, err = io.WriteString(on, "\n")
			default:
				err = json.Unmarshal([]byte(line), &told)
			}
			if err != nil {
				return fmt.Errorf("%s said %q: %w", c.name, line, err)
			}
		}
		<-p.Ended()
		if err := p.Stop(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if from.at.IsZero() || to.at.IsZero() {
			return fmt.Errorf("%s ended before it was done", c.name)
		}
		return b.judge(ctx, c, r, what, jobs, from, to, told, before)
	}
}

// judge fills a row.
func (b *bench) judge(ctx context.Context, c contender, r *result, what string, jobs int, from, to spent, told report, before int64) error {
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
	took := to.at.Sub(from.at)
	per := func(d time.Duration) float64 { return math.Round(d.Seconds()*1e8/float64(jobs)) / 100 }
	r.Jobs, r.Seconds, r.Own, r.Server = jobs, took.Round(time.Millisecond).Seconds(), per(to.own-from.own), per(to.server-from.server)
	for _, us := range told.Late {
		r.late = append(r.late, time.Duration(us)*time.Microsecond)
	}
	r.Fair = told.Fair
	if r.Latency = figures.QuantilesOf(r.late); r.Latency == nil {
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

func ourselves(first ...string) func(context.Context, ...string) *exec.Cmd {
	return func(ctx context.Context, args ...string) *exec.Cmd {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		return exec.CommandContext(ctx, self, append(first, args...)...)
	}
}

// program is a peer that was built.
func program(name, on, bin string, more ...string) contender {
	return contender{name: name, on: on, more: more, command: func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, bin, args...)
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
	folder := filepath.Join(b.dir, "bullmq")
	if err == nil {
		err = os.CopyFS(folder, os.DirFS("bench/peers/bullmq"))
	}
	if err != nil {
		return
	}
	fmt.Fprintln(os.Stderr, "installing bullmq")
	// Not npm ci: the parts of a dependency for other systems may be missing in the lock.
	npm := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = folder
	if out, problem := npm.CombinedOutput(); problem != nil {
		err = fmt.Errorf("install bullmq: %w\n%s", problem, out)
	}
	bullmq = contender{name: "bullmq", on: "redis", more: []string{"-events", events}, command: func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "node", append([]string{filepath.Join(folder, "queue.mjs")}, args...)...)
	}}
	return
}
