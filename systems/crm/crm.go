package crm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

// Names of the system; of its queue, which is also the name of the pipeline that works on it
// and of its dead letters; and of the pipeline that opens dead letters' jobs again.
const (
	Name      = "crm"
	Queue     = accept.Queue
	DeadQueue = "crm-events-dlq"
)

// Parts are what the system is made of; all but Intakes are required.
type Parts struct {
	Queues      queue.Store
	DeadLetters deadletter.Store
	Log         ledger.Store // the sync log
	Replays     ledger.Store // the requested replays, with their progress; separate from the sync log
	Profiles    profile.Resolver
	Handlers    []handler.Spec
	Intakes     []Intake
}

// Intake is a source of events other than the ingest API, such as the queue of another system.
// The payload of each message is an event, and the message is settled when the event is in the
// queue.
type Intake struct {
	Name   string // of its pipeline
	Source tidemill.Source
	// Reopened says that a message died before, and that its source hands it out anew because
	// somebody retried it there: its dead letter is deleted. Nil: there are no such messages.
	Reopened func(*tidemill.Message) bool
}

// Unknown says what becomes of events without a handler.
type Unknown uint8

// What becomes of events without a handler.
const (
	Skip Unknown = iota // they are skipped, and counted
	Dead                // they become dead letters
)

// Options tune the system; the zero value is ready to use.
type Options struct {
	Workers int // handlers called at once by this instance; 0: 10
	// Batch is how many events a worker takes together at most. They share the calls of sync
	// log and profiles, and a handler of many events gets no more in a call; 0: 100.
	Batch int
	// Ahead is how many events this instance holds at once while handlers are slow: an urgent
	// event waits behind as many, of all workers together. While they are fast it holds what
	// they do within 25ms, or within the time that a batch waits for sync log and profiles, if
	// that is more, up to 250ms; at most 25 times as many. 0: 4 for each worker.
	Ahead int

	Attempts int           // all tries of an event; 0: 3
	Backoff  time.Duration // before the second try; then twice as long each time; 0: 1s
	// Lease is how long an event whose worker died is left alone, and the visibility timeout of
	// jobs; 0: 30s, or twice the slowest handler's timeout, whichever is more.
	Lease time.Duration

	PerSecond float64                // events of the queue, for all instances; 0: 100, below 0: no limit
	PerTenant float64                // of each tenant that is not among Tenants; 0: 50, below 0: no limit
	Tenants   map[string]queue.Limit // of single tenants, by name

	Completed int           // jobs kept after success; 0: 1,000, below 0: none
	Failed    int           // jobs kept after death; 0: 5,000, below 0: none
	DeadFor   time.Duration // age at which dead letters are deleted; 0: 7 days
	LogFor    time.Duration // age at which entries of the sync log are forgotten; 0: 90 days

	Unknown    Unknown         // events without a handler
	Create     bool            // a profile is made if an event's identity has none; else the event is retried
	Priorities *priority.Table // nil: the default rules; their prefixes hold for handlers too
	// ReplayAhead is how many jobs of replays wait in the queue at most; 0: 1,000.
	ReplayAhead int

	Log  *slog.Logger     // nil: nothing is logged
	Now  func() time.Time // nil: time.Now
	Seed uint64           // of the random numbers, also of replays' names: no two processes may share one; 0: from chance
	// GiveWay is that of all pipelines; nil: work gives way to nothing.
	GiveWay func(now time.Time, worked, late time.Duration) time.Duration

	Observe func(stage string, messages int, took time.Duration, err error)
	Settled func(pipeline string, ends []tidemill.Settlement)
	// Finished is told of every attempt that has ended. Workers call it concurrently.
	Finished func(Attempt)
}

// System is the running system with what its operators may ask of it.
type System struct {
	*flow.System
	p         Parts
	o         Options
	force     atomic.Pointer[force]
	acceptor  *accept.Acceptor
	pace      *pace                      // of the live pipeline
	sources   map[string]tidemill.Source // by pipeline
	matched   matched
	replays   replays
	unwritten unwritten
	expired   atomic.Uint64 // dead letters that were deleted for their age
}

// New puts the system together. It refuses a configuration that cannot work.
func New(p Parts, o Options) (*System, error) {
	s, err := newSystem(p, o)
	if err != nil {
		return nil, fmt.Errorf("crm: %w", err)
	}
	return s, nil
}

func newSystem(p Parts, o Options) (*System, error) {
	if p.Queues == nil || p.DeadLetters == nil || p.Log == nil || p.Replays == nil || p.Profiles == nil {
		return nil, errors.New("queues, dead letters, a sync log, a ledger of replays and profiles are needed")
	}
	if o.Priorities == nil {
		var err error
		if o.Priorities, err = priority.New(priority.Default()); err != nil {
			return nil, err
		}
	}
	handlers, err := handler.NewSet(o.Priorities.Prefixes(), p.Handlers...)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(handlers); err != nil {
		return nil, err
	}
	s := &System{p: p, o: o, sources: map[string]tidemill.Source{}}
	s.force.Store(&force{handlers: handlers, labels: newLabels(p.Handlers, o.Priorities), bounds: bounds{o.PerSecond, o.PerTenant, o.Tenants}})
	s.matched.now = o.Now
	s.replays.init(o)
	if s.acceptor, err = accept.New(p.Queues, accept.Options{Priorities: o.Priorities}); err != nil {
		return nil, err
	}
	pipelines, err := s.pipelines()
	if err != nil {
		return nil, err
	}
	s.System = flow.NewSystem(flow.SystemParts{Name: Name, Begin: []func(context.Context) error{s.begin}, Pipelines: pipelines, Loops: s.loops(), Log: o.Log, Now: o.Now})
	return s, nil
}

// pipelines are the live one, the one that opens dead events again, and those of intakes.
func (s *System) pipelines() ([]*flow.Engine, error) {
	s.pace = newPace(s.o.Workers, s.o.Ahead)
	live := s.pipeline(Queue, s.p.Queues.Open(Queue, queue.Options{Lease: s.o.Lease}))
	live.Work, live.Dead = s.work, letters{s.p.DeadLetters}
	live.Lanes, live.Batch, live.InFlight, live.Hold = s.o.Workers, s.o.Batch, s.pace.most, s.pace.hold
	live.Rules, live.Retry = handler.Rules(), policy.Retry{Tries: s.o.Attempts - 1, Base: s.o.Backoff, Factor: 2}
	live.Breaker = policy.Breaker{Fails: 5, Open: 5 * time.Second} // of our own databases
	live.Handouts = 10_000                                         // the sync log finds earlier which event kills: see maxBroken
	again := s.pipeline(DeadQueue, s.p.DeadLetters.Open(Queue))
	again.Work, again.Batch, again.Emits = steps("open again", s.openAgain), 100, queue.Sink(s.p.Queues)
	all := []flow.Pipeline{live, again}
	for _, in := range s.p.Intakes {
		if in.Name == "" || in.Source == nil || s.sources[in.Name] != nil {
			return nil, fmt.Errorf("intake %q: want a name of its own and a source", in.Name)
		}
		p := s.pipeline(in.Name, in.Source)
		p.Work, p.Dead, p.Batch, p.Emits = s.intake(in), s.p.DeadLetters, 100, queue.Sink(s.p.Queues)
		r := s.pipeline(in.Name+".replay", s.p.DeadLetters.Open(in.Name))
		r.Work, r.Batch, r.Emits = steps("take in", s.takeIn), 100, p.Emits
		all = append(all, p, r)
	}
	engines := make([]*flow.Engine, len(all))
	for i, p := range all {
		var err error
		if engines[i], err = flow.New(p); err != nil {
			return nil, err
		}
	}
	return engines, nil
}

// steps makes a work of one stage, which is harmless to repeat.
func steps(name string, do func(*flow.Item[struct{}]) error) func(flow.Env) flow.Work {
	return flow.Steps[struct{}]{
		Decode: func(*tidemill.Message, *struct{}) error { return nil },
		Stages: []flow.Stage[struct{}]{{Name: name, Repeat: true, Do: each(do)}},
	}.Lane
}

// each does something with every item of a batch.
func each(do func(*flow.Item[struct{}]) error) func(context.Context, []*flow.Item[struct{}]) error {
	return func(_ context.Context, batch []*flow.Item[struct{}]) error {
		for _, it := range batch {
			if err := do(it); err != nil {
				it.Fail(err)
			}
		}
		return nil
	}
}

// intake is the work on an intake's messages.
func (s *System) intake(in Intake) func(flow.Env) flow.Work {
	reopen := func(ctx context.Context, batch []*flow.Item[struct{}]) error {
		var ids []string
		for _, it := range batch {
			if in.Reopened != nil && in.Reopened(&it.Message) {
				ids = append(ids, it.ID)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		_, err := s.p.DeadLetters.Delete(ctx, deadletter.Filter{Pipeline: in.Name, IDs: ids})
		return err
	}
	return flow.Steps[struct{}]{
		Decode: func(*tidemill.Message, *struct{}) error { return nil },
		Stages: []flow.Stage[struct{}]{
			{Name: "close dead letters", Repeat: true, Do: reopen},
			{Name: "take in", Repeat: true, Do: each(s.takeIn)},
		},
	}.Lane
}

// takeIn makes a job of an intake's event.
func (s *System) takeIn(it *flow.Item[struct{}]) error {
	job, err := s.acceptor.Job(it.Payload)
	if err != nil {
		return err
	}
	it.Emit(job)
	it.Deliver()
	return nil
}

// pipeline is what all pipelines have in common.
func (s *System) pipeline(name string, source tidemill.Source) flow.Pipeline {
	s.sources[name] = source
	p := flow.Pipeline{Name: name, Source: source, Log: s.o.Log, Now: s.o.Now, Observe: s.o.Observe, GiveWay: s.o.GiveWay}
	if s.o.Seed != 0 {
		p.Rand = rand.New(rand.NewPCG(s.o.Seed, uint64(len(s.sources))))
	}
	if s.o.Settled != nil {
		p.Settled = func(ends []tidemill.Settlement) { s.o.Settled(name, ends) }
	}
	return p
}

// begin gives the queue the settings of the options, for all instances.
func (s *System) begin(ctx context.Context) error {
	return s.setUp(ctx, s.force.Load().bounds)
}

// setUp gives the queue its settings, with these limits.
func (s *System) setUp(ctx context.Context, b bounds) error {
	_, err := s.p.Queues.Set(ctx, Queue, func(q *queue.Settings) {
		q.Completed.Count, q.Failed.Count = max(s.o.Completed, 0), max(s.o.Failed, 0)
		q.Weights = map[uint8]int{priority.Replay: 1, priority.Low: 4, priority.Normal: 16, priority.High: 64}
		q.Limit.PerSecond, q.Limit.Burst = rate(b.perSecond)
		q.Tenant.PerSecond, q.Tenant.Burst = rate(b.perTenant)
		q.Configure(queue.Configured{Tenants: b.tenants})
	})
	if err != nil {
		return fmt.Errorf("set up queue %s: %w", Queue, err)
	}
	return nil
}

// rate is a limit, and its burst of a fifth of a second: a quiet tenant's few events need not
// wait between them.
func rate(perSecond float64) (float64, int) {
	if perSecond <= 0 {
		return 0, 0
	}
	return perSecond, max(1, int(math.Ceil(perSecond/5)))
}

// loops are the side jobs.
func (s *System) loops() []flow.Loop {
	return []flow.Loop{
		{Name: "delete old dead letters", Every: time.Minute, AtStart: true, Do: s.expireLetters},
		{Name: "forget old entries of the sync log", Every: time.Minute, Do: s.expireLog},
		{Name: "replays", Every: time.Second, Do: s.replayOn},
	}
}

func (s *System) expireLog(ctx context.Context) error {
	const step = 1000
	before := s.o.Now().Add(-s.o.LogFor)
	for _, l := range []ledger.Expirer{s.p.Log, s.p.Replays} {
		for {
			n, err := l.Expire(ctx, before, step)
			if err != nil {
				return err
			}
			if n < step {
				break
			}
		}
	}
	return nil
}

// Acceptor accepts events into the system's queue.
func (s *System) Acceptor() *accept.Acceptor { return s.acceptor }

func (o Options) withDefaults(h *handler.Set) (Options, error) {
	if o.Workers < 0 || o.Batch < 0 || o.Ahead < 0 || o.Attempts < 0 || o.Backoff < 0 || o.Lease < 0 || o.DeadFor < 0 || o.LogFor < 0 || o.ReplayAhead < 0 {
		return o, errors.New("workers, batch, ahead, attempts, backoff, lease, ages and replay ahead cannot be below zero")
	}
	o.Workers, o.Batch = cmp.Or(o.Workers, 10), cmp.Or(o.Batch, 100)
	o.Ahead = max(cmp.Or(o.Ahead, 4*o.Workers), o.Workers)
	o.Attempts, o.Backoff = cmp.Or(o.Attempts, 3), cmp.Or(o.Backoff, time.Second)
	o.Lease = max(cmp.Or(o.Lease, queue.Lease), 2*(h.Longest()+handler.Grace))
	o.PerSecond, o.PerTenant = cmp.Or(o.PerSecond, 100), cmp.Or(o.PerTenant, 50)
	o.Completed, o.Failed = cmp.Or(o.Completed, 1000), cmp.Or(o.Failed, 5000)
	o.DeadFor, o.LogFor = cmp.Or(o.DeadFor, 7*24*time.Hour), cmp.Or(o.LogFor, 90*24*time.Hour)
	o.ReplayAhead = cmp.Or(o.ReplayAhead, 1000)
	if o.Unknown > Dead {
		return o, fmt.Errorf("unknown types: %d is neither skip nor dead", o.Unknown)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
