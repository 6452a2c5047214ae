package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
)

const queueName = "bench"

// product is a queue of the product, opened as the product opens it.
type product struct {
	*part
	queue.Core
	close func() error
	file  string // SQLite
}

func openProduct(ctx context.Context, p *part) (*product, error) {
	if p.Redis == "" {
		file := filepath.Join(p.Folder, "queue.db")
		db, err := sqlitedb.Open(ctx, file, sqlitedb.Options{})
		if err != nil {
			return nil, err
		}
		s, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return &product{p, s, db.Close, file}, nil
	}
	client, err := redisconn.Open(ctx, tidemill.NewSecret("redis://"+p.Redis), redisconn.Options{})
	if err != nil {
		return nil, err
	}
	s, err := redisqueue.New(client, redisqueue.Options{})
	return &product{p, s, func() error { client.Close(); return nil }, ""}, err
}

// playProduct plays a part with the product.
func playProduct(ctx context.Context, p *part) (err error) {
	s, err := openProduct(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if p.Profile != "" {
		f, err := os.Create(p.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if p.Limits {
		_, err := s.Core.(queue.Tuner).Set(ctx, queueName, func(to *queue.Settings) {
			to.Tenant = queue.Limit{PerSecond: 900_000, Burst: 900_000, AtOnce: 100_000}
		})
		if err != nil {
			return err
		}
	}
	switch p.What {
	case "add", "single":
		return s.adds(ctx)
	case "process":
		return s.processes(ctx)
	case "latency":
		return s.latency(ctx)
	case "fair":
		return s.fair(ctx)
	}
	return fmt.Errorf("there is no part %q", p.What)
}

func (s *product) add(ctx context.Context) func([]*tidemill.Message) error {
	return func(jobs []*tidemill.Message) error { return s.Add(ctx, jobs, nil) }
}

func (s *product) adds(ctx context.Context) error {
	add, n := bulks, s.Jobs
	if s.What == "single" {
		add = singles
	}
	// Jobs are made beforehand, in parts if they are many.
	made := newEvents()
	for made.n < n {
		jobs := made.take(queueName, min(n-made.n, 100_000))
		if made.n == len(jobs) {
			s.begin()
		}
		if err := add(jobs, s.add(ctx)); err != nil {
			return err
		}
	}
	s.end()
	return s.tell(ctx, report{Done: n})
}

// tell reports, with what the queue holds.
func (s *product) tell(ctx context.Context, r report) error {
	books, err := s.Open(queueName, queue.Options{}).(tidemill.Bookkeeper).Books(ctx)
	if err != nil {
		return err
	}
	if off := books.Off(); off != 0 {
		r.Failed = fmt.Sprintf("the books are off by %d: %+v", off, books)
	}
	r.Held = int64(books.Pending)
	if s.file != "" {
		for _, name := range []string{s.file, s.file + "-wal"} {
			if st, err := os.Stat(name); err == nil {
				r.Size += st.Size()
			}
		}
	}
	return s.Report(r)
}

// letters are for jobs that die: none does.
type letters struct{}

func (letters) Put(context.Context, []tidemill.DeadLetter) error { return errors.New("a job died") }
func (letters) Has(_ context.Context, _ string, ids []string, _ []tidemill.Mark) ([]bool, error) {
	return make([]bool, len(ids)), nil
}

// work starts the engine: a lane per worker, and a handler that is told of each job.
func (s *product) work(ctx context.Context, settled func([]tidemill.Settlement), handle func(*tidemill.Message) error) (stop func() error, err error) {
	steps := flow.Steps[struct{}]{
		Decode: func(*tidemill.Message, *struct{}) error { return nil },
		Stages: []flow.Stage[struct{}]{{Name: "handle", Do: func(_ context.Context, batch []*flow.Item[struct{}]) error {
			for _, it := range batch {
				if err := handle(&it.Message); err != nil {
					return err
				}
			}
			return nil
		}}},
	}
	e, err := flow.New(flow.Pipeline{Name: queueName, Source: s.Open(queueName, queue.Options{}), Work: steps.Lane, Dead: letters{},
		Lanes: s.Workers, Settled: settled})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// processes fills the queue, and then works until all is handled and settled.
func (s *product) processes(ctx context.Context) error {
	if err := bulks(newEvents().take(queueName, s.Jobs), s.add(ctx)); err != nil {
		return err
	}
	all, told, done := process.NewSeen(s.Jobs), atomic.Int64{}, make(chan struct{})
	s.begin()
	stop, err := s.work(ctx, func(ends []tidemill.Settlement) {
		if n := told.Add(int64(len(ends))); n >= int64(s.Jobs) && n-int64(len(ends)) < int64(s.Jobs) {
			close(done)
		}
	}, func(m *tidemill.Message) error { _, err := all.One(m.Payload); return err })
	if err != nil {
		return err
	}
	if err := all.Wait(ctx); err != nil {
		return err
	}
	<-done
	s.end()
	if err := stop(); err != nil {
		return err
	}
	return s.tell(ctx, report{Done: all.N(), Twice: all.Twice()})
}

// latency adds at a steady rate while the engine works.
func (s *product) latency(ctx context.Context) error {
	o := offer(int(s.Rate*s.Seconds), queueName)
	all := process.NewSeen(len(o.jobs))
	stop, err := s.work(ctx, nil, func(m *tidemill.Message) error {
		i, err := all.One(m.Payload)
		if err == nil {
			o.began(i)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.begin()
	if err := errors.Join(o.add(s.Rate, s.add(ctx)), all.Wait(ctx)); err != nil {
		return err
	}
	s.end()
	if err := stop(); err != nil {
		return err
	}
	return s.tell(ctx, report{Done: all.N(), Twice: all.Twice(), Late: o.settled()})
}
