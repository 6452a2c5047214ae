// Package console measures the pages of the console among ten million jobs in 100 queues of 1,000
// owners, 100,000 dead letters and 20 partners, on SQLite, Redis or PostgreSQL.
//
// Queues and dead letters are filled by the calls by which the systems add them. Ten viewers load
// page after page over HTTP, all of one kind at a time; a row has the median and the 95th percentile
// beside its budget, and the bytes of the page, gzipped. Then jobs are added and worked on, in turns:
// alone; beside ten viewers, in a process of their own, who load a page each second and listen to the
// stream, of copies of the product's answers; and with the same viewers of the product.
package console

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/bench/stores"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/bridge"
)

const (
	queues   = 100
	owners   = 1000
	partners = 20 // of the queues
	viewers  = 10
	part     = 1000 // added at once
)

// options are the flags.
type options struct {
	*rounds.Flags
	jobs, dead, pages int
	turns             int
	on                string
	turn              time.Duration
}

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "console", About: "pages of the console among ten million jobs, with ten viewers, and what they take from the product's own rate", Run: run, Part: playPart}

func run(ctx context.Context, args []string) (err error) {
	var o options
	if o.Flags, err = rounds.Parse("console", 1, args, func(f *flag.FlagSet) {
		f.IntVar(&o.jobs, "n", 10_000_000, "jobs")
		f.IntVar(&o.dead, "dead", 100_000, "dead letters")
		f.IntVar(&o.pages, "pages", 10, "pages of a kind that each viewer loads")
		f.DurationVar(&o.turn, "turn", 10*time.Second, "how long a turn of work takes; 0: none is measured")
		f.IntVar(&o.turns, "turns", 5, "turns of each kind of work: with its viewers one differs from the next by some percent, so that a percent needs 40")
		f.StringVar(&o.on, "on", "sqlite", "where the jobs and dead letters are: sqlite, redis, or postgres (dead letters; jobs on Redis)")
	}); err != nil {
		return err
	}
	folder, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	s, err := stores.Open(ctx, folder, o.on)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	began := time.Now()
	entry := job(7, bridge.Name) // to be explained
	entry.Tenant = ""
	if err := errors.Join(s.Queues.Add(ctx, []*tidemill.Message{entry}, nil), fill(ctx, s.Queues, o.jobs), bury(ctx, s.Letters, o.dead)); err != nil {
		return err
	}
	log.Printf("filled in %v", time.Since(began).Round(time.Second))
	c, err := serve(ctx, s)
	if err != nil {
		return err
	}
	defer c.close()
	t := rounds.Table[result, *result]{Flags: o.Flags, Title: fmt.Sprintf("%d jobs, %d dead letters, %d viewers, %s", o.jobs, o.dead, viewers, o.on),
		Round: func(ctx context.Context, _ int, tell func(*result)) error {
			if err := c.measure(ctx, s, &o, tell); err != nil {
				return err
			}
			return c.compare(ctx, s, &o, tell)
		}}
	return t.Measure(ctx)
}

// result is a row: a page, or the product's own work.
type result struct {
	rounds.Common
	P50     float64 `json:"p50_ms,omitempty" better:"less"`
	P95     float64 `json:"p95_ms,omitempty" better:"less"`
	Budget  float64 `json:"budget_ms,omitempty"` // of the 95th percentile
	CPU     float64 `json:"cpu_us,omitempty" better:"less"`
	Servers float64 `json:"servers_cpu_us,omitempty" better:"less"`
	Bytes   float64 `json:"bytes_gzipped,omitempty" better:"less"`
	Rate    float64 `json:"per_second,omitempty" better:"more"`
	Alone   float64 `json:"of_alone,omitempty" better:"more"` // the rate of a turn over that of the turn before, of the row above
}

var head = figures.Head(56, "", "p50 ms", "p95 ms", "budget", "CPU µs", "servers", "gzipped", "jobs/s", "of above")

// Head is the names above the columns of Line.
func (*result) Head() string { return head }

// Line is a row of the output.
func (r *result) Line() string {
	row := figures.NewRow(56, r.Name)
	row.Cell("%.1f", r.P50)
	row.Cell("%.1f", r.P95)
	row.Cell("%.0f", r.Budget)
	row.Cell("%.1f", r.CPU)
	row.Cell("%.1f", r.Servers)
	row.Cell("%.0f", r.Bytes)
	row.Cell("%.0f", r.Rate)
	row.Cell("%.3f", r.Alone)
	if r.Budget > 0 && r.P95 > r.Budget {
		row.Text("  over")
	}
	return row.End(r.Problem)
}

// rare is why one dead letter died.
const rare = "the contract has ended"

func nameOf(i int) string {
	if i%queues < partners {
		return fmt.Sprintf("s2s.partner-%02d", i%queues)
	}
	return fmt.Sprintf("queue-%02d", i%queues)
}

// job is the k-th one.
func job(k int, to string) *tidemill.Message {
	return &tidemill.Message{ID: fmt.Sprint(k), To: to, Tenant: fmt.Sprint("owner-", k%owners), Type: "purchase", Payload: []byte(`{"total":12}`)}
}

func fill(ctx context.Context, store queue.Store, n int) error {
	for done := 0; done < n; done += part {
		all := make([]*tidemill.Message, part)
		for i := range all {
			all[i] = job(done+i, nameOf(done/part))
		}
		if err := store.Add(ctx, all, nil); err != nil {
			return err
		}
		if done%1_000_000 == 0 && done > 0 {
			log.Printf("%d jobs", done)
		}
	}
	return nil
}

func bury(ctx context.Context, letters deadletter.Store, n int) error {
	for done := 0; done < n; done += part {
		all := make([]tidemill.DeadLetter, part)
		for i := range all {
			k, cause := done+i, fmt.Sprintf("cause %c: answered %d", 'a'+(done+i)%20, 500+(done+i)%7)
			if k == n/2 {
				cause = rare
			}
			all[i] = tidemill.DeadLetter{Pipeline: nameOf(k), Kind: tidemill.Partner, Cause: cause, At: time.Now(), Message: job(k, nameOf(k))}
		}
		if err := letters.Put(ctx, all); err != nil {
			return err
		}
	}
	return nil
}
