// Package analytics measures the analytics system as shipped: the real binary on the embedded
// default, loaded over HTTP from another process on the same machine. A row has events a second,
// the server's CPU per event, its memory, and the ratio to a raw limit measured in the same round.
package analytics

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

const key = "bench-key"

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "analytics", About: "analytics on the embedded default, loaded over HTTP", Run: run}

// options are the flags.
type options struct {
	*rounds.Flags
	events, backlog, conns int
	bin                    string
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("analytics", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&o.events, "events", 400_000, "events of a scenario")
		f.IntVar(&o.backlog, "backlog", 1_000_000, "events that wait in the backlog scenario; 0: left out")
		f.IntVar(&o.conns, "connections", 16, "connections that send")
		f.StringVar(&o.bin, "bin", "", "binary to measure; empty: built now")
	}); err != nil {
		return err
	}
	tmp, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	if o.bin, err = process.Build(ctx, o.bin, tmp); err != nil {
		return err
	}
	g := load.New(1, time.Now().Add(-time.Hour).UTC())
	bodies := make([][]byte, 0, max(o.events, o.backlog)/perBody)
	for range cap(bodies) {
		bodies = append(bodies, body(g, key))
	}
	size := len(bodies[0]) / perBody
	t := rounds.Table[result, *result]{Flags: o.Flags, Title: fmt.Sprintf("events of %d bytes, %d a request, %d connections", size, perBody, o.conns), Compare: compare,
		Round: func(ctx context.Context, round int, tell func(*result)) error {
			return measure(ctx, o, filepath.Join(tmp, fmt.Sprint(round)), bodies, tell)
		}}
	return t.Measure(ctx)
}

// result is one row.
type result struct {
	rounds.Common
	Rate   float64 `json:"per_second" better:"more"`
	CPU    float64 `json:"cpu_us,omitempty" better:"less"` // µs an event
	RSS    float64 `json:"rss_mib,omitempty" better:"less"`
	Insert float64 `json:"of_insert,omitempty" better:"more"` // its rate over that of a bare insert
}

var head = figures.Head(38, "", "events/s", "own µs", "RSS MiB", "of insert")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(38, r.Name)
	row.Cell("%.0f", r.Rate)
	row.Cell("%.1f", r.CPU)
	row.Cell("%.0f", r.RSS)
	row.Cell("%.2f", r.Insert)
	return row.End(r.Problem)
}

const inserted = "raw: SQLite insert, 1,000 a txn"

func compare(round []*result, r *result) {
	for _, other := range round {
		if other.Name == inserted {
			r.Insert = r.Rate / other.Rate
		}
	}
}

// measure makes a round in files of its own.
func measure(ctx context.Context, o options, tmp string, bodies [][]byte, tell func(*result)) error {
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	events, backlog, conns := o.events, o.backlog, o.conns
	parse := rawParse(bodies[:min(len(bodies), 200)], time.Second)
	insert, err := rawInsert(filepath.Join(tmp, "raw"), 200_000)
	if err != nil {
		return err
	}
	row := func(name string, r result) {
		r.Name = name
		tell(&r)
	}
	row("raw: JSON checked, one core", result{Rate: parse, CPU: 1e6 / parse})
	row(inserted, result{Rate: insert})

	use := bodies[:events/perBody]
	s, err := start(ctx, o.bin, filepath.Join(tmp, "whole"))
	if err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- s.Profile(o.ProfileOf("whole"), 8) }()
	m, err := s.measure(len(use)*perBody, func() error { return cmp.Or(s.send(use, conns), s.drained()) })
	row("HTTP → warehouse, whole way", m)
	if err := cmp.Or(err, <-profiled, s.Stop()); err != nil {
		return err
	}

	if backlog == 0 {
		return nil
	}
	if s, err = start(ctx, o.bin, filepath.Join(tmp, "parts")); err != nil {
		return err
	}
	defer s.Stop()
	if err := s.steer("pause"); err != nil {
		return err
	}
	use = bodies[:backlog/perBody]
	m, err = s.measure(len(use)*perBody, func() error { return s.send(use, conns) })
	if err != nil {
		return err
	}
	row("HTTP → durable, pipeline paused", m)
	m, err = s.measure(len(use)*perBody, func() error { return cmp.Or(s.steer("resume"), s.drained()) })
	row(fmt.Sprintf("queue → warehouse, %d waiting", backlog), m)
	return err
}

// server is the binary under load.
type server struct{ *process.Program }

func start(ctx context.Context, bin, data string) (*server, error) {
	cmd := exec.CommandContext(ctx, bin, "run", "analytics", "--no-auth", "--data", data, "--listen", "127.0.0.1:0", "--project", "bench="+key)
	cmd.Env = append(os.Environ(), "TIDEMILL_LOG_LEVEL=warn")
	p, err := process.Listening(cmd)
	if err != nil {
		return nil, err
	}
	return &server{p}, nil
}

// measure times do and reads what it cost the server.
func (s *server) measure(events int, do func() error) (r result, err error) {
	before, from := process.CPU(s.PID()), time.Now()
	err = do()
	r.Rate = float64(events) / time.Since(from).Seconds()
	r.CPU = process.Micros(process.CPU(s.PID())-before, events)
	r.RSS = process.RSS(s.PID())
	return r, err
}

// send posts every body and returns when all were answered 200.
func (s *server) send(bodies [][]byte, conns int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
	var next atomic.Int64
	var failed atomic.Value
	var g sync.WaitGroup
	for range conns {
		g.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(bodies) {
					return
				}
				if err := post(client, s.URL+"/batch/", bodies[i]); err != nil {
					failed.Store(err)
				}
			}
		})
	}
	g.Wait()
	err, _ := failed.Load().(error)
	return err
}

func post(client *http.Client, url string, body []byte) error {
	resp, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

func (s *server) steer(verb string) error {
	return post(http.DefaultClient, s.URL+"/api/v1/pipelines/analytics/"+verb, nil)
}

// drained waits until nothing is in flight, and checks the books.
func (s *server) drained() error {
	for {
		b, err := s.Get("/api/v1/audit")
		if err != nil {
			return err
		}
		var a struct {
			Balanced bool
			Systems  []struct {
				Accepted, Delivered uint64
				InFlight            int `json:"in_flight"`
			}
		}
		if err := json.Unmarshal(b, &a); err != nil {
			return err
		}
		switch {
		case a.Systems[0].InFlight > 0:
			time.Sleep(100 * time.Millisecond) // between two polls: counting costs the server, too
		case !a.Balanced || a.Systems[0].Accepted != a.Systems[0].Delivered:
			return fmt.Errorf("the books do not balance: %+v", a)
		default:
			return nil
		}
	}
}
