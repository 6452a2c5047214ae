package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/queue"
)

// squeezed is a page as it goes over the wire.
func squeezed(page string) (string, error) {
	if len(page) > 1 && page[0] == 0x1f && page[1] == 0x8b { // it came so
		return page, nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(page))
	err = errors.Join(err, z.Close())
	return b.String(), err
}

const withViewers = ", with viewers"

// turns is how often work is measured with viewers, and without.
const turns = 5

// compare adds jobs and works on them, in turns with and without viewers.
func (s *site) compare(ctx context.Context, store queue.Store, o *options, tell func(*result)) error {
	const name = "jobs added and worked on"
	if o.turn <= 0 || !o.Wants(name) {
		return nil
	}
	src := store.Open("work", queue.Options{})
	n := 0
	work := func(until time.Time) (done int, err error) {
		into := make([]*tidemill.Message, part)
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		for time.Now().Before(until) {
			all := make([]*tidemill.Message, part)
			for i := range all {
				all[i] = job(n, "work")
				all[i].ID = fmt.Sprint("work-", n)
				n++
			}
			if err := store.Add(ctx, all, nil); err != nil {
				return done, err
			}
			for left := part; left > 0; {
				got, err := src.Receive(ctx, into[:left])
				if err != nil {
					return done, err
				}
				ends := make([]tidemill.Settlement, got)
				for i, m := range into[:got] {
					ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
				}
				if err := src.Settle(ctx, ends); err != nil {
					return done, err
				}
				left, done = left-got, done+got
			}
		}
		return done, nil
	}
	var rates, costs [2][]float64 // without and with viewers
	for i := range 2 * turns {
		with := i % 2
		look, stop := context.WithCancel(ctx)
		file := ""
		if i == 2*turns-1 {
			file = o.ProfileOf(name + withViewers)
		}
		profile, err := profiled(file)
		if err != nil {
			stop()
			return err
		}
		var wg sync.WaitGroup
		if with == 1 {
			s.watch(look, &wg)
		}
		began, cpu := time.Now(), process.CPU(os.Getpid())
		done, err := work(began.Add(o.turn))
		took, used := time.Since(began), process.CPU(os.Getpid())-cpu
		profile()
		stop()
		wg.Wait()
		if err != nil {
			return err
		}
		rates[with] = append(rates[with], float64(done)/took.Seconds())
		costs[with] = append(costs[with], used.Seconds()/float64(done)*1e6)
	}
	without, with := figures.Median(rates[0]), figures.Median(rates[1])
	tell(&result{Common: rounds.Common{Name: name}, Rate: without, CPU: figures.Median(costs[0])})
	tell(&result{Common: rounds.Common{Name: name + withViewers}, Rate: with, CPU: figures.Median(costs[1]), Alone: with / without})
	return nil
}

// watch has ten viewers load a page each second and listen to the stream, until ctx ends.
func (s *site) watch(ctx context.Context, wg *sync.WaitGroup) {
	seen := []string{"/console/", "/console/queues", "/console/queues/queue-50", "/console/queues/queue-50/jobs", "/console/dead", "/console/owners"}
	for i := range viewers {
		wg.Go(func() { _, _ = s.load(ctx, admin.Prefix+"stream?topic=overview&topic=queue:queue-50", nil) })
		wg.Go(func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for n := i; ; n++ {
				_, _ = s.load(ctx, seen[n%len(seen)], nil) // ctx ends it
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
}
