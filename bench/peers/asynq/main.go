// Command asynq is Asynq in bench/queue: asynq single|process|latency, with the flags of every
// contender. It prints "begin" and "end" around the measurement, and then its report. Its
// settings are its defaults.
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
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

type report struct {
	Done  int     `json:"done"`
	Twice int     `json:"twice"`
	Held  int     `json:"held"`
	Late  []int64 `json:"late_us,omitempty"`
}

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(what string, args []string) error {
	f := flag.NewFlagSet("asynq", flag.ExitOnError)
	jobs := f.Int("jobs", 100_000, "")
	workers := f.Int("workers", 100, "")
	rate := f.Float64("rate", 1000, "")
	seconds := f.Float64("seconds", 4, "")
	redis := f.String("redis", "", "")
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
	opt := asynq.RedisClientOpt{Addr: *redis}
	client := asynq.NewClient(opt)
	defer client.Close()
	add := func(i int) error {
		_, err := client.Enqueue(asynq.NewTask("event", all[i]))
		return err
	}
	r := report{Done: *jobs}
	s := &seen{times: make([]atomic.Int32, *jobs), sent: make([]time.Time, *jobs), late: make([]int64, *jobs), all: make(chan struct{})}
	server := asynq.NewServer(opt, asynq.Config{Concurrency: *workers, LogLevel: asynq.ErrorLevel})
	switch what {
	case "single":
		say("begin")
		err = singles(*jobs, add)
		say("end")
	case "process":
		if err = singles(*jobs, add); err != nil {
			return err
		}
		say("begin")
		if err = server.Start(s); err != nil {
			return err
		}
		<-s.all
		say("end")
		server.Shutdown()
	case "latency":
		if err = server.Start(s); err != nil {
			return err
		}
		say("begin")
		err = s.offer(*rate, add)
		<-s.all
		say("end")
		server.Shutdown()
		r.Late = s.late[*jobs/10:] // connections are made, code and caches get warm
	default:
		return fmt.Errorf("there is no part %q", what)
	}
	if err != nil {
		return err
	}
	if what != "single" {
		r.Done, r.Twice = int(s.once.Load()), int(s.twice.Load())
	}
	inspector := asynq.NewInspector(opt)
	defer inspector.Close()
	info, err := inspector.GetQueueInfo("default")
	if err != nil {
		return err
	}
	r.Held = info.Size
	return json.NewEncoder(os.Stdout).Encode(r)
}

// say reports the phase, and waits for the answer to go on.
func say(what string) {
	fmt.Println(what)
	_, _ = os.Stdin.Read(make([]byte, 1)) // no bench listens: go on
}

// read reads events, one a line.
func read(name string, n int) (all [][]byte, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan() && len(all) < n; {
		all = append(all, bytes.Clone(lines.Bytes()))
	}
	if len(all) < n {
		return nil, fmt.Errorf("%s has %d events of %d", name, len(all), n)
	}
	return all, nil
}

// singles adds jobs one a call, 50 in flight: Asynq has no other way.
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

// seen is the handler.
type seen struct {
	times       []atomic.Int32
	once, twice atomic.Int64
	sent        []time.Time
	late        []int64
	all         chan struct{}
}

// ProcessTask counts a job by its number.
func (s *seen) ProcessTask(_ context.Context, t *asynq.Task) error {
	p := t.Payload()
	i, err := strconv.Atoi(string(p[bytes.LastIndexByte(p, ':')+1 : len(p)-1]))
	if err != nil {
		return err
	}
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
