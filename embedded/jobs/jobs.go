// Package jobs is a durable queue with workers in one file. Use it in a program that has work
// to do later, exactly counted, and wants no server for it.
//
//	q, err := jobs.Open(ctx, "shop.db", jobs.Options{})
//	defer q.Close()
//	err = q.Add(ctx, &tidemill.Message{To: "mail", ID: "welcome-7", Payload: []byte("ann@example.com")})
//	err = q.Work(ctx, "mail", func(ctx context.Context, job *tidemill.Message) error {
//		return send(ctx, string(job.Payload))
//	}, jobs.Workers{})
//
// Add returns when the jobs are on disk. Each is worked on until it is done, is skipped, or has
// failed too often; then it is a dead letter, which can be looked at, edited and replayed. A
// worker that dies leaves its job to the next after the lease (30 s), so a job can be worked on
// twice: its ID is the idempotency key to hand on.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/open"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// Options of a file; the zero value is ready to use.
type Options struct {
	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// Queues are the queues of one file, with their dead letters. Its methods may be called by any
// number of goroutines.
type Queues struct {
	o     Options
	file  *open.SQLiteDB
	store *sqlitequeue.Store
	dead  deadletter.Store
}

// Open opens a file, and makes it where there is none. No other process may have it open.
func Open(ctx context.Context, path string, o Options) (_ *Queues, err error) {
	q := &Queues{o: o}
	if q.file, err = open.SQLite(ctx, path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.file.Close())
		}
	}()
	if q.store, err = sqlitequeue.New(ctx, q.file, sqlitequeue.Options{Now: o.Now, Log: o.Log}); err != nil {
		return nil, err
	}
	letters, err := sqlitetable.New(ctx, q.file, tabledeadletter.Spec())
	if err != nil {
		return nil, err
	}
	if q.dead, err = tabledeadletter.New(ctx, letters, tabledeadletter.Options{Options: deadletter.Options{Now: o.Now}}); err != nil {
		return nil, err
	}
	return q, nil
}

// Close closes the file. Call it after Work has returned.
func (q *Queues) Close() error { return q.file.Close() }

// Add puts each job into the queue that its To names, and returns when all are on disk. A job
// whose ID its queue knows, for a day at least, is not added again. After an error the same jobs
// may be added again. A job may say when it is due (At), how urgent it is (Priority), and whose
// it is (Tenant: tenants take turns).
func (q *Queues) Add(ctx context.Context, jobs ...*tidemill.Message) error {
	return q.store.Add(ctx, jobs, nil)
}

// Store has what else there is to see and to change: jobs, counts, limits, pauses.
func (q *Queues) Store() queue.Store { return q.store }

// DeadLetters are the jobs that were given up. The Pipeline of a dead letter is its queue. One
// that is replayed is worked on by the queue's Work.
func (q *Queues) DeadLetters() deadletter.Store { return q.dead }

// Books count what became of a queue's jobs: accepted = delivered + skipped + dead + pending.
func (q *Queues) Books(ctx context.Context, name string) (tidemill.Books, error) {
	b, ok := q.store.Open(name, queue.Options{}).(tidemill.Bookkeeper)
	if !ok {
		return tidemill.Books{}, errors.New("jobs: the queue keeps no books")
	}
	return b.Books(ctx)
}

// Workers say how a queue is worked on; the zero value is ready to use.
type Workers struct {
	Count    int           // jobs worked on at once; 0: 10
	Attempts int           // of one job; 0: 3
	Backoff  time.Duration // before the second attempt; then twice as long each time; 0: 1 s
	Timeout  time.Duration // of one attempt; 0: none
}

// Work works on the jobs of a queue until ctx ends, and then finishes what has begun. After nil
// a job is done. An error of kind validation, business or another that no retry can mend
// (tidemill.Fail) makes it a dead letter at once, any other error is a failed attempt, and so is
// a panic. In a queue whose settings say Ordered (Store, before its first job) the jobs of one
// Tenant and Key go one after the other. Work returns an error if it could not begin.
func (q *Queues) Work(ctx context.Context, name string, do func(context.Context, *tidemill.Message) error, w Workers) error {
	if w.Count < 0 || w.Attempts < 0 || w.Backoff < 0 || w.Timeout < 0 {
		return fmt.Errorf("jobs: workers %+v: allowed are 0, which is the default, and more", w)
	}
	count, attempts, backoff := cmp.Or(w.Count, 10), cmp.Or(w.Attempts, 3), cmp.Or(w.Backoff, time.Second)
	set, err := q.store.Settings(ctx, name)
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	live := flow.Pipeline{
		Name: name, Source: q.store.Open(name, queue.Options{Ordered: set.Ordered}), Dead: q.dead,
		Work:  flow.Steps[struct{}]{Decode: func(*tidemill.Message, *struct{}) error { return nil }, Stages: []flow.Stage[struct{}]{{Name: "work", Repeat: true, Timeout: w.Timeout, Do: one(do)}}}.Lane,
		Lanes: count, Batch: 1, Retry: policy.Retry{Tries: attempts - 1, Base: backoff, Factor: 2}, Log: q.o.Log, Now: q.o.Now,
	}
	if set.Ordered {
		live.Lane = flow.ByKey
	}
	again := live
	again.Name, again.Source, again.Dead, again.Lane = name+".replay", q.dead.Open(name), nil, nil
	parts := flow.SystemParts{Name: name, Log: q.o.Log, Now: q.o.Now, Loops: []flow.Loop{{Name: "queue names", Every: time.Minute, Do: q.store.Sweep}}}
	for _, p := range []flow.Pipeline{live, again} {
		e, err := flow.New(p)
		if err != nil {
			return fmt.Errorf("jobs: %w", err)
		}
		parts.Pipelines = append(parts.Pipelines, e)
	}
	return flow.NewSystem(parts).Run(ctx)
}

// one works on the jobs of a batch, of which there is one.
func one(do func(context.Context, *tidemill.Message) error) func(context.Context, []*flow.Item[struct{}]) error {
	return func(ctx context.Context, batch []*flow.Item[struct{}]) error {
		for _, it := range batch {
			if err := do(ctx, &it.Message); err != nil {
				return err
			}
			it.Deliver()
		}
		return nil
	}
}
