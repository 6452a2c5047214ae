package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Name of the system.
const Name = "delivery"

// The queues of the ingest API, by how urgent their events are, and the prefix of the names of
// partners' queues. The pipelines that route have names of their own, under which their dead
// letters are kept.
const (
	High     = accept.High     // purchases and conversions
	Standard = accept.Standard // everything else
	Low      = accept.Low      // what came in large batches
	partners = "s2s."
)

// EventQueues are the queues of the ingest API.
func EventQueues() []string { return []string{High, Standard, Low} }

// QueueOf names the queue of a partner, and its pipeline.
func QueueOf(partner string) string { return partners + partner }

// PartnerOf is the partner whose queue that is; false: it is no partner's.
func PartnerOf(queue string) (name string, is bool) { return strings.CutPrefix(queue, partners) }

// ReplayOf names the pipeline that replays the dead letters of another.
func ReplayOf(pipeline string) string { return pipeline + ".replay" }

// ConversionHeader marks the job of an event that came as a conversion: it is sent as a
// purchase is. GPCHeader marks a job whose request said Sec-GPC: 1.
const (
	ConversionHeader = accept.ConversionHeader
	GPCHeader        = "gpc"
)

// Parts are what the system is made of; all are required.
type Parts struct {
	Queues      queue.Store
	DeadLetters deadletter.Store
	Sent        ledger.Store // of what is sent once, and by replays: (event, partner)
	Partners    []partner.Partner
	Env         partner.Env // to build partners with; the system sets Key, Turn and Observe
}

// Options tune the system; the zero value is ready to use.
type Options struct {
	Workers int                    // of each queue when idle; 0: 10
	Most    int                    // of each queue when busy; 0: 100
	Batch   int                    // events routed together; 0: 100
	Lease   time.Duration          // visibility timeout, extended while a job is worked on; 0: 30s
	Keep    time.Duration          // of the entries of what was sent once; 0: 30 days
	Limit   int                    // most jobs that wait for a partner, where its description does not say; 0: 10,000,000
	Kept    queue.Keep             // ended jobs that still show what became of them, in each queue; zero: 10,000 for a day
	Tenants map[string]queue.Limit // limits of sites' jobs in each partner's queue
	Absent  func(site string) bool // whether events without any consent go to partners; nil: they do

	Log  *slog.Logger     // nil: nothing is logged
	Now  func() time.Time // nil: time.Now
	Seed uint64           // of the jitter; 0: from chance
	// GiveWay is that of all pipelines; nil: work gives way to nothing.
	GiveWay func(now time.Time, worked, late time.Duration) time.Duration

	Observe func(stage string, messages int, took time.Duration, err error)
	Settled func(pipeline string, ends []tidemill.Settlement)
}

// System is the running system with what its operators may ask of it.
type System struct {
	*flow.System
	p       Parts
	o       Options
	force   atomic.Pointer[force]
	sources map[string]tidemill.Source // of the pipelines that stay, by name
	streams uint64                     // of random numbers, that pipelines have
	chance  chance
}

// target is a partner with its pipelines.
type target struct {
	*partner.Built
	from    partner.Partner            // its description
	env     partner.Env                // with its secrets
	secrets map[string]tidemill.Secret // that it was built with
	sources map[string]tidemill.Source // by pipeline

	queue  string
	live   *flow.Engine
	replay *flow.Engine
	over   *flow.Engine // of jobs that found no room in its queue
	limit  int64        // jobs that may wait in its queue
	level  level
	gate   tidemill.Gater // of its queue
	scale  scaling
	health health
	alone  time.Time // until when only this instance leaves it alone; for obey

	requests requests
}

// New puts the system together. It refuses a configuration that cannot work, and names the
// partner.
func New(p Parts, o Options) (*System, error) {
	if p.Queues == nil || p.DeadLetters == nil || p.Sent == nil {
		return nil, errors.New("delivery: queues, dead letters and a ledger are needed")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &System{p: p, o: o, sources: map[string]tidemill.Source{}, chance: chance{rand: o.random(1 << 32)}}
	engines, err := s.routes()
	if err != nil {
		return nil, fmt.Errorf("delivery: %w", err)
	}
	loops := s.loops()
	first := &force{absent: o.Absent, tenants: o.Tenants}
	for _, described := range p.Partners {
		t, err := s.target(described, first.targets, p.Env)
		if err != nil {
			return nil, fmt.Errorf("delivery: %w", err)
		}
		first.targets = append(first.targets, t)
		engines, loops = append(engines, t.engines()...), append(loops, s.loopsOf(t)...)
	}
	s.force.Store(first.counting())
	s.System = flow.NewSystem(flow.SystemParts{Name: Name, Begin: []func(context.Context) error{s.begin}, Pipelines: engines, Loops: loops, Log: o.Log, Now: o.Now,
		Close: []func() error{s.closeTargets}})
	return s, nil
}

// force is what is in force of what a reload may change. Nothing in it is changed: a reload puts
// another one in its place. Who does something looks once, and ends it by what it saw.
type force struct {
	targets []*target
	retired []*retired
	counts  map[string]*atomic.Int64 // by partners' queues and parked queues: the counts of level
	absent  func(site string) bool
	tenants map[string]queue.Limit
}

// now is what is in force.
func (s *System) now() *force { return s.force.Load() }

// counting fills in the counts.
func (f *force) counting() *force {
	f.counts = map[string]*atomic.Int64{}
	for _, t := range f.targets {
		f.counts[t.queue], f.counts[ParkedOf(t.Name)] = &t.level.queued, &t.level.parked
	}
	return f
}

func (t *target) engines() []*flow.Engine { return []*flow.Engine{t.live, t.replay, t.over} }

// target builds a partner beside others, with its pipelines.
func (s *System) target(described partner.Partner, others []*target, env partner.Env) (*target, error) {
	if slices.ContainsFunc(others, func(t *target) bool { return t.Name == described.Name }) {
		return nil, fmt.Errorf("partner %s: it is there twice", described.Name)
	}
	t := &target{from: described, env: env, secrets: map[string]tidemill.Secret{}, sources: map[string]tidemill.Source{}, queue: QueueOf(described.Name)}
	t.health.now, t.requests.now = s.o.Now, s.o.Now
	if secret := env.Secret; secret != nil {
		env.Secret = func(name string) (tidemill.Secret, bool) {
			v, found := secret(name)
			t.secrets[name] = v
			return v, found
		}
	}
	env.Key, env.Turn, env.Observe, env.Now = EventOf, t.requests.wait, t.observe, s.o.Now
	built, err := described.Build(env)
	if err != nil {
		return nil, err
	}
	t.Built = built
	t.limit = int64(cmp.Or(built.Queue.Jobs, s.o.Limit))
	if err = s.sender(t); err == nil {
		err = s.parker(t)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (s *System) closeTargets() error {
	for _, t := range s.now().targets {
		t.Close()
	}
	return nil
}

// begin gives the queues the settings of the configuration, for all instances.
func (s *System) begin(ctx context.Context) error {
	for _, name := range EventQueues() {
		if _, err := s.p.Queues.Set(ctx, name, func(q *queue.Settings) { q.Completed, q.Failed = s.o.Kept, s.o.Kept }); err != nil {
			return fmt.Errorf("set up queue %s: %w", name, err)
		}
	}
	for _, t := range s.now().targets {
		if err := s.setUp(ctx, t, s.now().tenants); err != nil {
			return err
		}
	}
	if err := s.levels(ctx, s.now().targets); err != nil {
		return err
	}
	return s.warnLeft(ctx)
}

// setUp gives the queues of a partner their settings.
func (s *System) setUp(ctx context.Context, t *target, tenants map[string]queue.Limit) error {
	_, err := s.p.Queues.Set(ctx, t.queue, func(q *queue.Settings) {
		q.Completed, q.Failed, q.Ordered, q.Max = s.o.Kept, s.o.Kept, t.Ordered, unbounded
		q.Configure(queue.Configured{Limit: t.Limit, Tenants: tenants})
	})
	if err != nil {
		return fmt.Errorf("set up queue %s: %w", t.queue, err)
	}
	_, err = s.p.Queues.Set(ctx, ParkedOf(t.Name), func(q *queue.Settings) {
		q.Completed, q.Failed, q.Ordered, q.Max = s.o.Kept, s.o.Kept, t.Ordered, unbounded
	})
	if err != nil {
		return fmt.Errorf("set up queue %s: %w", ParkedOf(t.Name), err)
	}
	return nil
}

// loops are the side jobs.
func (s *System) loops() []flow.Loop {
	loops := []flow.Loop{{Name: "forget what was sent", Every: time.Minute, Do: func(ctx context.Context) error {
		_, err := s.p.Sent.Expire(ctx, s.o.Now().Add(-s.o.Keep), 10_000)
		return err
	}}}
	return append(loops, flow.Loop{Name: "circuits", Every: time.Second, Do: s.obey})
}

// loopsOf are the side jobs of a partner.
func (s *System) loopsOf(t *target) (loops []flow.Loop) {
	if t.Queue.Full == partner.DropOldest {
		loops = append(loops, flow.Loop{Name: "drop the oldest of " + t.Name, Every: time.Second, Do: func(ctx context.Context) error { return s.dropOldest(ctx, t) }})
	}
	if t.ages() {
		loops = append(loops, flow.Loop{Name: "drop the expired of " + t.Name, Every: sweepExpired, Do: func(ctx context.Context) error { return s.dropExpired(ctx, t) }})
	}
	return append(loops, flow.Loop{Name: "workers of " + t.Name, Every: time.Second, Do: func(context.Context) error { return t.resize(s.o.Log) }})
}

// handouts is how often an event may be handed out without a failed try. Probing a partner that
// is down hands out the same few events for weeks. An outage of the ledger brings all back
// every few seconds, for days. No event may die of either.
const handouts = 1_000_000

// pipeline is what all pipelines have in common. Its source is noted in among.
func (s *System) pipeline(among map[string]tidemill.Source, name string, source tidemill.Source) flow.Pipeline {
	among[name] = source
	p := flow.Pipeline{Name: name, Source: source, Handouts: handouts, Log: s.o.Log, Now: s.o.Now, Rand: s.o.random(s.streams), Observe: s.o.Observe, GiveWay: s.o.GiveWay}
	s.streams++ // each has its own
	p.Settled = func(ends []tidemill.Settlement) {
		s.moved(name, ends)
		if s.o.Settled != nil {
			s.o.Settled(name, ends)
		}
	}
	return p
}

// open makes a source of a queue's jobs.
func (s *System) open(name string, lease time.Duration, ordered bool) tidemill.Source {
	if lease == 0 {
		lease = s.o.Lease
	}
	return s.p.Queues.Open(name, queue.Options{Lease: lease, Ordered: ordered})
}

// random is where a pipeline's jitter comes from.
func (o Options) random(stream uint64) *rand.Rand {
	if o.Seed == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(o.Seed, stream))
}

// chance is random numbers for loops.
type chance struct {
	mu   sync.Mutex
	rand *rand.Rand // nil: from chance
}

func (c *chance) next() uint64 {
	if c.rand == nil {
		return rand.Uint64()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.Uint64()
}

func (o Options) withDefaults() (Options, error) {
	if o.Workers < 0 || o.Most < 0 || o.Batch < 0 || o.Lease < 0 || o.Keep < 0 || o.Limit < 0 {
		return o, errors.New("delivery: workers, batch, lease, keep and limit cannot be below zero")
	}
	o.Workers = cmp.Or(o.Workers, 10)
	o.Most = cmp.Or(o.Most, max(100, o.Workers))
	o.Batch = cmp.Or(o.Batch, 100)
	o.Limit = cmp.Or(o.Limit, 10_000_000)
	o.Lease = cmp.Or(o.Lease, queue.Lease)
	o.Keep = cmp.Or(o.Keep, 30*24*time.Hour)
	if o.Kept == (queue.Keep{}) {
		o.Kept = queue.Keep{Count: 10_000, Age: 24 * time.Hour}
	}
	if o.Most < o.Workers {
		return o, fmt.Errorf("delivery: %d workers at most are fewer than the %d there always are", o.Most, o.Workers)
	}
	if o.Absent == nil {
		o.Absent = func(string) bool { return true }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// rules say what failures mean between us and a partner, which may ask for less only so often.
// A transient failure is our own ledger's, before anything was sent: it does not count as a
// try, nor against the partner.
var rules = policy.Table{
	tidemill.RateLimit: {Do: policy.Retrying, CountTry: true},
	tidemill.Transient: {Do: policy.Retrying},
}
