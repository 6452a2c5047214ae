// Package analytics is the system that turns product-analytics events into one row per
// event in a warehouse, each under the right person, with nothing lost:
//
//	source → decode, validate → merge, resolve → enrich → persons → events → settled
//	                                                   ↘ dead letters → replay, the same way again
//
// The rules are here and in the roles they use. The caller chooses the product behind each role
// (package connect).
package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics/catalog"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Name of the system, of its pipeline and of the queue it reads.
const Name = "analytics"

// ReplayName is the pipeline that replays the dead letters.
const ReplayName = Name + ".replay"

// Parts are what the system is made of. Sources, stores and locks are required, the rest is
// not.
type Parts struct {
	Source      tidemill.Source
	Persons     person.Store
	Warehouse   warehouse.Store
	Definitions definition.Definitions
	DeadLetters deadletter.Store
	Locks       lock.Locks

	Projects project.Projects             // nil: events of any project are accepted
	Agent    func(ua string) enrich.Agent // nil: user agents are not parsed
	Country  func(ip string) string       // nil: no countries
	Overflow tidemill.Source              // of dominating projects, a pipeline of its own; nil: none
	Circuit  Circuit                      // shared by all instances; nil: one made of Locks

	// Damaged counts the events whose bytes the source found changed since they were written:
	// dead in its books, and kept apart without a dead letter. Nil: there are none.
	Damaged func(context.Context) (int, error)
}

// Options tune the system; the zero value is ready to use.
type Options struct {
	Batch    int           // events flushed together; 0 means 1000
	Age      time.Duration // how long the first of a batch waits for the rest; 0 means 5s
	Lanes    int           // flushes at once; 0 means 1
	InFlight int           // events received and not settled; 0 means 2000 + Batch per lane
	Handouts int           // hand-outs after which an unread event is dead; 0 means 100, below 0 no limit

	Clock event.Clock // bounds the times of events that did not come through the ingest API

	MergeIdentified MergeIdentified // which events may merge an identified person into another; empty: MergeByEvent

	Replay      time.Duration // how often failed batches are replayed; 0 means 5m, negative never
	ReplayBatch int           // dead letters per replay; 0 means 100
	ReplayPause time.Duration // how long replays pause on every instance after five have failed in a row; 0 means 5m

	Log  *slog.Logger     // nil: nothing is logged
	Now  func() time.Time // nil: time.Now
	Seed uint64           // of the jitter; 0: from chance
	// GiveWay is that of all pipelines; nil: work gives way to nothing.
	GiveWay func(now time.Time, worked, late time.Duration) time.Duration

	// Observe is told of every call of a stage, and Settled of every settlement.
	Observe func(stage string, messages int, took time.Duration, err error)
	Settled func(ends []tidemill.Settlement)
}

// MergeIdentified says which events may merge an already identified person into another. A
// merge cannot be undone, and a shared device would make two users one.
type MergeIdentified string

// The values of MergeIdentified.
const (
	MergeNever   MergeIdentified = "never"  // none; $merge_dangerously is refused too
	MergeByEvent MergeIdentified = "event"  // $merge_dangerously
	MergeAlways  MergeIdentified = "always" // $identify and $create_alias too
)

// System is the running system with what its operators may ask of it.
type System struct {
	*flow.System
	Pipeline *flow.Engine
	Replayer *flow.Engine
	Warnings *Warnings

	parts    Parts
	options  Options
	catalog  *catalog.Catalog
	letters  tidemill.Source // for replays
	projects silence
	persons  silence
	keeps    atomic.Bool   // kept merges of earlier batches may exist
	keeping  chan struct{} // has room for the one running call of mergeKept
	replays  results
}

// New puts the system together.
func New(p Parts, o Options) (*System, error) {
	if p.Source == nil || p.Persons == nil || p.Warehouse == nil || p.Definitions == nil || p.DeadLetters == nil || p.Locks == nil {
		return nil, errors.New("analytics: a source, persons, a warehouse, definitions, dead letters and locks are needed")
	}
	o = o.withDefaults()
	if p.Circuit == nil {
		p.Circuit = lockCircuit{p.Locks}
	}
	seen, err := catalog.New(p.Definitions, catalog.Options{Now: o.Now, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	s := &System{parts: p, options: o, letters: p.DeadLetters.Open(Name), Warnings: newWarnings(p.Warehouse, o.Log, o.Now), catalog: seen,
		keeping: make(chan struct{}, 1)}
	s.projects.of, s.persons.of = "projects", "persons"
	s.keeps.Store(true) // perhaps from before
	live := flow.Pipeline{
		Name: Name, Source: p.Source, Work: s.steps(s.decode).Lane, Dead: p.DeadLetters,
		Lanes: o.Lanes, Batch: o.Batch, Age: o.Age, InFlight: o.InFlight, Handouts: o.Handouts,
		Breaker: policy.Breaker{Fails: 5, Open: 30 * time.Second}, PauseFor: refused,
		Fatal: 100, Log: o.Log, Now: o.Now, Rand: o.random(0), Observe: o.Observe, Settled: o.Settled, GiveWay: o.GiveWay,
	}
	again := live
	again.Name, again.Source, again.Work = ReplayName, s.letters, s.steps(s.decodeLetter).Lane
	again.Batch, again.Age, again.Lanes, again.Fatal = o.ReplayBatch, 50*time.Millisecond, 1, 0
	again.InFlight, again.Rand, again.Dead = 2*o.ReplayBatch, o.random(1), nil
	again.Breaker.Open = o.ReplayPause
	again.Settled = func(ends []tidemill.Settlement) {
		s.replays.settled(ends)
		if o.Settled != nil {
			o.Settled(ends)
		}
	}
	if s.Pipeline, err = flow.New(live); err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	if s.Replayer, err = flow.New(again); err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	pipelines := []*flow.Engine{s.Pipeline, s.Replayer}
	if p.Overflow != nil {
		over := live
		over.Name, over.Source, over.Dead, over.Rand = OverflowName, p.Overflow, sharedLetters{p.DeadLetters}, o.random(2)
		overflow, err := flow.New(over)
		if err != nil {
			return nil, fmt.Errorf("analytics: %w", err)
		}
		pipelines = append(pipelines, overflow)
	}
	s.System = flow.NewSystem(flow.SystemParts{Name: Name, Pipelines: pipelines, Loops: s.loops(), Log: o.Log,
		Close: []func() error{func() error { // names learnt from the last batch
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return errors.Join(s.catalog.Flush(ctx), s.Warnings.Flush(ctx), s.relay(ctx))
		}}})
	return s, nil
}

// refused is how long nothing is tried after a destination refused our credentials: long enough
// to leave it alone, and short compared to the time in which an operator fixes them.
const refused = 10 * time.Second

// random makes the random numbers of a pipeline's jitter.
func (o Options) random(stream uint64) *rand.Rand {
	if o.Seed == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(o.Seed, stream))
}

func (o Options) withDefaults() Options {
	if o.Batch <= 0 {
		o.Batch = 1000
	}
	if o.Age <= 0 {
		o.Age = 5 * time.Second
	}
	if o.Lanes <= 0 {
		o.Lanes = 1
	}
	if o.InFlight <= 0 {
		o.InFlight = 2000 + o.Batch*o.Lanes
	}
	if o.Handouts == 0 {
		o.Handouts = 100
	}
	if o.MergeIdentified == "" {
		o.MergeIdentified = MergeByEvent
	}
	if o.Replay == 0 {
		o.Replay = 5 * time.Minute
	}
	if o.ReplayPause <= 0 {
		o.ReplayPause = 5 * time.Minute
	}
	if o.ReplayBatch <= 0 {
		o.ReplayBatch = 100
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
