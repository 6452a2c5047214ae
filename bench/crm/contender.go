package crm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// contender is a program that plays parts.
type contender struct {
	product bool
	on      []string // servers
	log     bool     // it has a sync log
	command func(ctx context.Context, args ...string) (*exec.Cmd, error)
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

func ourselves(who string) func(context.Context, ...string) (*exec.Cmd, error) {
	return func(ctx context.Context, args ...string) (*exec.Cmd, error) {
		return rounds.Self(ctx, "crm", append([]string{who}, args...)...)
	}
}

// bullmq is installed in the folder of the run, and has its events in a file.
func (b *bench) bullmq(ctx context.Context) (contender, error) {
	file := filepath.Join(b.folder, "events.jsonl")
	if err := writeEvents(file, b.jobs); err != nil {
		return contender{}, err
	}
	node, err := process.BullMQ(ctx, filepath.Join(b.folder, "bullmq"))
	return contender{on: []string{"redis"}, more: []string{"-events", file}, command: func(ctx context.Context, args ...string) (*exec.Cmd, error) { return node(ctx, args...), nil }}, err
}

// play makes a contender play a part, and checks the result: every event was handled once and
// is completed in the sync log, and the queue holds what it should.
func (b *bench) play(row string, c contender, what string, more ...string) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) (err error) {
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
		if c.product {
			args = append(args, "-profile", b.ProfileOf(row))
		}
		cmd, err := c.command(ctx, append(args, more...)...)
		if err != nil {
			return err
		}
		looks, told, err := process.Converse[report](cmd, b.services)
		if err != nil {
			return err
		}
		return b.judge(c, r, what, looks[0], looks[1], told)
	}
}

// judge fills a row.
func (b *bench) judge(c contender, r *result, what string, from, to process.Look, told report) error {
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
	took := to.At.Sub(from.At)
	r.Jobs, r.Seconds, r.Rate = b.jobs, took.Round(time.Millisecond).Seconds(), math.Round(float64(b.jobs)/took.Seconds())
	r.Own, r.RSS = process.Micros(to.Own-from.Own, b.jobs), to.RSS
	for name, cpu := range map[string]*float64{"redis": &r.Redis, "postgres": &r.Postgres} {
		if slices.Contains(c.on, name) {
			*cpu = process.Micros(to.Servers[name]-from.Servers[name], b.jobs)
		}
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
