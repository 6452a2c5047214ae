// Command console measures the pages of the console among ten million jobs in 100 queues of 1,000
// owners, 100,000 dead letters and 20 partners, on SQLite, Redis or PostgreSQL.
//
//	go run ./bench/console
//	go run ./bench/console -n 1000000 -dir /fast/disk
//	go run ./bench/console -redis redis://127.0.0.1:6379/0
//	go run ./bench/console -redis redis://127.0.0.1:6379/0 -postgres postgres://127.0.0.1/bench
//
// Queues and dead letters are filled by the calls by which the systems add them. Ten viewers load
// page after page over HTTP, all of one kind at a time; a row has the median and the 95th percentile
// beside its budget, and the bytes of the page, gzipped. Then jobs are added and worked on, in turns
// with and without ten viewers who load a page each second and listen to the stream.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
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
	jobs, dead, rounds int
	dir                string
	redis, postgres    string
	turn               time.Duration
}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	var o options
	flag.IntVar(&o.jobs, "n", 10_000_000, "jobs")
	flag.IntVar(&o.dead, "dead", 100_000, "dead letters")
	flag.IntVar(&o.rounds, "rounds", 10, "pages of a kind that each viewer loads")
	flag.DurationVar(&o.turn, "turn", 10*time.Second, "how long a turn of work takes; 0: none is measured")
	flag.StringVar(&o.dir, "dir", "", "folder for the file; empty: a temporary one")
	flag.StringVar(&o.redis, "redis", "", "URL of an empty Redis for queues and dead letters; empty: SQLite")
	flag.StringVar(&o.postgres, "postgres", "", "URL of an empty PostgreSQL for dead letters; empty: they are where the queues are")
	flag.Parse()
	s, err := open(ctx, &o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	began := time.Now()
	if err := errors.Join(fill(ctx, s.queues, o.jobs), bury(ctx, s.letters, o.dead)); err != nil {
		return err
	}
	log.Printf("filled in %v", time.Since(began).Round(time.Second))
	c, err := serve(ctx, s)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.measure(ctx, o.rounds); err != nil {
		return err
	}
	return c.compare(ctx, s.queues, o.turn)
}

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
			k := done + i
			all[i] = tidemill.DeadLetter{Pipeline: nameOf(k), Kind: tidemill.Partner, Cause: fmt.Sprintf("cause %c: answered %d", 'a'+k%20, 500+k%7), At: time.Now(), Message: job(k, nameOf(k))}
		}
		if err := letters.Put(ctx, all); err != nil {
			return err
		}
	}
	return nil
}
