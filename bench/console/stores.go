package console

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// stores are what the pages are about.
type stores struct {
	queues  queue.Store
	letters deadletter.Store
	ends    []func() error
	servers *process.Services // nil: there are none
}

// cpu is what the servers have used so far.
func (s *stores) cpu() (all time.Duration) {
	if s.servers != nil {
		for _, name := range serverNames {
			all += s.servers.CPU(name)
		}
	}
	return all
}

var serverNames = []string{"redis", "postgres"}

func (s *stores) close() (err error) {
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end())
	}
	return err
}

var bounds = deadletter.Options{Max: 1 << 30}

// open opens the stores on sqlite, redis or postgres, with servers of this run.
func open(ctx context.Context, folder, on string) (s *stores, err error) {
	s = &stores{}
	switch on {
	case "sqlite":
		err = s.inFile(ctx, folder)
	case "redis", "postgres":
		if s.servers, err = process.StartServices(ctx, filepath.Join(folder, "servers"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, serverNames...); err != nil {
			return nil, err
		}
		s.ends = append(s.ends, func() error { s.servers.Stop(); return nil })
		if err = s.inRedis(ctx, "redis://"+s.servers.Addr("redis")); err == nil && on == "postgres" {
			err = s.inPostgres(ctx, "postgres://postgres@"+s.servers.Addr("postgres")+"/test?sslmode=disable")
		}
	default:
		err = fmt.Errorf("-on is %q: want sqlite, redis or postgres", on)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stores) inFile(ctx context.Context, folder string) error {
	db, err := sqlitedb.Open(ctx, filepath.Join(folder, "console.db"), sqlitedb.Options{})
	if err != nil {
		return err
	}
	s.ends = append(s.ends, db.Close)
	queues, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
	if err != nil {
		return err
	}
	s.queues = queues
	s.sweeps(ctx, queues.Sweep)
	dead, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return err
	}
	s.letters, err = tabledeadletter.New(ctx, dead, tabledeadletter.Options{Options: bounds})
	return err
}

// sweeps does the housekeeping of a queue as often as the product does.
func (s *stores) sweeps(ctx context.Context, sweep func(context.Context) error) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(sqlitequeue.SweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				done <- nil
				return
			}
			if err := sweep(ctx); err != nil && ctx.Err() == nil {
				done <- fmt.Errorf("sweep the queue: %w", err)
				return
			}
		}
	}()
	s.ends = append(s.ends, func() error { stop(); return <-done })
}

func (s *stores) inRedis(ctx context.Context, url string) error {
	client, err := redisconn.Open(ctx, tidemill.NewSecret(url), redisconn.Options{})
	if err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { client.Close(); return nil })
	if s.queues, err = redisqueue.New(client, redisqueue.Options{}); err != nil {
		return err
	}
	s.letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{Options: bounds})
	return err
}

func (s *stores) inPostgres(ctx context.Context, url string) error {
	db, err := postgresdb.Open(ctx, tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { db.Close(); return nil })
	dead, err := postgrestable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return err
	}
	s.letters, err = tabledeadletter.New(ctx, dead, tabledeadletter.Options{Options: bounds, Look: 10 * time.Second})
	return err
}
