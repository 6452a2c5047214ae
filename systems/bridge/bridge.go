// Package bridge mirrors a stream to MQTT: each entry becomes one message, and an entry
// leaves the stream only when the far side says that it has it. Use it where devices or
// other sites are to get what producers write into a Redis stream.
//
//	stream → frame → publish → (left pending) ─┐
//	                                           ├→ the stream: acknowledged and deleted
//	ack topic  {"id":"…","ack":true} ──────────┘
//
// Without a topic of acks the broker's acknowledgement ends an entry. With one, an entry
// that was published stays pending until its ack comes, and is published again when that
// has taken longer than the source's lease: silence is no failure. A refusal is a failed
// try, and so is what the broker refuses; after the last one the entry becomes a message
// on the topic of the dead and leaves the stream. While the broker is away nothing is
// counted as a try.
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

// Name is the system's and its pipeline's. ReplayName is that of the pipeline that
// publishes dead letters again: there the broker's word is enough.
const (
	Name       = "bridge"
	ReplayName = "bridge-replay"
)

// Parts are what a bridge stands between. Source and Sink are required.
type Parts struct {
	Source tidemill.Source
	Sink   tidemill.Sink        // of MQTT; a message's To is its topic
	Up     func() bool          // whether the broker is there; nil: as far as we know it always is
	Acks   Acks                 // nil: what the broker has is delivered
	Keep   tidemill.DeadLetters // where the dead are kept beside their topic; nil: nowhere
	Replay tidemill.Source      // the letters of Keep that are to be published again; nil: none
	Loops  []flow.Loop          // side jobs of the source: drain, clean-up
	Close  []func() error       // in the end, in this order
}

// Options tune a bridge. Topic is required; other zero values are useful.
type Options struct {
	Stream string // its name: acks that name another are not taken

	Topic   string // of messages; {field} stands for that field of an entry
	Dead    string // topic of the dead; empty: entries that failed too often stay pending
	Prefix  string // before every topic, with a slash between; empty: none
	Workers int    // publishing at once, at most; 0: 4
	Batch   int    // entries published together, at most; 0: 1000
	Buffer  int    // entries in memory, at most; 0: 16,384
	Ahead   int    // entries read ahead of the workers, at most; 0: as many as the buffer holds
	Prepare bool   // make memory for what is worked on at the start
	Calls   int    // calls of the sink at once, at most; 0: no limit of its own

	Age        time.Duration // an incomplete batch waits so long for more; 0: not at all
	Linger     time.Duration // ends are collected for so long; 0: 5 ms, for nobody waits for them, and larger calls cost the stream less
	Processing time.Duration // a batch may take so long to be published; 0: 5 s
	Grace      time.Duration // a stop gives what has begun so long; 0: 30 s
	Pending    time.Duration // and then acks from outside; 0: 500 ms, below 0: none
	Farewell   time.Duration // and then the broker, to say good-bye; 0: 1 s

	// AwaitsRoom says that the broker refuses a message for its quota (kind rate_limit) only
	// while a receiver has no room for it, as the embedded broker does: such a refusal is no
	// failed try, and nothing is published for a while.
	AwaitsRoom bool

	Drop      flow.Drop      // what gives way when the buffer is full
	Threshold float64        // the share of Buffer at which it is; 0: 1
	Retry     policy.Retry   // after failures; the zero value: the first one is the last
	Backoff   policy.Retry   // after errors of the source; zero: 100 ms doubling to 5 s
	Breaker   policy.Breaker // of publishing; the zero value never opens

	Log     *slog.Logger     // nil: discarded
	Now     func() time.Time // nil: time.Now
	Rand    *rand.Rand       // nil: from chance
	Buckets []float64        // of histograms, in seconds, growing; nil: DefaultBuckets
}

// A Bridge is one, ready to run: a flow.System of one pipeline.
type Bridge struct {
	*flow.System
	Pipeline *flow.Engine

	p          Parts
	o          Options
	stats      stats
	known      tries
	unanswered unanswered
	topic      *topic
	calls      chan struct{} // a place for each call of the sink; nil: no limit
	stop       context.CancelFunc
	ended      chan error
}

// New puts a bridge together. It refuses what cannot work, and says how to mend it.
func New(p Parts, o Options) (*Bridge, error) {
	if p.Source == nil || p.Sink == nil {
		return nil, errors.New("bridge: it needs a source and a sink")
	}
	o = o.withDefaults()
	t, err := parseTopic(o.Prefix, o.Topic)
	if err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	b := &Bridge{p: p, o: o, topic: t}
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
		Handouts: -1, // an entry that is never acked comes for ever
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
	b.System = &flow.System{Name: Name, Begin: []func(context.Context) error{b.subscribe}, Pipelines: pipelines, Loops: p.Loops, Log: o.Log, Now: o.Now, Close: p.Close}
	return b, nil
}

// rules are what failures mean here. Nothing is the fault of an entry as long as the
// broker has not said so; whatever it refuses is a failed try.
func (o *Options) rules() policy.Table {
	return policy.Table{
		tidemill.Transient:   {Do: policy.Retrying, Blames: true},              // the broker is away
		tidemill.Timeout:     {Do: policy.Retrying, Blames: true},              // or silent
		tidemill.Credentials: {Do: policy.Retrying, Burns: true, Blames: true}, // it is there, and does not want this one
		tidemill.Partner:     {Do: policy.Retrying, Burns: true, Blames: true}, // or cannot take it
		tidemill.RateLimit:   {Do: policy.Retrying, Burns: !o.AwaitsRoom},      // or has taken too much
	}
}

// subscribe makes sure of the acks before the first message goes out.
func (b *Bridge) subscribe(ctx context.Context) error {
	if b.p.Acks == nil {
		return nil
	}
	if err := b.p.Acks.Subscribe(ctx); err != nil {
		return fmt.Errorf("bridge: subscribe to acks: %w", err)
	}
	return nil
}

// Start subscribes to acks, begins to work, and returns then, or with an error when that
// fails or ctx ends before. From then on the bridge does not heed ctx: Stop ends it. After an
// error of subscribing nothing runs and nothing of Parts is closed: Start may be called again.
func (b *Bridge) Start(ctx context.Context) error {
	if b.stop != nil {
		return errors.New("bridge: it was started already; make a new one")
	}
	if err := b.subscribe(ctx); err != nil {
		return err
	}
	b.Begin = nil
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop, b.ended = stop, make(chan error, 1)
	up := make(chan struct{})
	b.Doors = append(b.Doors, func(ctx context.Context) error {
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

// Stop ends a bridge that was started, in order, and waits for that or for ctx.
func (b *Bridge) Stop(ctx context.Context) error {
	if b.stop == nil {
		return errors.New("bridge: it was not started")
	}
	b.stop()
	select {
	case err := <-b.ended:
		b.ended <- err // for who asks again
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
	// A batch that waits must be able to become full: the buffer bounds what is together.
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
