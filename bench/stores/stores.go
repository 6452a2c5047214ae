// Package stores opens the stores of the roles on SQLite, Redis or PostgreSQL, with servers of one run,
// for benchmarks that work with them in their own process.
package stores

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
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/rediswindow"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/sqlitesearch"
)

// Stores are those of one place. Close must follow.
type Stores struct {
	Queues  queue.Store
	Letters deadletter.Store
	Ledger  ledger.Store
	Windows window.Store
	Search  search.Store // on SQLite only

	folder  string
	ends    []func() error
	servers *process.Services // nil: there are none
}

// CPU is what the servers have used so far.
func (s *Stores) CPU() (all time.Duration) {
	if s.servers != nil {
		all = s.servers.CPUs()
	}
	return all
}

// Bytes are those of all files of the stores.
func (s *Stores) Bytes() (float64, error) { return process.Bytes(s.folder) }

// Close closes the stores and ends their servers.
func (s *Stores) Close() (err error) {
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end())
	}
	return err
}

// capacity is how many jobs a queue may hold, and bounds how many dead letters a pipeline.
const capacity = 1 << 30

var bounds = deadletter.Options{Max: 1 << 30}

// openFor is how long windows are open, if nobody closes them.
const openFor = 24 * time.Hour

// Open opens the stores in a folder, on sqlite, redis or postgres (queues then are on Redis), with
// servers of their own.
func Open(ctx context.Context, folder, on string) (*Stores, error) {
	switch on {
	case "sqlite":
		s := &Stores{folder: folder}
		return s.opened(s.inFile(ctx, folder))
	case "redis", "postgres":
	default:
		return nil, fmt.Errorf("-on is %q: want sqlite, redis or postgres", on)
	}
	servers, err := Servers(ctx, folder)
	if err != nil {
		return nil, err
	}
	s, err := On(ctx, servers, on)
	if err != nil {
		servers.Stop()
		return nil, err
	}
	s.folder, s.ends = folder, append([]func() error{func() error { servers.Stop(); return nil }}, s.ends...)
	return s, nil
}

// Servers starts those that stores are on, with their files in a folder.
func Servers(ctx context.Context, folder string) (*process.Services, error) {
	return process.StartServices(ctx, filepath.Join(folder, "servers"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, "redis", "postgres")
}

// On opens the stores on servers, redis or postgres as in Open; Close does not end them.
func On(ctx context.Context, servers *process.Services, on string) (*Stores, error) {
	s := &Stores{servers: servers}
	err := s.inRedis(ctx, "redis://"+servers.Addr("redis"))
	if err == nil && on == "postgres" {
		err = s.inPostgres(ctx, servers.Postgres())
	}
	return s.opened(err)
}

// opened are the stores, unless some of them could not be opened.
func (s *Stores) opened(err error) (*Stores, error) {
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stores) inFile(ctx context.Context, folder string) error {
	db, err := sqlitedb.Open(ctx, filepath.Join(folder, "stores.db"), sqlitedb.Options{})
	if err != nil {
		return err
	}
	s.ends = append(s.ends, db.Close)
	queues, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{Capacity: capacity})
	if err != nil {
		return err
	}
	s.Queues = queues
	s.sweeps(ctx, queues.Sweep)
	dead, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return err
	}
	if s.Letters, err = tabledeadletter.New(ctx, dead, tabledeadletter.Options{Options: bounds}); err != nil {
		return err
	}
	log, err := sqlitetable.New(ctx, db, tableledger.Spec("bench"))
	if err != nil {
		return err
	}
	s.Ledger = tableledger.New(log, tableledger.Options{})
	rows, err := sqlitetable.New(ctx, db, tablewindow.Spec())
	if err != nil {
		return err
	}
	blobs, err := sqlitetable.New(ctx, db, tablewindow.BlobSpec())
	if err != nil {
		return err
	}
	if s.Windows, err = tablewindow.New(ctx, rows, blobs, tablewindow.Options{Options: window.Options{Window: openFor}}); err != nil {
		return err
	}
	index, err := sqlitesearch.New(db, sqlitesearch.Options{}, search.Events())
	if err != nil {
		return err
	}
	s.Search = index
	return index.Setup(ctx)
}

// sweeps does the housekeeping of a queue as often as the product does.
func (s *Stores) sweeps(ctx context.Context, sweep func(context.Context) error) {
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

func (s *Stores) inRedis(ctx context.Context, url string) error {
	client, err := redisconn.Open(ctx, tidemill.NewSecret(url), redisconn.Options{})
	if err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { client.Close(); return nil })
	if s.Queues, err = redisqueue.New(client, redisqueue.Options{Capacity: capacity}); err != nil {
		return err
	}
	if s.Letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{Options: bounds}); err != nil {
		return err
	}
	if s.Ledger, err = redisledger.New(client, redisledger.Options{}); err != nil {
		return err
	}
	s.Windows, err = rediswindow.New(client, rediswindow.Options{Options: window.Options{Window: openFor}})
	return err
}

func (s *Stores) inPostgres(ctx context.Context, url string) error {
	db, err := postgresdb.Open(ctx, tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { db.Close(); return nil })
	dead, err := postgrestable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return err
	}
	if s.Letters, err = tabledeadletter.New(ctx, dead, tabledeadletter.Options{Options: bounds, Look: 10 * time.Second}); err != nil {
		return err
	}
	if s.Ledger, err = postgresledger.New(ctx, db, postgresledger.Options{}); err != nil {
		return err
	}
	rows, err := postgrestable.New(ctx, db, tablewindow.Spec())
	if err != nil {
		return err
	}
	blobs, err := postgrestable.New(ctx, db, tablewindow.BlobSpec())
	if err != nil {
		return err
	}
	s.Windows, err = tablewindow.New(ctx, rows, blobs, tablewindow.Options{Options: window.Options{Window: openFor}, Look: 10 * time.Second})
	return err
}

// End receives so many messages of a source, into messages of the caller, and settles them as delivered.
func End(ctx context.Context, from tidemill.Source, into []*tidemill.Message, n int) error {
	for n > 0 {
		got, err := from.Receive(ctx, into[:min(n, len(into))])
		if err != nil {
			return err
		}
		ends := make([]tidemill.Settlement, got)
		for i, m := range into[:got] {
			ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
		}
		if err := from.Settle(ctx, ends); err != nil {
			return err
		}
		n -= got
	}
	return nil
}

// Messages are so many, for End.
func Messages(n int) []*tidemill.Message {
	all := make([]*tidemill.Message, n)
	for i := range all {
		all[i] = new(tidemill.Message)
	}
	return all
}
