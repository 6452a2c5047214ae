// Package lists measures pages: how long a page of 50 takes among a million jobs, dead letters or
// entries of a ledger, at the beginning, in the middle and at the end, on and back, with a filter
// and without, on SQLite, Redis and PostgreSQL; and among stored events, by each filter, on SQLite.
//
// A row is what is listed and where, and the page; its columns are the median, the 99th percentile and
// the longest of 50 readings, in ms. Every page is checked: it has 50 items, and they follow the place
// that it was asked for.
package lists

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/bench/stores"
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

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "lists", About: "pages of 50 among a million jobs, dead letters and entries of a ledger, on SQLite, Redis and PostgreSQL", Run: run}

func run(ctx context.Context, args []string) (err error) {
	n := 0
	o, err := rounds.Parse("lists", 1, args, func(f *flag.FlagSet) { f.IntVar(&n, "n", 1_000_000, "items of a list") })
	if err != nil {
		return err
	}
	if n < 4*size {
		return fmt.Errorf("-n is %d: want at least %d", n, 4*size)
	}
	folder, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	servers, err := stores.Servers(ctx, folder)
	if err != nil {
		return err
	}
	defer servers.Stop()
	var in places
	defer func() { err = errors.Join(err, in.close()) }()
	all, err := in.lists(ctx, folder, servers)
	if err != nil {
		return err
	}
	t := rounds.Table[result, *result]{Flags: o, Title: fmt.Sprintf("pages of %d among %d", size, n), Round: func(ctx context.Context, round int, tell func(*result)) error {
		for _, l := range all {
			if !o.Wants(l.name) {
				continue
			}
			if began := time.Now(); round == 0 {
				if err := l.fill(ctx, n); err != nil {
					return fmt.Errorf("fill %s: %w", l.name, err)
				}
				log.Printf("%s: filled in %v", l.name, time.Since(began).Round(time.Second))
			}
			if err := l.measure(ctx, n, tell); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
		return nil
	}}
	return t.Measure(ctx)
}

// result is a row: readings of one page.
type result struct {
	rounds.Common
	P50 float64 `json:"p50_ms" better:"less"`
	P99 float64 `json:"p99_ms" better:"less"`
	Max float64 `json:"max_ms"`
}

func read(name string, took []time.Duration) *result {
	q := figures.QuantilesOf(took)
	return &result{rounds.Common{Name: name}, q.P50, q.P99, q.Max}
}

var head = figures.Head(64, "ms", "median", "99%", "longest")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(64, r.Name)
	for _, v := range []float64{r.P50, r.P99, r.Max} {
		row.Cell("%.2f", v)
	}
	return row.End(r.Problem)
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

func (l *list) measure(ctx context.Context, n int, tell func(*result)) error {
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
			name := l.name + ": " + p.name
			if some {
				name += ", filtered"
			}
			tell(read(name, took))
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
