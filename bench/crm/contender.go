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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/process"
)

// contender is a program that plays parts.
type contender struct {
	product bool
	on      []string // servers
	log     bool     // it has a sync log
	command func(ctx context.Context, args ...string) *exec.Cmd
	more    []string
}

// product is the product on these servers; none: embedded.
func product(on ...string) contender {
	return contender{product: true, on: on, log: true, command: ourselves("tidemill")}
}

// limitOf is the limit on these servers.
func limitOf(on ...string) contender {
	return contender{on: on, log: true, command: ourselves("limit")}
}

func ourselves(who string) func(context.Context, ...string) *exec.Cmd {
	return func(ctx context.Context, args ...string) *exec.Cmd {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		return exec.CommandContext(ctx, self, append([]string{who}, args...)...)
	}
}

// bullmq is installed in the folder of the run, and has its events in a file.
func (b *bench) bullmq(ctx context.Context) (contender, error) {
	file, folder := filepath.Join(b.folder, "events.jsonl"), filepath.Join(b.folder, "bullmq")
	if err := errors.Join(writeEvents(file, b.jobs), os.CopyFS(folder, os.DirFS("bench/peers/bullmq"))); err != nil {
		return contender{}, err
	}
	fmt.Fprintln(os.Stderr, "installing bullmq")
	// Not npm ci: the parts of a dependency for other systems may be missing in the lock.
	npm := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		return contender{}, fmt.Errorf("install bullmq: %w\n%s", err, out)
	}
	return contender{on: []string{"redis"}, more: []string{"-events", file}, command: func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "node", append([]string{filepath.Join(folder, "queue.mjs")}, args...)...)
	}}, nil
}

// spent is what every process has used at one moment.
type spent struct {
	at                   time.Time
	own, redis, postgres time.Duration
}

func (b *bench) look(p *process.Program) spent {
	return spent{at: time.Now(), own: process.CPU(p.PID()), redis: b.services.CPU("redis"), postgres: b.services.CPU("postgres")}
}

// play makes a contender play a part, and checks the result: every event was handled once and
// is completed in the sync log, and the queue holds what it should.
func (b *bench) play(ctx context.Context, row string, c contender, what string, more ...string) func(*result) error {
	return func(r *result) (err error) {
		database, err := b.empty(ctx)
		if err != nil {
			return err
		}
		folder, err := os.MkdirTemp(b.folder, "part")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		args := append([]string{what, "-jobs", strconv.Itoa(b.jobs)}, c.more...)
		if slices.Contains(c.on, "redis") {
			args = append(args, "-redis", b.services.Addr("redis"))
		}
		if slices.Contains(c.on, "postgres") {
			args = append(args, "-postgres", database)
		}
		if c.log {
			args = append(args, "-folder", folder)
		}
		if b.profiles != "" && c.product {
			args = append(args, "-profile", b.profiles+"-"+strings.Join(strings.FieldsFunc(row, func(r rune) bool { return strings.ContainsRune(" :,+", r) }), "-")+".prof")
		}
		from, to, told, err := b.converse(c.command(ctx, append(args, more...)...), r)
		if err != nil {
			return err
		}
		return b.judge(c, r, what, from, to, told)
	}
}

// converse runs a contender, and reads the figures when it begins and when it ends.
func (b *bench) converse(cmd *exec.Cmd, r *result) (from, to spent, told report, err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return from, to, told, err
	}
	defer out.Close()
	cmd.Stdout = in
	on, err := cmd.StdinPipe()
	if err != nil {
		return from, to, told, err
	}
	p, err := process.Start(cmd)
	_ = in.Close() // it has its own
	if err != nil {
		return from, to, told, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return from, to, told, err
		}
		switch line = strings.TrimSpace(line); line {
		case "begin":
			from = b.look(p)
			_, err = io.WriteString(on, "\n")
			from.at = time.Now()
		case "end":
			to = b.look(p)
			r.RSS = math.Round(process.MostRSS(p.PID()))
			_, err = io.WriteString(on, "\n")
		default:
			err = json.Unmarshal([]byte(line), &told)
		}
		if err != nil {
			return from, to, told, fmt.Errorf("it said %q: %w", line, err)
		}
	}
	<-p.Ended()
	if from.at.IsZero() || to.at.IsZero() {
		err = errors.New("it ended before it was done")
	}
	return from, to, told, err
}

// judge fills a row.
func (b *bench) judge(c contender, r *result, what string, from, to spent, told report) error {
	held, completed := 0, b.jobs
	if what == "add" {
		held, completed = b.jobs, 0
	}
	switch {
	case told.Failed != "":
		return errors.New(told.Failed)
	case told.Done != b.jobs || told.Twice != 0 || told.Held != int64(held):
		return fmt.Errorf("%d events of %d were done, %d of them more than once, and %d are left instead of %d", told.Done, b.jobs, told.Twice, told.Held, held)
	case c.log && told.Completed != completed:
		return fmt.Errorf("the sync log says of %d events that they are completed, instead of %d", told.Completed, completed)
	}
	took := to.at.Sub(from.at)
	per := func(d time.Duration) float64 { return math.Round(d.Seconds()*1e8/float64(b.jobs)) / 100 }
	r.Jobs, r.Seconds, r.Rate = b.jobs, took.Round(time.Millisecond).Seconds(), math.Round(float64(b.jobs)/took.Seconds())
	r.Own = per(to.own - from.own)
	if slices.Contains(c.on, "redis") {
		r.Redis = per(to.redis - from.redis)
	}
	if slices.Contains(c.on, "postgres") {
		r.Postgres = per(to.postgres - from.postgres)
	}
	return nil
}

// empty empties Redis, makes a new database, and returns its URL.
func (b *bench) empty(ctx context.Context) (database string, err error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{b.services.Addr("redis")}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.Do(ctx, client.B().Flushall().Sync().Build()).Error(); err != nil {
		return "", err
	}
	url := func(name string) string {
		return "postgres://postgres@" + b.services.Addr("postgres") + "/" + name + "?sslmode=disable"
	}
	db, err := pgx.Connect(ctx, url("postgres"))
	if err != nil {
		return "", err
	}
	defer db.Close(ctx)
	for _, statement := range []string{"DROP DATABASE IF EXISTS bench_crm WITH (FORCE)", "CREATE DATABASE bench_crm", "CHECKPOINT"} {
		if _, err := db.Exec(ctx, statement); err != nil {
			return "", err
		}
	}
	return url("bench_crm"), nil
}
