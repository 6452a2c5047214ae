// Command river is River in bench/queue: river add|single|process|latency, with the flags of
// every contender. It prints "begin" and "end" around the measurement, and then its report.
// Except for FetchCooldown its settings are its defaults: it keeps jobs that are done.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type report struct {
	Done  int     `json:"done"`
	Twice int     `json:"twice"`
	Held  int     `json:"held"`
	Late  []int64 `json:"late_us,omitempty"`
	Size  int64   `json:"file_bytes"`
}

// job is an event and its number.
type job struct {
	N     int             `json:"n"`
	Event json.RawMessage `json:"event"`
}

func (job) Kind() string { return "event" }

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, what string, args []string) error {
	f := flag.NewFlagSet("river", flag.ExitOnError)
	jobs := f.Int("jobs", 100_000, "")
	workers := f.Int("workers", 100, "")
	rate := f.Float64("rate", 1000, "")
	seconds := f.Float64("seconds", 4, "")
	cooldown := f.Duration("cooldown", 0, "FetchCooldown; 0 is what it ships with, 100ms")
	postgres := f.String("postgres", "", "")
	events := f.String("events", "", "")
	_ = f.String("folder", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if what == "latency" {
		*jobs = int(*rate * *seconds)
	}
	all, err := read(*events, *jobs)
	if err != nil {
		return err
	}
	pool, err := open(ctx, *postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := &seen{times: make([]atomic.Int32, *jobs), sent: make([]time.Time, *jobs), late: make([]int64, *jobs), all: make(chan struct{})}
	known := river.NewWorkers()
	river.AddWorker(known, s)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: *workers}}, Workers: known,
		FetchCooldown: *cooldown, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	bulk := func() error { return bulks(ctx, client, all) }
	add := func(i int) error {
		_, err := client.Insert(ctx, all[i], nil)
		return err
	}
	r := report{Done: *jobs}
	switch what {
	case "add":
		say("begin")
		err = bulk()
		say("end")
	case "single":
		say("begin")
		err = singles(*jobs, add)
		say("end")
	case "process":
		if err = bulk(); err != nil {
			return err
		}
		say("begin")
		if err = client.Start(ctx); err != nil {
			return err
		}
		<-s.all
		say("end")
		err = client.Stop(ctx)
	case "latency":
		if err = client.Start(ctx); err != nil {
			return err
		}
		say("begin")
		err = s.offer(*rate, add)
		<-s.all
		say("end")
		err = errors.Join(err, client.Stop(ctx))
		r.Late = s.late[*jobs/10:] // connections are made, code and caches get warm
	default:
		return fmt.Errorf("there is no part %q", what)
	}
	if err != nil {
		return err
	}
	if what == "process" || what == "latency" {
		r.Done, r.Twice = int(s.once.Load()), int(s.twice.Load())
	}
	err = pool.QueryRow(ctx, `select count(*) filter (where state <> 'completed'), pg_total_relation_size('river_job') from river_job`).Scan(&r.Held, &r.Size)
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(r))
}

// open makes an empty queue.
func open(ctx context.Context, url string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	c.MaxConns = 60
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		_, err = pool.Exec(ctx, "truncate river_job")
	}
	return pool, err
}

// say reports the phase, and waits for the answer to go on.
func say(what string) {
	fmt.Println(what)
	_, _ = os.Stdin.Read(make([]byte, 1)) // no bench listens: go on
}

// read reads events, one a line.
func read(name string, n int) (all []job, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan() && len(all) < n; {
		all = append(all, job{len(all), bytes.Clone(lines.Bytes())})
	}
	if len(all) < n {
		return nil, fmt.Errorf("%s has %d events of %d", name, len(all), n)
	}
	return all, nil
}

// bulks adds jobs in calls of 1,000 by COPY, its fastest way.
func bulks(ctx context.Context, c *river.Client[pgx.Tx], all []job) error {
	for i := 0; i < len(all); i += 1000 {
		var part []river.InsertManyParams
		for _, j := range all[i:min(i+1000, len(all))] {
			part = append(part, river.InsertManyParams{Args: j})
		}
		if _, err := c.InsertManyFast(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// singles adds jobs one a call, 50 in flight.
func singles(n int, add func(int) error) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, 50)
	for c := range errs {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && errs[c] == nil; i = next.Add(1) - 1 {
				errs[c] = add(int(i))
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// seen is the worker.
type seen struct {
	river.WorkerDefaults[job]
	times       []atomic.Int32
	once, twice atomic.Int64
	sent        []time.Time
	late        []int64
	all         chan struct{}
}

// Work counts a job by its number.
func (s *seen) Work(_ context.Context, j *river.Job[job]) error {
	i := j.Args.N
	if !s.sent[i].IsZero() {
		s.late[i] = time.Since(s.sent[i]).Microseconds()
	}
	if s.times[i].Add(1) > 1 {
		s.twice.Add(1)
	} else if s.once.Add(1) == int64(len(s.times)) {
		close(s.all)
	}
	return nil
}

// offer is an open load: each job is added when it is due.
func (s *seen) offer(rate float64, add func(int) error) error {
	var wait sync.WaitGroup
	errs := make([]error, len(s.sent))
	start := time.Now()
	for i := range s.sent {
		time.Sleep(time.Until(start.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
		s.sent[i] = time.Now()
		wait.Go(func() { errs[i] = add(i) })
	}
	wait.Wait()
	return errors.Join(errs...)
}
