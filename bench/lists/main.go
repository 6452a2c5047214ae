// Command lists measures pages: how long a page of 50 takes among a million jobs, dead letters or
// entries of a ledger, at the beginning, in the middle and at the end, on and back, with a filter
// and without, on SQLite, Redis and PostgreSQL.
//
//	go run ./bench/lists                       # all of it, ten minutes: nearly all is filling
//	go run ./bench/lists -n 100000 -run 'jobs'
//	go run ./bench/lists -n 2000000 -events    # stored events instead, on SQLite, by filter; without servers
//
// Run it from the root of the repository, on Linux. A row is what is listed and where; its columns
// are the median, the 99th percentile and the longest of 50 readings of each page, in ms. Every page
// is checked: it has 50 items, and they follow the place that it was asked for.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
)

// size is how many items a page has.
const size = 50

// list is one that is measured.
type list struct {
	name string
	fill func(ctx context.Context, n int) error
	// page reads up to most items that follow one, or back those before it; nil: from the end
	// where it begins. some: with a filter that every second item meets. It returns where they are.
	page func(ctx context.Context, from *position, back, some bool, most int) ([]position, error)
}

// position is where an item is in its list.
type position struct {
	a, b uint64
	key  string
}

func compare(p, q position) int {
	return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b), cmp.Compare(p.key, q.key))
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

func run(ctx context.Context, args []string) (err error) {
	f := flag.NewFlagSet("lists", flag.ExitOnError)
	only := f.String("run", "", "measure only what this regular expression matches")
	n := f.Int("n", 1_000_000, "items of a list")
	dir := f.String("dir", "", "folder for files and the servers' data; empty: a temporary one")
	stored := f.Bool("events", false, "measure pages of stored events, on SQLite, and nothing else")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *n < 4*size {
		return fmt.Errorf("-n is %d: want at least %d", *n, 4*size)
	}
	which, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(*dir, "bench-lists")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if *stored {
		return events(ctx, folder, *n)
	}
	if err := os.Chmod(folder, 0o755); err != nil { // the servers' own users must reach it
		return err
	}
	servers, err := process.StartServices(ctx, filepath.Join(folder, "servers"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, "redis", "postgres")
	if err != nil {
		return err
	}
	defer servers.Stop()
	var in databases
	defer func() { err = errors.Join(err, in.close()) }()
	lists, err := in.lists(ctx, folder, "redis://"+servers.Addr("redis"), "postgres://postgres@"+servers.Addr("postgres")+"/test?sslmode=disable")
	if err != nil {
		return err
	}
	fmt.Printf("pages of %d among %d, ms\n%-32s %-30s %8s %8s %8s\n", size, *n, "", "page", "median", "99%", "longest")
	for _, l := range lists {
		if !which.MatchString(l.name) {
			continue
		}
		began := time.Now()
		if err := l.fill(ctx, *n); err != nil {
			return fmt.Errorf("fill %s: %w", l.name, err)
		}
		log.Printf("%s: filled in %v", l.name, time.Since(began).Round(time.Second))
		if err := l.measure(ctx, *n); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

// place is where a page is read.
type place struct {
	name string
	from *position
	back bool
}

// places goes through the list once, to find them.
func (l *list) places(ctx context.Context, n int) ([]place, error) {
	var middle, late, last *position
	for seen := 0; ; {
		items, err := l.page(ctx, last, false, false, 1000)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			if seen != n {
				return nil, fmt.Errorf("the list has %d items, want %d", seen, n)
			}
			return []place{{"the first", nil, false}, {"from the middle on", middle, false}, {"before the middle", middle, true}, {"near the end", late, false}, {"the newest", nil, true}}, nil
		}
		if seen += len(items); seen <= n/2 {
			middle = &items[len(items)-1]
		}
		if seen <= n-4*size {
			late = &items[len(items)-1]
		}
		last = &items[len(items)-1]
	}
}

func (l *list) measure(ctx context.Context, n int) error {
	places, err := l.places(ctx, n)
	if err != nil {
		return err
	}
	for _, p := range places {
		for _, some := range []bool{false, true} {
			var took []time.Duration
			for range 50 {
				began := time.Now()
				items, err := l.page(ctx, p.from, p.back, some, size)
				took = append(took, time.Since(began))
				if err != nil {
					return err
				}
				if err := p.check(items); err != nil {
					return err
				}
			}
			q, name := figures.QuantilesOf(took), p.name
			if some {
				name += ", filtered"
			}
			fmt.Printf("%-32s %-30s %8.2f %8.2f %8.2f\n", l.name, name, q.P50, q.P99, q.Max)
		}
	}
	return nil
}

// check holds that a page is whole, and follows its place in order.
func (p place) check(items []position) error {
	if len(items) != size {
		return fmt.Errorf("page %s has %d items, want %d", p.name, len(items), size)
	}
	before := p.from
	for i := range items {
		if before != nil && (compare(*before, items[i]) < 0) == p.back {
			return fmt.Errorf("page %s: item %d is not behind the one before it", p.name, i)
		}
		before = &items[i]
	}
	return nil
}
