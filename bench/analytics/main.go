// Command analytics measures the analytics system as shipped: the real binary on the embedded
// default, loaded over HTTP from another process on the same machine.
//
//	go run ./bench/analytics -events 400000
//
// It prints a line per scenario: events a second, the server's CPU per event, its memory,
// and the ratio to raw limits measured in the same run, since machines differ and drift.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
)

const key = "bench-key"

func main() {
	events := flag.Int("events", 400_000, "events of a scenario")
	backlog := flag.Int("backlog", 1_000_000, "events that wait in the backlog scenario; 0: left out")
	conns := flag.Int("connections", 16, "connections that send")
	bin := flag.String("bin", "", "binary to measure; empty: built now")
	dir := flag.String("dir", "", "folder for data; empty: a temporary one")
	profile := flag.String("profile", "", "write a CPU profile of the server here, of the whole way")
	flag.Parse()
	log.SetFlags(0)
	if err := bench(context.Background(), *events, *backlog, *conns, *bin, *dir, *profile); err != nil {
		log.Fatal(err)
	}
}

func bench(ctx context.Context, events, backlog, conns int, bin, dir, profile string) error {
	tmp, err := os.MkdirTemp(dir, "bench-analytics")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if bin, err = process.Build(ctx, bin, tmp); err != nil {
		return err
	}
	g := load.New(1, time.Now().Add(-time.Hour).UTC())
	bodies := make([][]byte, 0, max(events, backlog)/perBody)
	for range cap(bodies) {
		bodies = append(bodies, body(g, key))
	}
	size := len(bodies[0]) / perBody
	parse := rawParse(bodies[:min(len(bodies), 200)], time.Second)
	insert, err := rawInsert(filepath.Join(tmp, "raw"), 200_000)
	if err != nil {
		return err
	}
	fmt.Printf("events of %d bytes, %d a request, %d connections\n\n", size, perBody, conns)
	fmt.Printf("%-34s %10s %12s %10s %10s\n", "", "events/s", "CPU µs/event", "RSS MiB", "of insert")
	row := func(name string, perSecond, cpu, rss float64) {
		fmt.Printf("%-34s %10.0f %12.1f %10.0f %10.2f\n", name, perSecond, cpu, rss, perSecond/insert)
	}
	row("raw: JSON checked, one core", parse, 1e6/parse, 0)
	row("raw: SQLite insert, 1,000 a txn", insert, 0, 0)

	use := bodies[:events/perBody]
	s, err := start(ctx, bin, filepath.Join(tmp, "whole"))
	if err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- s.Profile(profile, 8) }()
	m := s.measure(len(use)*perBody, func() error { return cmp.Or(s.send(use, conns), s.drained()) })
	row("HTTP → warehouse, whole way", m.perSecond, m.cpu, m.rss)
	s.Tell("tidemill_sqlite_", "tidemill_stage_seconds_sum")
	if err := cmp.Or(m.err, <-profiled, s.Stop()); err != nil {
		return err
	}

	if backlog == 0 {
		return nil
	}
	if s, err = start(ctx, bin, filepath.Join(tmp, "parts")); err != nil {
		return err
	}
	defer s.Stop()
	if err := s.steer("pause"); err != nil {
		return err
	}
	use = bodies[:backlog/perBody]
	m = s.measure(len(use)*perBody, func() error { return s.send(use, conns) })
	if m.err != nil {
		return m.err
	}
	row("HTTP → durable, pipeline paused", m.perSecond, m.cpu, m.rss)
	m = s.measure(len(use)*perBody, func() error { return cmp.Or(s.steer("resume"), s.drained()) })
	row(fmt.Sprintf("queue → warehouse, %d waiting", backlog), m.perSecond, m.cpu, m.rss)
	return m.err
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

type measured struct {
	perSecond, cpu, rss float64
	err                 error
}

// measure times do and reads what it cost the server.
func (s *server) measure(events int, do func() error) (m measured) {
	before, from := process.CPU(s.PID()), time.Now()
	m.err = do()
	m.perSecond = float64(events) / time.Since(from).Seconds()
	m.cpu = (process.CPU(s.PID()) - before).Seconds() * 1e6 / float64(events)
	m.rss = process.RSS(s.PID())
	return m
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
