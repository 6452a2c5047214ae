package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/bench/stores"
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

// How work is measured, in turns.
const (
	worked      = "jobs added and worked on"
	beside      = worked + ", beside viewers of copies"
	withViewers = worked + ", with viewers"
)

// compare adds jobs and works on them, in turns: alone, beside viewers of copies, with viewers.
func (s *site) compare(ctx context.Context, st *stores.Stores, o *options, tell func(*result)) error {
	if o.turn <= 0 || !o.Wants(worked) {
		return nil
	}
	w := &worker{store: st.Queues, from: st.Queues.Open("work", queue.Options{})}
	ways := []struct{ name, looking string }{{worked, ""}, {beside, atCopies}, {withViewers, atProduct}}
	rates, costs, servers := make([][]float64, len(ways)), make([][]float64, len(ways)), make([][]float64, len(ways))
	for turn := range o.turns {
		for i, way := range ways {
			file := ""
			if turn == o.turns-1 {
				file = o.ProfileOf(way.name)
			}
			t, err := s.turn(ctx, w, st, way.looking, o.turn, file)
			if err != nil {
				return err
			}
			n := float64(t.done)
			rates[i], costs[i], servers[i] = append(rates[i], n/t.took.Seconds()), append(costs[i], t.own.Seconds()/n*1e6), append(servers[i], t.servers.Seconds()/n*1e6)
		}
	}
	for i, way := range ways {
		r := &result{Common: rounds.Common{Name: way.name}, Rate: figures.Median(rates[i]), CPU: figures.Median(costs[i]), Servers: figures.Median(servers[i])}
		if i > 0 { // of the same turn, as the machine is not the same at all times
			var of []float64
			for turn, rate := range rates[i] {
				of = append(of, rate/rates[i-1][turn])
			}
			r.Alone = figures.Median(of)
		}
		tell(r)
	}
	return nil
}

// took is what a turn did and cost.
type took struct {
	done               int
	took, own, servers time.Duration
}

// turn works for a time, while viewers look.
func (s *site) turn(ctx context.Context, w *worker, st *stores.Stores, looking string, long time.Duration, file string) (t took, err error) {
	if looking != "" {
		p, err2 := s.watchers(ctx, looking)
		if err2 != nil {
			return t, err2
		}
		defer func() { err = errors.Join(err, p.Stop()) }()
	}
	profile, err := process.ProfileSelf(file)
	if err != nil {
		return t, err
	}
	defer profile()
	began, own, servers := time.Now(), process.CPU(os.Getpid()), st.CPU()
	t.done, err = w.work(ctx, began.Add(long))
	t.took, t.own, t.servers = time.Since(began), process.CPU(os.Getpid())-own, st.CPU()-servers
	return t, err
}

// worker adds jobs and works on them.
type worker struct {
	store queue.Store
	from  tidemill.Source
	n     int
}

func (w *worker) work(ctx context.Context, until time.Time) (done int, err error) {
	into := stores.Messages(part)
	for time.Now().Before(until) {
		all := make([]*tidemill.Message, part)
		for i := range all {
			all[i] = job(w.n, "work")
			all[i].ID = fmt.Sprint("work-", w.n)
			w.n++
		}
		if err := w.store.Add(ctx, all, nil); err != nil {
			return done, err
		}
		if err := stores.End(ctx, w.from, into, part); err != nil {
			return done, err
		}
		done += part
	}
	return done, nil
}
