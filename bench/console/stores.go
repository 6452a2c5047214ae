package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
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
}

func (s *stores) close() (err error) {
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end())
	}
	return err
}

var bounds = deadletter.Options{Max: 1 << 30}

func open(ctx context.Context, o *options) (s *stores, err error) {
	s = &stores{}
	fill := s.inFile
	if o.redis != "" {
		fill = s.inRedis
	}
	if err = fill(ctx, o); err == nil && o.postgres != "" {
		err = s.inPostgres(ctx, o.postgres)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stores) inFile(ctx context.Context, o *options) error {
	folder, err := os.MkdirTemp(o.dir, "bench-console")
	if err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { return os.RemoveAll(folder) })
	db, err := sqlitedb.Open(ctx, filepath.Join(folder, "console.db"), sqlitedb.Options{})
	if err != nil {
		return err
	}
	s.ends = append(s.ends, db.Close)
	if s.queues, err = sqlitequeue.New(ctx, db, sqlitequeue.Options{}); err != nil {
		return err
	}
	dead, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return err
	}
	s.letters, err = tabledeadletter.New(ctx, dead, tabledeadletter.Options{Options: bounds})
	return err
}

func (s *stores) inRedis(ctx context.Context, o *options) error {
	client, err := redisconn.Open(ctx, tidemill.NewSecret(o.redis), redisconn.Options{})
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
