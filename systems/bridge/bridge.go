// Package bridge mirrors a stream to MQTT: each entry becomes one message, and an entry leaves
// the stream only when the subscriber says that it has it. Use it to send what producers write
// into a Redis stream to devices or other sites.
//
//	stream → frame → publish → (left pending) ─┐
//	                                           ├→ the stream: acknowledged and deleted
//	ack topic  {"id":"…","ack":true} ──────────┘
//
// Without an ack topic the broker's acknowledgement ends an entry. With one, a published entry
// stays pending until its ack comes, and is published again when that takes longer than the
// source's lease: a missing ack is not a failure. A refusal by the subscriber or the broker is
// a failed try. After the last one the entry becomes a message on the topic of the dead and
// leaves the stream. While the broker is down no try is counted.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// Name of the system and of its pipeline. ReplayName names the pipeline that publishes dead
// letters again: there the broker's acknowledgement is enough.
const (
	Name       = "bridge"
	ReplayName = "bridge-replay"
)

// Parts are what a bridge connects. Source and Sink are required.
type Parts struct {
	Source tidemill.Source
	Sink   tidemill.Sink        // of MQTT; a message's To is its topic
	Up     func() bool          // whether the broker is up; nil: assumed so
	Acks   Acks                 // nil: the broker's acknowledgement is delivery
	Keep   tidemill.DeadLetters // where the dead are kept in addition to their topic; nil: nowhere
	Replay tidemill.Source      // the dead letters of Keep to be published again; nil: none
	Loops  []flow.Loop          // side jobs of the source: drain, clean-up
	Close  []func() error       // at the end, in this order
}

// Options tune a bridge. Topic is required; other zero values are useful.
type Options struct {
	Stream string // its name: acks that name another stream are ignored

	Topic   string // of messages; {field} stands for that field of an entry
	Dead    string // topic of the dead; empty: entries that failed too often stay pending
	Prefix  string // before every topic, with a slash between; empty: none
	Workers int    // most workers publishing at once; 0: 4
	Batch   int    // most entries published together; 0: 1000
	Buffer  int    // most entries in memory; 0: 16,384
	Ahead   int    // most entries read ahead of the workers; 0: as many as the buffer holds
	Prepare bool   // allocate the memory for work at the start
	Calls   int    // most calls of the sink at once; 0: no limit of its own

	Age        time.Duration // how long an incomplete batch waits for more; 0: not at all
	Linger     time.Duration // how long ends are collected; 0: 5 ms, as nothing waits for them, and larger calls cost the stream less
	Processing time.Duration // how long publishing a batch may take; 0: 5 s
	Grace      time.Duration // how long a stop waits for running work; 0: 30 s
	Pending    time.Duration // and then for acks; 0: 500 ms, below 0: none
	Farewell   time.Duration // and then for disconnecting; 0: 1 s

	// AwaitsRoom says that the broker refuses a message for its quota (kind rate_limit) only
	// while a receiver has no room for it, as the embedded broker does. Such a refusal does not
	// count as a try, and nothing is published for a while.
	AwaitsRoom bool

	Drop      flow.Drop      // what gives way when the buffer is full
	Threshold float64        // the share of Buffer at which it counts as full; 0: 1
	Retry     policy.Retry   // after failures; the zero value: the first failure is the last
	Backoff   policy.Retry   // after errors of the source; zero: 100 ms doubling to 5 s
	Breaker   policy.Breaker // of publishing; the zero value never opens

	Log     *slog.Logger     // nil: discarded
	Tracer  tidemill.Tracer  // takes the spans of acks; nil: they have none
	Now     func() time.Time // nil: time.Now
	Rand    *rand.Rand       // nil: from chance
	Buckets []float64        // of histograms, in seconds, growing; nil: DefaultBuckets
}

// A Bridge is ready to run: a flow.System of one pipeline.
type Bridge struct {
	*flow.System
	Pipeline *flow.Engine

	p          Parts
	o          Options
	stats      stats
	known      tries
	unanswered unanswered
	answers    answers
	topic      *topic
	calls      chan struct{} // a slot for each call of the sink; nil: no limit
	subscribed bool          // by Start, before Run
	stop       context.CancelFunc
	ended      chan error
}

// New puts a bridge together. It refuses a configuration that cannot work, and says how to fix
// it.
func New(p Parts, o Options) (*Bridge, error) {
	if p.Source == nil || p.Sink == nil {
		return nil, errors.New("bridge: it needs a source and a sink")
	}
	o = o.withDefaults()
	t, err := parseTopic(o.Prefix, o.Topic)
	if err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	b := &Bridge{p: p, o: o, topic: t, answers: answers{tracer: o.Tracer}}
	b.stats.init(o.Buckets)
	b.unanswered.keep = keepUnanswered(p.Source.Traits())
	if o.Calls > 0 {
		b.calls = make(chan struct{}, o.Calls)
	}
	dead, err := b.letters()
	if err != nil {
		return nil, err
	}
	pipeline := flow.Pipeline{
		Name: Name, Source: p.Source, Dead: dead,
		Work:  flow.Steps[framed]{Decode: b.decode, Stages: b.stages(p.Acks != nil)}.Lane,
		Lanes: o.Workers, Batch: o.Batch, InFlight: o.Buffer, Ahead: o.Ahead, Runs: o.Batch, Age: o.Age, Linger: o.Linger,
		Grace: o.Grace, AckGrace: o.Pending,
		Rules: o.rules(), Retry: o.Retry, Backoff: o.Backoff, Breaker: o.Breaker, PauseFor: o.Breaker.Open,
		Handouts: -1, // an entry without an ack comes for ever
		Drop:     o.Drop, Threshold: o.Threshold,
		Log: o.Log, Now: o.Now, Rand: o.Rand, Settled: b.settled,
	}
	if o.Prepare {
		pipeline.Prepared = 2 * o.Workers * o.Batch
	}
	if p.Acks != nil {
		pipeline.Acks = (&listener{b: b}).receive
	}
	if b.Pipeline, err = flow.New(pipeline); err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	pipelines := []*flow.Engine{b.Pipeline}
	if p.Replay != nil {
		pipeline.Name, pipeline.Source, pipeline.Dead, pipeline.Acks = ReplayName, p.Replay, nil, nil
		pipeline.Work = flow.Steps[framed]{Decode: b.decode, Stages: b.stages(false)}.Lane
		pipeline.Lanes, pipeline.InFlight, pipeline.Ahead, pipeline.Prepared, pipeline.Drop, pipeline.Threshold = 1, 2*o.Batch, 0, 0, flow.DropNone, 0
		pipeline.Settled = nil
		again, err := flow.New(pipeline)
		if err != nil {
			return nil, fmt.Errorf("bridge: %w", err)
		}
		pipelines = append(pipelines, again)
	}
	b.System = flow.NewSystem(flow.SystemParts{Name: Name, Begin: []func(context.Context) error{b.subscribe}, Pipelines: pipelines, Loops: p.Loops, Log: o.Log, Now: o.Now, Close: p.Close})
	return b, nil
}

// rules are what failures mean here. Only a refusal by the broker counts as a failed try of an
// entry.
func (o *Options) rules() policy.Table {
	return policy.Table{
		tidemill.Transient:   {Do: policy.Retrying, Blames: true},                 // the broker is down
		tidemill.Timeout:     {Do: policy.Retrying, Blames: true},                 // or silent
		tidemill.Credentials: {Do: policy.Retrying, CountTry: true, Blames: true}, // it is up, and refuses this one
		tidemill.Partner:     {Do: policy.Retrying, CountTry: true, Blames: true}, // or cannot take it
		tidemill.RateLimit:   {Do: policy.Retrying, CountTry: !o.AwaitsRoom},      // or has received too much
	}
}

// subscribe subscribes to the acks before the first message goes out.
func (b *Bridge) subscribe(ctx context.Context) error {
	if b.p.Acks == nil || b.subscribed {
		return nil
	}
	if err := b.p.Acks.Subscribe(ctx); err != nil {
		return fmt.Errorf("bridge: subscribe to acks: %w", err)
	}
	return nil
}

// Start subscribes to acks and begins to work. It returns then, or with an error if that fails
// or ctx ends before. From then on the bridge ignores ctx: Stop ends it. If subscribing fails
// nothing runs and nothing of Parts is closed: Start may be called again.
func (b *Bridge) Start(ctx context.Context) error {
	if b.stop != nil {
		return errors.New("bridge: it was started already; make a new one")
	}
	if err := b.subscribe(ctx); err != nil {
		return err
	}
	b.subscribed = true
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop, b.ended = stop, make(chan error, 1)
	up := make(chan struct{})
	b.Listen(func(ctx context.Context) error {
		close(up)
		<-ctx.Done()
		return nil
	})
	go func() { b.ended <- b.System.Run(running) }()
	select {
	case <-up:
		return nil
	case err := <-b.ended:
		stop()
		b.ended <- err
		return err
	case <-ctx.Done():
		stop()
		err := <-b.ended
		b.ended <- err
		return errors.Join(fmt.Errorf("bridge: start: %w", context.Cause(ctx)), err)
	}
}

// Stop ends a running bridge, in order, and waits for that or for ctx.
func (b *Bridge) Stop(ctx context.Context) error {
	if b.stop == nil {
		return errors.New("bridge: it was not started")
	}
	b.stop()
	select {
	case err := <-b.ended:
		b.ended <- err // for the next call
		return err
	case <-ctx.Done():
		return fmt.Errorf("bridge: stop: %w", context.Cause(ctx))
	}
}

func (o Options) withDefaults() Options {
	def(&o.Workers, 4)
	def(&o.Batch, 1000)
	def(&o.Buffer, 16_384)
	def(&o.Processing, 5*time.Second)
	def(&o.Farewell, time.Second)
	def(&o.Linger, 5*time.Millisecond)
	def(&o.Threshold, 1)
	if o.Breaker == (policy.Breaker{}) {
		o.Breaker.Open = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Buckets == nil {
		o.Buckets = DefaultBuckets
	}
	// A waiting batch must be able to become full: the buffer bounds what is together.
	room := max(int(o.Threshold*float64(o.Buffer)), 1)
	o.Workers = min(o.Workers, max(room/2, 1))
	o.Batch = max(min(o.Batch, room/o.Workers), 1)
	return o
}

func def[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}
