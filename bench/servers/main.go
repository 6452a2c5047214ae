// Command servers measures the analytics system on Redis, PostgreSQL and ClickHouse: the
// real binary, fed from a stream that producers wrote, all on this machine.
//
//	go run ./bench/servers -events 400000 -backlog 5000000
//
// scripts/services installs and starts the servers, in a folder of their own. A line per
// scenario: events a second, CPU per event of each process, the product's memory, and the ratio
// to raw limits measured in the same run: reading and acknowledging the stream and nothing
// else, upserting persons and nothing else, inserting and nothing else.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
)

func main() {
	events := flag.Int("events", 400_000, "events of a scenario")
	backlog := flag.Int("backlog", 0, "entries that wait in the memory scenario; 0: left out")
	bin := flag.String("bin", "", "binary to measure; empty: built now")
	dir := flag.String("dir", "", "folder of the servers' data; empty: a temporary one")
	profile := flag.String("profile", "", "write a CPU profile of the product here")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // so that servers are ended
	err := bench(ctx, *events, *backlog, *bin, *dir, *profile)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func bench(ctx context.Context, events, backlog int, bin, dir, profile string) error {
	tmp, err := os.MkdirTemp(dir, "bench-servers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil { // PostgreSQL's own user must reach it
		return err
	}
	if bin, err = process.Build(ctx, bin, tmp); err != nil {
		return err
	}
	s, err := startServers(ctx, tmp)
	if err != nil {
		return err
	}
	defer s.Stop()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr("redis")}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer client.Close()

	fmt.Printf("%-36s %9s %8s %7s %7s %7s %8s\n", "", "events/s", "product", "redis", "pg", "ch", "RSS MiB")
	row := func(name string, perSecond float64, c cpu, rss float64) {
		fmt.Printf("%-36s %9.0f %8.1f %7.1f %7.1f %7.1f %8.0f\n", name, perSecond, c.product, c.redis, c.postgres, c.clickhouse, rss)
	}
	g := load.New(1, time.Now().Add(-time.Hour).UTC())
	if err := fill(ctx, client, g, "raw", events); err != nil {
		return err
	}
	drain, err := s.timed(nil, events, func() error { return rawDrain(ctx, client, "raw", events) })
	if err != nil {
		return err
	}
	row("raw: XREADGROUP + XACK + XDEL", drain.perSecond, drain.cpu, 0)
	upsert, err := s.timed(nil, events, func() error { return rawUpsert(ctx, s.postgres, events) })
	if err != nil {
		return err
	}
	row("raw: unnest upsert of persons", upsert.perSecond, upsert.cpu, 0)
	insert, err := s.timed(nil, events, func() error { return rawInsert(ctx, s.clickhouse, load.New(2, time.Now().UTC()), events) })
	if err != nil {
		return err
	}
	row("raw: insert of events, 2,000 a batch", insert.perSecond, insert.cpu, 0)

	if err := fill(ctx, client, g, "events:incoming", events); err != nil {
		return err
	}
	p, err := s.start(ctx, bin, filepath.Join(tmp, "data"))
	if err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- p.Profile(profile, 8) }()
	whole, err := s.timed(p, events, func() error { return p.drained(ctx, client, "events:incoming") })
	if err := cmp.Or(err, <-profiled); err != nil {
		return err
	}
	row(fmt.Sprintf("stream → persons, warehouse (%dk)", events/1000), whole.perSecond, whole.cpu, process.RSS(p.PID()))
	steady, err := s.timed(p, events, func() error { // every person is known by now
		return cmp.Or(fill(ctx, client, g, "events:incoming", events), p.drained(ctx, client, "events:incoming"))
	})
	if err != nil {
		return err
	}
	row("the same, while it is being filled", steady.perSecond, steady.cpu, process.RSS(p.PID()))
	p.Tell("tidemill_stage_seconds_sum", "tidemill_stage_seconds_count")
	fmt.Printf("\nof the slowest raw limit: %.2f\n", whole.perSecond/min(drain.perSecond, upsert.perSecond, insert.perSecond))
	if err := p.Stop(); err != nil {
		return err
	}
	if backlog == 0 {
		return nil
	}
	if err := fill(ctx, client, g, "events:incoming", backlog); err != nil {
		return err
	}
	if p, err = s.start(ctx, bin, filepath.Join(tmp, "data")); err != nil {
		return err
	}
	defer p.Stop()
	select {
	case <-time.After(40 * time.Second):
	case <-ctx.Done():
	}
	fmt.Printf("%d entries waiting: RSS at most %.0f MiB in the first 40 s of work on them\n", backlog, process.MostRSS(p.PID()))
	return ctx.Err()
}
