// Package queue is the role of a durable queue: jobs go in with a priority and a time,
// and come out under a lease until their settlement. A queue is a sink on one side
// (Intake) and a source on the other (Open), so it chains pipelines; it is the embedded
// stream and the embedded topics too.
//
// A job is a [tidemill.Message]. Within one queue its name is Tenant and ID together:
// adding a known name again is a no-op for as long as the queue remembers it, also after
// the job has ended, so that a producer may always send again.
//
// Backends: memoryqueue (the reference of the meaning, and what simulation runs on) and
// sqlitequeue (one file). Every promise here is a case of package queuetest.
package queue

import (
	"context"
	"iter"
	"time"

	"github.com/tidemill/tidemill"
)

// Added is what became of one job that was to be added.
type Added uint8

const (
	New   Added = iota + 1 // durable, and counted as accepted
	Known                  // a job of this name was added before: nothing was done
	Full                   // the queue holds as many as it may: nothing was done, try later
)

// Remember is how long a job's name is known after it was added, at the least.
const Remember = 24 * time.Hour

// Intake is for who brings jobs: ingest, fan-out, replay.
type Intake interface {
	// Add puts each job into the queue that its To names. After a nil error every job
	// that is New is durable and added[i] says what became of jobs[i] (added may be nil;
	// then Full is an error of kind rate_limit). After an error nothing is promised:
	// adding the same jobs again is safe. A name given twice in one call is New once.
	// Fields kept: ID, Tenant, Type, Key, Payload, Header, Time, At, Priority.
	Add(ctx context.Context, jobs []*tidemill.Message, added []Added) error
}

// Desk is for operators.
type Desk interface {
	// List yields the jobs of a queue that match, oldest first, without holding up work.
	List(ctx context.Context, f Filter) iter.Seq2[*Job, error]
	// Stats counts a queue's jobs by state.
	Stats(ctx context.Context, queue string) (Stats, error)
}

// Store is all of the role.
type Store interface {
	Intake
	Desk
	// Open makes a source of the queue's jobs. It is also a tidemill.Keeper, Gater and
	// Bookkeeper. Several sources may be open on one queue: each job is out under one
	// lease at a time. Its traits: Delays, Forwards, Keep.
	//
	// Oldest first among the jobs that are due. A hand-out is durable enough that Handed
	// grows across a crash of the process: a job that kills its worker is recognised.
	Open(queue string, o Options) tidemill.Source
}

// Options tune a source of jobs; the zero value is ready to use.
type Options struct {
	Lease time.Duration // visibility timeout of what is handed out; 0 means 30s
}

// Job is a message in a queue with its state.
type Job struct {
	tidemill.Message
	State State
	Cause string // of the last failed try
}

// State of a job that has not ended.
type State string

const (
	Waiting State = "waiting" // due
	Delayed State = "delayed" // to come back later
	Leased  State = "leased"  // handed out
)

// Filter chooses jobs; zero fields match all.
type Filter struct {
	Queue, Tenant, Type string
	State               State
	IDs                 []string
	Max                 int // 0: no limit
}

// Stats of a queue. Waiting, Delayed and Leased are what it holds now.
type Stats struct {
	Waiting, Delayed, Leased int64
	Oldest                   time.Time // when the oldest job held was added; zero: none
}

// Sink lets a pipeline write into queues. Known jobs are as good as written; a full
// queue is a Partial with kind rate_limit.
func Sink(in Intake) tidemill.Sink { return sink{in} }

type sink struct{ in Intake }

func (s sink) Write(ctx context.Context, batch []*tidemill.Message) error {
	added := make([]Added, len(batch))
	if err := s.in.Add(ctx, batch, added); err != nil {
		return err
	}
	var p tidemill.Partial
	for i, a := range added {
		if a == Full {
			p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.RateLimit, "queue %q is full", batch[i].To)})
		}
	}
	if len(p.Failed) > 0 {
		return &p
	}
	return nil
}
