package growth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill/bench/analytics"
	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
)

// chunk is how many events are sent before it is waited until they are stored.
const chunk = 100_000

// age is how old the events are that a store is filled with.
const age = 30 * 24 * time.Hour

// stored is the binary with the events that it has.
type stored struct {
	*analytics.Server
	o       *options
	folder  string
	servers *process.Services // nil: it has a file
	g       *load.Generator
	from    time.Time // when the first event happened
	has     int
}

// events are those of the analytics system.
func (o *options) events() kind {
	return kind{name: ofEvents, on: []string{onFile, onServers}, most: o.n, part: whole(o.part), turns: o.turns, at: []float64{0.05, 0.1, 0.25, 0.5, 1},
		open: func(ctx context.Context, folder string, fresh bool) (side, error) {
			s := &stored{o: o, folder: folder, from: time.Now().Add(-age).UTC()}
			s.g = load.Growing(map[bool]uint64{false: 1, true: 2}[fresh], s.from, o.persons, o.n)
			if o.on == onServers {
				var err error
				if s.servers, err = process.StartServices(ctx, filepath.Join(folder, "servers"), nil, "redis", "postgres", "clickhouse"); err != nil {
					return nil, err
				}
			}
			if err := s.start(ctx); err != nil {
				return nil, errors.Join(err, s.close())
			}
			return s, nil
		}}
}

// whole is n, in whole requests.
func whole(n int) int { return (n + analytics.PerBody - 1) / analytics.PerBody * analytics.PerBody }

func (s *stored) start(ctx context.Context, settings ...string) (err error) {
	settings = append(settings, "TIDEMILL_ADMIN_RATES_READS=0") // any number
	if s.servers != nil {
		settings = append(settings, s.servers.Settings()...)
	}
	s.Server, err = analytics.Start(ctx, s.o.bin, filepath.Join(s.folder, "data"), settings...)
	return err
}

func (s *stored) bodies(n int) [][]byte {
	all := make([][]byte, 0, n/analytics.PerBody)
	for range cap(all) {
		all = append(all, analytics.Body(s.g, true))
	}
	return all
}

// send sends bodies, and returns when all that they carry is stored.
func (s *stored) send(bodies [][]byte) error {
	s.has += len(bodies) * analytics.PerBody
	return cmp.Or(s.Send(bodies, s.o.conns), s.Drained())
}

func (s *stored) grow(ctx context.Context, to int) error {
	began := time.Now()
	for s.has < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		before := s.has
		if err := s.send(s.bodies(whole(min(chunk, to-s.has)))); err != nil {
			return err
		}
		if s.has/1_000_000 > before/1_000_000 {
			log.Printf("%d events of %d persons, after %v", s.has, s.g.Known(), time.Since(began).Round(time.Second))
		}
	}
	return nil
}

func (s *stored) count() int { return s.has }

func (s *stored) work(n int) func(context.Context) error {
	bodies := s.bodies(n)
	return func(context.Context) error { return s.send(bodies) }
}

func (s *stored) cost() time.Duration {
	all := process.CPU(s.PID())
	if s.servers != nil {
		all += s.servers.CPUs()
	}
	return all
}

func (s *stored) bytes() (float64, error) { return process.Bytes(s.folder) }

func (s *stored) rss() float64 { return process.RSS(s.PID()) }

// profiled is how many seconds a profile is of, unless the work ends before.
const profiled = 4

func (s *stored) profile(file string) (func() error, error) {
	done := make(chan error, 1)
	go func() { done <- s.Profile(file, profiled) }()
	return func() error { return <-done }, nil
}

// pages are those of stored events, each time of another person, name and time.
func (s *stored) pages() []page {
	any := func() uint64 { return rand.Uint64N(s.g.Known()) }
	read := func(name string, query func() (url.Values, error)) page {
		return page{"events " + name, func(context.Context) (time.Duration, error) {
			q, err := query()
			if err != nil {
				return 0, err
			}
			began := time.Now()
			_, err = s.list(q)
			return time.Since(began), err
		}}
	}
	distinct := func() (url.Values, error) { return url.Values{"distinct_id": {analytics.Distinct(any())}}, nil }
	return []page{
		read("newest first", func() (url.Values, error) { return url.Values{}, nil }),
		read("by person", func() (url.Values, error) {
			q, _ := distinct()
			found, err := s.list(q)
			if err != nil {
				return nil, err
			}
			return url.Values{"person": {found[0].Person}}, nil
		}),
		read("by distinct id", distinct),
		read("by name", func() (url.Values, error) { return url.Values{"name": {fmt.Sprint("action ", any()%30)}}, nil }),
		read("by time", func() (url.Values, error) {
			at := s.from.Add(time.Duration(rand.Int64N(int64(s.g.Now().Sub(s.from)))))
			return url.Values{"since": {at.Format(time.RFC3339)}, "until": {at.Add(time.Minute).Format(time.RFC3339)}}, nil
		}),
	}
}

type listed struct {
	Person string `json:"person_id"`
}

// list reads a page of 50, which is not empty.
func (s *stored) list(q url.Values) ([]listed, error) {
	q.Set("order", "newest")
	q.Set("limit", "50")
	b, err := s.Get("/api/v1/events?" + q.Encode())
	if err != nil {
		return nil, err
	}
	var page struct{ Items []listed }
	if err := json.Unmarshal(b, &page); err != nil {
		return nil, err
	}
	if len(page.Items) == 0 {
		return nil, fmt.Errorf("no event is in the page of %s", q.Encode())
	}
	return page.Items, nil
}

func (s *stored) close() (err error) {
	if s.Server != nil {
		err = s.Stop()
	}
	if s.servers != nil {
		s.servers.Stop()
	}
	return err
}
