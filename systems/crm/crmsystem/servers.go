//go:build !embedded

package crmsystem

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/source/bullmqsource"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/project/postgresproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// onPostgres puts a PostgreSQL behind sync log, replays and profiles.
func (w *wiring) onPostgres(ctx context.Context, s *stores) error {
	address := w.own.Postgres()
	db, err := w.Postgres(ctx, address)
	if err != nil {
		return err
	}
	log, err := postgresledger.New(ctx, db, postgresledger.Options{Name: logName})
	if err != nil {
		return err
	}
	table, err := postgrestable.New(ctx, db, tableprofile.Spec())
	if err != nil {
		return err
	}
	profiles, err := tableprofile.New(table, profile.Options{Now: w.Now})
	if err != nil {
		return err
	}
	s.profiles = profiles
	s.attributes = func(m handler.Mapping) (handler.Handler, error) {
		return handler.AttributesIn(log, profiles, m)
	}
	if s.log, err = ledger.GatherStore(log, gather); err != nil {
		return err
	}
	if s.replays, err = postgresledger.New(ctx, db, postgresledger.Options{Name: replaysName}); err != nil {
		return err
	}
	if s.projects, err = postgresproject.New(ctx, db); err != nil {
		return err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("sync log: PostgreSQL, %s", address))
	return nil
}

// onRedis puts a Redis behind queue and dead letters, under keys of their own.
func (w *wiring) onRedis(ctx context.Context, s *stores) error {
	c, address := w.own, w.own.Redis()
	client, err := w.Redis(ctx, address)
	if err != nil {
		return err
	}
	s.damaged = nil
	if s.queues, err = redisqueue.New(client, redisqueue.Options{Prefix: keys, Capacity: c.QueueMax, Shards: c.Shards}); err != nil {
		return err
	}
	if s.letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{
		Options: deadletter.Options{Max: c.DeadMax}, Stream: lettersStream, Pipeline: crm.Queue}); err != nil {
		return err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("CRM queue: Redis, %s", address))
	return nil
}

// fromBullMQ takes events from a queue of BullMQ's.
func (w *wiring) fromBullMQ(ctx context.Context, s *stores) error {
	c := &w.own.BullMQ
	client, err := w.Redis(ctx, c.URL)
	if err != nil {
		return err
	}
	log := w.Log
	source, err := bullmqsource.New(client, bullmqsource.Options{Queue: c.Queue, Prefix: c.Prefix, Lease: w.own.Lease, DeadLetters: true,
		Metrics: int(c.Metrics / time.Minute), Concurrency: w.own.Workers, Ahead: ahead(s.queues), Trace: w.Tracer != nil,
		KeepCompleted: &bullmqsource.Keep{Count: boundOf(w.own.KeptCompleted)}, KeepFailed: &bullmqsource.Keep{Count: boundOf(w.own.KeptFailed)},
		Report: func(r bullmqsource.Report) { w.OfJobs(log, intakeName, r) }})
	if err != nil {
		return err
	}
	s.intakes = append(s.intakes, crm.Intake{Name: intakeName, Source: source, Reopened: bullmqsource.Retried})
	w.Uses = append(w.Uses, fmt.Sprintf("BullMQ: %s, queue %s", c.URL, c.Queue))
	return nil
}

// ahead is how many events of CRM wait or are being handled.
func ahead(q queue.Inspector) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		n, err := q.Stats(ctx, crm.Queue)
		return int(n.Waiting + n.Leased), err
	}
}
