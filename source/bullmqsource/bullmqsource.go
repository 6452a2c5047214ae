// Package bullmqsource takes jobs from a BullMQ queue as one of its workers does. Use it
// where producers in Node.js (or another language that BullMQ has) add jobs with BullMQ 5 or
// 6, to work on them here: alone, or beside BullMQ's own workers, job by job.
//
// Jobs keep BullMQ's life cycle. What a producer asked for (attempts, backoff, delay, priority,
// deduplication, parents, removeOnComplete, removeOnFail) is done as BullMQ does it; QueueEvents
// and the getters of Queue see it; any worker that finds the jobs of a dead one brings them back.
// What this package knows of BullMQ's keys is written in common.lua; the scripts are its own, and
// take and end many jobs at a time.
//
// The engine's terms and BullMQ's:
//
//	a failed try (Again, CountTry)   the job's attempts and backoff decide, not the pipeline: it is
//	                             delayed as its backoff says, or failed when attempts are used up
//	Again without CountTry           delayed, without an attempt made
//	Done, Delivered or Skipped   completed, with the return value null or {"skipped": reason}
//	Done, Dead                   failed, whatever attempts are left, as by an UnrecoverableError
//	Left                         active until its lock ends, then waiting again, and not stalled
//
// Schedules (Job Schedulers, and the repeatable jobs of BullMQ 5) go on: taking a schedule's
// newest job adds the next one, at the time and with the options that a worker of BullMQ gives
// it. Patterns without a time zone are read in the process's own, as in BullMQ. If a program has
// its own repeatStrategy whose pattern is not a cron pattern, the job stays for BullMQ's workers
// (Report: Scheduled).
//
// Queues of other versions, and of BullMQ Pro, are refused. In a Redis Cluster the prefix needs
// a hash tag, as BullMQ's own does: "{bull}".
package bullmqsource

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	random "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// Options name a queue and tune its source; beside Queue the zero value is ready to use.
type Options struct {
	Queue  string // required
	Prefix string // of all keys; empty means "bull"
	Worker string // who processed a job, in its processedBy, and a worker's name in getWorkers; empty means "tidemill"

	Lease        time.Duration // how long a lock lasts unless it is renewed (lockDuration); 0 means 30s
	StalledEvery time.Duration // how often jobs of dead workers are looked for (stalledInterval); 0: half of Lease
	MaxStalled   int           // a job that was brought back this often fails when it stalls again (maxStalledCount); 0 means 1; below 0: at once

	Limit         Limit // of all workers together, where all have the same setting (limiter)
	KeepCompleted *Keep // default for jobs (removeOnComplete of a worker); nil: all
	KeepFailed    *Keep // default for jobs (removeOnFail of a worker); nil: all
	Metrics       int   // minutes that metrics are kept (maxDataPoints); 0: counted only where others do

	// Concurrency is how many jobs this source has at a time while workers of BullMQ are
	// connected, as the concurrency of a worker: all share the jobs by their capacity. Alone it
	// takes as many as it is asked for. 0: always.
	Concurrency int
	// Ahead is how many jobs were taken and settled before, and still wait where the pipeline put
	// them: they count as the source's own. Nil: none.
	Ahead func(context.Context) (int, error)

	// Backoff is how long a job waits after that many failed attempts if BullMQ does not know
	// the type of its backoff; below 0: it is not tried again. Nil: the pipeline decides.
	Backoff func(kind string, failed int) time.Duration

	// Letters says that the pipeline keeps dead letters. Without it, dead jobs are kept only
	// as BullMQ's failed jobs: Traits.Parks.
	DeadLetters bool

	// Trace gives each message the trace of its job, where BullMQ's telemetry put one, as its
	// headers traceparent and tracestate.
	Trace bool

	// Report is told what the engine cannot see. Several calls may make reports at a time, so
	// it must not block. Nil: no reports.
	Report func(Report)
}

// Limit is how many jobs may be started in a time; the zero value sets none. A limit for the
// whole queue (setGlobalRateLimit) and one set by hand (rateLimit) always hold.
type Limit struct {
	Jobs int
	Per  time.Duration
}

// Keep is how many ended jobs are kept.
type Keep struct {
	Count int           // the newest ones; 0: no bound; below 0: none
	Age   time.Duration // not older, in whole seconds; 0: no bound
}

// A Report tells of an event in the queue that the engine did not cause.
type Report struct {
	What  What
	Count int
	IDs   []string // of the jobs, where they are known: at most a hundred
	Text  string   // a sentence for an operator
}

// What is the subject of a Report.
type What string

// Subjects of reports.
const (
	Stalled   What = "stalled"   // jobs of dead workers were brought back
	Failed    What = "failed"    // jobs failed without work on them: they stalled too often, or a child of theirs failed
	Scheduled What = "scheduled" // a job of an unsupported schedule is left to BullMQ's workers
	Found     What = "found"     // jobs were given to us in an answer that was lost, and are handed out
)

// The defaults of Options.
const (
	lease      = 30 * time.Second // lockDuration of BullMQ
	answer     = 10 * time.Second // timeout of an answer
	longest    = 5 * time.Second  // of one wait (drainDelay of BullMQ); then a source looks again, woken or not
	beside     = time.Second      // of one wait beside workers of BullMQ: early versions take the marker of many jobs and wake nobody for the rest
	versioning = time.Minute      // interval of checking BullMQ's version
)

// Source is the jobs of a queue. It is a tidemill.Keeper too. It keeps no books: BullMQ's
// keys do not count accepted jobs.
type Source struct {
	client rueidis.Client
	o      Options
	base   string // of all keys
	meta   []string
	token  string // of our locks, before the hand-out

	// Of Receive's goroutine alone.
	missed  bool  // the answer to a take was lost
	plans   plans // of newest jobs of schedules
	checked time.Time
	named   bool // workers of this version have names
	workers workers

	here atomic.Pointer[rueidis.DedicatedClient] // the connection that shows us to others

	mu    sync.Mutex // guards what follows
	check time.Time  // when dead workers are looked for next
	outs  map[string]hold
	cache optionsCache
}

// hold is a job that is handed out.
type hold struct {
	hand  uint32 // which hand-out
	tries int    // failed before it
	opts  *options
}

var (
	_ tidemill.Source = (*Source)(nil)
	_ tidemill.Keeper = (*Source)(nil)
)

// New makes a source of a queue; it sends nothing to Redis yet.
func New(client rueidis.Client, o Options) (*Source, error) {
	switch {
	case client == nil:
		return nil, errors.New("source of a BullMQ queue: it needs a connection")
	case o.Queue == "" || strings.Contains(o.Queue, ":"):
		return nil, fmt.Errorf("source of a BullMQ queue: name the queue, without colons, not %q", o.Queue)
	case o.Lease < 0 || o.StalledEvery < 0 || o.Metrics < 0 || o.Concurrency < 0 || o.Limit.Jobs < 0 || o.Limit.Per < 0:
		return nil, fmt.Errorf("source of BullMQ queue %q: Lease, StalledEvery, Metrics, Concurrency and Limit cannot be below zero", o.Queue)
	case (o.Limit.Jobs > 0) != (o.Limit.Per >= time.Millisecond):
		return nil, fmt.Errorf("source of BullMQ queue %q: a limit has Jobs and Per, of a millisecond or more", o.Queue)
	}
	o.Prefix, o.Worker, o.Lease = cmp.Or(o.Prefix, "bull"), cmp.Or(o.Worker, "tidemill"), cmp.Or(o.Lease, lease)
	o.StalledEvery, o.MaxStalled = cmp.Or(o.StalledEvery, o.Lease/2), cmp.Or(o.MaxStalled, 1)
	if o.Lease < 100*time.Millisecond {
		return nil, fmt.Errorf("source of BullMQ queue %q: a lease of %v is too short, use a second or more", o.Queue, o.Lease)
	}
	base := o.Prefix + ":" + o.Queue + ":"
	if client.Mode() == rueidis.ClientModeCluster && !tagged(base) {
		return nil, fmt.Errorf("source of BullMQ queue %q: in a cluster its prefix needs a hash tag, as {%s}, there and here", o.Queue, o.Prefix)
	}
	if o.Report == nil {
		o.Report = func(Report) {}
	}
	return &Source{client: client, o: o, base: base, meta: []string{base + "meta"}, token: "tidemill-" + rand.Text(), outs: map[string]hold{}}, nil
}

// tagged says whether all keys with this prefix lie in one slot of a cluster.
func tagged(key string) bool {
	_, rest, ok := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return ok && closed && tag != ""
}

// Traits implements tidemill.Source.
func (s *Source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: !s.o.DeadLetters, Keep: s.o.Lease / 3}
}

// fail gives an error its kind and says what was being done.
func (s *Source) fail(err error, doing string) error {
	return forRedis(err, "%s BullMQ queue %q", doing, s.o.Queue)
}

// known refuses a queue whose version we do not know, by what its Queue wrote last. A queue
// without a version is one of an early BullMQ 5.
func (s *Source) known(ctx context.Context) error {
	if !s.checked.IsZero() && time.Since(s.checked) < versioning {
		return nil
	}
	version, err := s.client.Do(ctx, s.client.B().Hget().Key(s.meta[0]).Field("version").Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return s.fail(err, "read the version of")
	}
	if err := speaks(version); err != nil {
		return tidemill.Fail(tidemill.Validation, "source of BullMQ queue %q: %w", s.o.Queue, err)
	}
	s.checked, s.named = time.Now(), names(version)
	return nil
}

// speaks says whether we know what a version does.
func speaks(version string) error {
	name, number, _ := strings.Cut(version, ":")
	switch {
	case version == "":
		return nil
	case name != "bullmq":
		return fmt.Errorf("it belongs to %q: only BullMQ itself is known here, and this may keep its jobs elsewhere", version)
	case !strings.HasPrefix(number, "5.") && !strings.HasPrefix(number, "6."):
		return fmt.Errorf("it belongs to BullMQ %s: only 5 and 6 are known here", number)
	}
	return nil
}

func chance() float64 { return random.Float64() }
