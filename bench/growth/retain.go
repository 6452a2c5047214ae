package growth

import (
	"context"
	"errors"
	"log"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/rounds"
)

// keep has retention remove all that the store was filled with, and nothing of what comes now.
const keep = "TIDEMILL_ANALYTICS_KEEP=24h"

// after restarts the binary, in turns without a bound and with one, by which old events are removed
// while new ones come. In ClickHouse the bound is a setting of its table, which bench/servers and the
// documentation of retention are about.
func (s *stored) after(ctx context.Context, k *kind, name string, tell func(*result)) error {
	if s.servers != nil || !s.o.Wants(name+": retention") {
		return nil
	}
	s.g.Jump(time.Now().Add(-time.Hour).UTC())
	var without, beside []took
	var removed, starts []float64
	for turn := range k.turns {
		for i := range 2 {
			if (i+turn)%2 == 0 {
				start, err := s.restart(ctx)
				if err != nil {
					return err
				}
				t, err := turnOf(ctx, s, k.part, "")
				if err != nil {
					return err
				}
				without, starts = append(without, t), append(starts, start)
				continue
			}
			t, gone, err := s.besideRetention(ctx, k.part)
			if err != nil {
				return err
			}
			log.Printf("%.0f events were removed while %d came", gone, k.part)
			beside, removed = append(beside, t), append(removed, gone*t.rate/float64(k.part))
		}
	}
	size := float64(s.has)
	r := &result{Common: rounds.Common{Name: name + ": start"}, Size: size, P50: figures.Median(starts), RSS: s.rss()}
	if err := k.beside(ctx, s.folder, func(fresh side) error {
		start, err := fresh.(*stored).restart(ctx)
		r.Fresh, r.P50Of = start, r.P50/start
		return err
	}); err != nil {
		return err
	}
	tell(r)
	plain := &result{Common: rounds.Common{Name: name + ": no retention"}, Size: size}
	with := &result{Common: rounds.Common{Name: name + ": retention"}, Size: size, Removed: figures.Median(removed)}
	compare(with, beside, without)
	plain.Rate, plain.CPU = with.Rate/with.RateOf, with.FreshCPU
	if with.Removed == 0 {
		figures.Note(&with.Problem, errors.New("nothing was removed"))
	}
	tell(plain)
	tell(with)
	return nil
}

// restart restarts the binary, and says how many ms the start took.
func (s *stored) restart(ctx context.Context, settings ...string) (start float64, err error) {
	if err := s.Stop(); err != nil {
		return 0, err
	}
	began := time.Now()
	err = s.start(ctx, settings...)
	return float64(time.Since(began).Microseconds()) / 1000, err
}

// besideRetention measures a turn while old events are removed, and says how many were.
func (s *stored) besideRetention(ctx context.Context, part int) (t took, gone float64, err error) {
	if _, err := s.restart(ctx, keep); err != nil {
		return t, 0, err
	}
	before := 0.0
	for until := time.Now().Add(10 * time.Second); before == 0 && time.Now().Before(until); { // it has begun
		time.Sleep(10 * time.Millisecond) // another process does it
		if before, err = s.removed(); err != nil {
			return t, 0, err
		}
	}
	if t, err = turnOf(ctx, s, part, ""); err != nil {
		return t, 0, err
	}
	after, err := s.removed()
	return t, after - before, err
}

// removed is how many events retention has removed since the start.
func (s *stored) removed() (n float64, err error) {
	b, err := s.Get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), `tidemill_retention_removed_total{store="events by age"} `); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.New("the metrics do not say how many events were removed")
}
