// Package queue is the role of a durable queue: jobs go in with a priority and a time, and
// come out under a lease until their settlement. A queue is a sink on one side (Intake) and
// a source on the other (Open), so it chains pipelines; it also serves as the embedded
// stream and the embedded topics.
//
// A job is a [tidemill.Message]. Within one queue its name is Tenant and ID together:
// adding a known name again is a no-op for as long as the queue remembers it, also after
// the job has ended, so that a producer may always send again.
//
// Three rules decide what is handed out next, in this order: priorities share by weight,
// tenants take turns, and each tenant's jobs go first in, first out. The limits of a queue,
// a tenant and a key apply at that moment; a job that is held back blocks no other. Each
// queue's [Settings] tune all of this.
//
//	       ┌────────────── Again ──────────────┐
//	Add ─► delayed ─► waiting ─► leased ─► completed ─► forgotten
//	           ▲         ▲          ├────► failed ────► forgotten
//	           └─────────┼── lease ends     │
//	                     └───── Retry ──────┘
//
// Backends: memoryqueue (the reference of the meaning, and what simulation runs on),
// sqlitequeue (one file) and redisqueue (shared by any number of processes). Every promise
// here is a case of package queuetest.
package queue

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/tidemill/tidemill"
)

// Added is the result of adding one job.
type Added uint8

const (
	New    Added = iota + 1 // durable, and counted as accepted
	Known                   // a job of this name was added before: nothing was done
	Full                    // the queue holds as many jobs as it may: nothing was done, try later
	Closed                  // the queue is being drained (Settings.Closed): nothing was done
)

// Remember is how long at least a job's name is known after it was added. It is known for as
// long as the job is stored, also when the job has ended and is kept.
const Remember = 24 * time.Hour

// Intake is for producers of jobs: ingest, fan-out, replay.
type Intake interface {
	// Add puts each job into the queue that its To names. After a nil error every job that is
	// New is durable, and added[i] is the result of jobs[i] (added may be nil; then Full and
	// Closed are errors of kind rate_limit). After an error nothing is promised: adding the
	// same jobs again is safe. A name given twice in one call is New once. Fields kept: ID,
	// Tenant, Type, Key, Payload, Header (but FailuresHeader, which is the queue's own), Time,
	// At, Priority.
	Add(ctx context.Context, jobs []*tidemill.Message, added []Added) error
}

// A Register tells, before a job is added, whether it was added before.
type Register interface {
	// Knows says for each name whether its queue knows it, so that Add would answer Known.
	// It writes to known, which is as long as names. A name that is being added meanwhile
	// may be known or not.
	Knows(ctx context.Context, names []Name, known []bool) error
}

// Inspector shows what is in queues.
type Inspector interface {
	// List yields the matching jobs of a queue, oldest first, and blocks no work. A job
	// with damaged bytes has no ID or payload, and a Cause that says so. It looks at other jobs too
	// where a tenant, a type or a time is chosen, up to Filter.Look: then its last error is a
	// *Rest. The waiting jobs of a tenant it finds without looking at others, unless order is
	// strict, but those that were put off or came back.
	List(ctx context.Context, f Filter) iter.Seq2[*Job, error]
	// Stats counts a queue's jobs by state, without reading each.
	Stats(ctx context.Context, queue string) (Stats, error)
}

// Core is what every backend has.
type Core interface {
	Intake
	Register
	Inspector
	// Open makes a source of the queue's jobs. It is also a tidemill.Keeper, Gater and
	// Bookkeeper. Several sources may be open on one queue, in several processes where the
	// backend is shared: each job is handed out under one lease at a time. Its traits:
	// Delays, Forwards, Keep, and Ordered as Options say.
	//
	// A hand-out is durable enough that Handed grows across a crash of the process: a job
	// that kills its worker is recognised.
	Open(queue string, o Options) tidemill.Source
}

// Store is a store with all abilities.
type Store interface {
	Core
	Tuner
	Mover
	Meter
	Limiter
}

// A Tuner changes how queues work while they run, durably and for all instances.
type Tuner interface {
	// Settings are those of a queue; the zero Settings where none were set.
	Settings(ctx context.Context, queue string) (Settings, error)
	// Set lets change alter the settings, and returns them. It may call change again after
	// a concurrent Set: no change is lost.
	Set(ctx context.Context, queue string, change func(*Settings)) (Settings, error)
}

// A Mover changes jobs by hand: those that a filter chooses (its Queue is required), at
// most Max of them. It leaves leased jobs alone. It returns how many it changed, also
// beside an error.
type Mover interface {
	// Retry makes failed jobs wait again as if they were added now, without counted tries:
	// the books count them as accepted once more. Their failures are kept.
	Retry(ctx context.Context, f Filter) (int, error)
	// Promote makes delayed jobs due.
	Promote(ctx context.Context, f Filter) (int, error)
	// Remove ends waiting and delayed jobs (the books count them as skipped), and deletes
	// those that are kept after their end. Their names stay known.
	Remove(ctx context.Context, f Filter) (int, error)
	// Look returns one job, or ErrNotFound.
	Look(ctx context.Context, n Name) (*Job, error)
	// Edit gives a job that has not completed another payload, if the job has the version that
	// was seen; empty: whatever it has. The same payload again changes nothing, whatever was
	// seen. ErrNotFound: no such job; ErrOut: it is being worked on; ErrChanged: it has another
	// version now. Of concurrent edits of one version, one is made.
	Edit(ctx context.Context, n Name, payload []byte, seen string) error
}

// A Meter reads more than Stats, without reading each job.
type Meter interface {
	// Queues are the names of all queues that ever had a job or a setting, sorted.
	Queues(ctx context.Context) ([]string, error)
	// Standing says how all queues stand, by their names, in one look. A store at a server
	// asks it in as few questions as it has parts, not in one for each queue.
	Standing(ctx context.Context) ([]Standing, error)
	// Depths says for each priority with waiting jobs how many there are and how long the
	// oldest has waited: its starvation age. The highest priority comes first.
	Depths(ctx context.Context, queue string) ([]Depth, error)
	// Tenants says the same for each tenant, for at most max of them (0: 100). It reads at
	// most ten times as many tenants and returns the deepest of those first. Without a queue it
	// says that of each, by their names: of at most max tenants of each, in one look.
	Tenants(ctx context.Context, queue string, max int) ([]Depth, error)
	// Tenant says for one tenant in which queues jobs of it wait, how many, and how long the oldest
	// has: one look over all queues, by their names. It looks at no other tenant's jobs.
	Tenant(ctx context.Context, tenant string) ([]Depth, error)
}

// A Limiter applies a queue's limits to work that is not a job of the queue: a replay of
// dead letters.
type Limiter interface {
	// Turn answers how many of n things of a tenant may be worked on now: as many as the
	// queue would hand out under the pause, the gate and the rate limits. They use up these
	// limits as jobs do. Where none may, at is when to ask again; zero: when somebody resumes
	// the queue. A gate whose time is over lets all through. With n 0, at is the gate's time
	// alone.
	Turn(ctx context.Context, queue, tenant string, n int) (may int, at time.Time, err error)
}

// Options tune a source of jobs; the zero value is ready to use.
type Options struct {
	Lease time.Duration // visibility timeout of a hand-out; 0 means 30s
	// Ordered asks for strict order per tenant and key, over all instances: it sets the
	// queue's setting (see Settings.Ordered), and Receive fails with kind validation while
	// that cannot be set.
	Ordered bool
}

// Name identifies a job.
type Name struct{ Queue, Tenant, ID string }

// Job is a message in a queue with its state.
type Job struct {
	tidemill.Message
	State State
	Cause string        // of the last failed try, or of its end
	Added time.Time     // when it was accepted
	Ended time.Time     // Completed, Failed: when
	Fate  tidemill.Fate // Completed, Failed: what it was

	Failures []Failure // failed tries, the oldest first: the newest MaxFailures. Header has them only at Receive
}

// State of a job.
type State string

// The states. Ended jobs are kept only where Settings say so.
const (
	Waiting   State = "waiting"   // due
	Delayed   State = "delayed"   // to come back later
	Leased    State = "leased"    // handed out
	Completed State = "completed" // ended: delivered or skipped
	Failed    State = "failed"    // ended: dead
)

// Held says whether a job in that state has not ended.
func (s State) Held() bool { return s != Completed && s != Failed }

// Filter chooses jobs; zero fields match all. A listing without a State shows those that
// have not ended.
type Filter struct {
	Queue, Tenant, Type string
	State               State
	IDs                 []string
	Before              time.Time // ended before, or where it has not ended: added before
	// After is the Mark of a listed job of the same Queue: only the jobs that follow it. That of
	// the last job of a page chooses the next page. A job that is added or retried is the newest
	// of its shard; any other change leaves a job where it is.
	After tidemill.Mark
	// Back lists the same jobs from the last to the first: within a queue and shard the newest
	// first. A page before another one is Back, after its first job.
	Back bool
	Max  int // 0: no limit
	Look int // how many jobs a listing of one queue looks at beside those that it yields; 0: no limit
}

// Rest is the error by which a listing ends that has looked at as many jobs as Filter.Look says.
// Those behind After it has not looked at: a listing with that After goes on there.
type Rest struct {
	After  tidemill.Mark
	Looked int // jobs that the filter does not choose
}

// Error says how much was looked at.
func (r *Rest) Error() string {
	return fmt.Sprintf("%d jobs that were not meant were looked at: list on behind the last of them", r.Looked)
}

// Stats of a queue. Waiting, Delayed and Leased are the jobs that it holds now; Completed
// and Failed those that it keeps after their end.
type Stats struct {
	Waiting, Delayed, Leased, Completed, Failed int64
	Oldest                                      time.Time // when the oldest job held was added; zero: none
}

// Standing is how a queue stands: what Stats, Settings and the counters of its books say.
type Standing struct {
	Queue    string
	Stats    Stats
	Settings Settings
	Books    tidemill.Books // Pending is 0, as nobody counts
}

// Depth is how much waits in one priority, or for one tenant.
type Depth struct {
	Queue    string // from Meter.Tenant, and from Meter.Tenants of all queues
	Priority uint8
	Tenant   string
	Waiting  int64
	Oldest   time.Time // when the oldest of them was added; zero: all wait behind others of their keys
}

// Sink lets a pipeline write into queues. A known job counts as written; a full or closed
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
		switch a {
		case Full:
			p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: FullError(batch[i].To)})
		case Closed:
			p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: ClosedError(batch[i].To)})
		}
	}
	if len(p.Failed) > 0 {
		return &p
	}
	return nil
}
