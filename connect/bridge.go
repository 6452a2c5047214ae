package connect

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/serve/probe"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/bridge"
)

// bridgeEnds are what a bridge stands between, on servers or embedded.
type bridgeEnds struct {
	bridge.Parts
	source  source
	letters deadletter.Store            // nil: the dead are on their topic alone
	prefix  string                      // of every topic
	healthy func(context.Context) error // asks the servers, each within its time; of kind validation: it cannot work as it is set up
	// isStream asks Redis whether the stream's key is one; nil where it is not in Redis.
	isStream func(context.Context) error
	count    bridgeCounts
	door     http.Handler // takes entries in; nil: producers write into the stream themselves
}

// bridgeCounts are what the source reports.
type bridgeCounts struct{ claimed, drained, removed, errors atomic.Uint64 }

// bridge puts the bridge together, on the servers that are named or embedded.
func (i *Instance) bridge(ctx context.Context, a *admin.Parts) error {
	c := &i.Config.Bridge
	if err := c.Check(); err != nil {
		return err
	}
	open := i.bridgeOnServers
	if c.Embedded() {
		open = i.bridgeEmbedded
	}
	if !c.Embedded() || i.Config.Given("bridge.app.name") || i.Config.Given("bridge.app.env") { // not in the way of who tries it out
		i.Log = i.Log.With("app", c.App.Name, "env", c.App.Env)
	}
	ends := &bridgeEnds{}
	if err := open(ctx, ends); err != nil {
		return err
	}
	ends.Source = counted{ends.source, &ends.count}
	scaling := i.bridgeScaling()
	b, err := bridge.New(ends.Parts, i.bridgeOptions(ends.prefix))
	if err != nil {
		return err
	}
	if scaling != nil {
		if err := scaling.Check(); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		b.Loops = append(b.Loops, scaling.Loop(b, c.Resource.CheckInterval))
	}
	i.tellWithoutEffect()
	i.systems = append(i.systems, b.System)
	i.engines.Add(b.System.Pipelines, nil)
	i.Metrics.MustRegister(i.bridgeMetrics(b, ends))
	a.Systems = append(a.Systems, admin.System{Name: bridge.Name, Pipelines: b.System.Pipelines, Whole: b.System,
		Books: map[string]tidemill.Bookkeeper{bridge.Name: ends.source}, Audit: auditOf(bridge.Name, ends.source),
		Notes: func() []string { return bridgeNotes(b) }})
	if c.MQTT.AckTopic() != "" {
		topic := bridge.JoinTopic(ends.prefix, c.MQTT.AckTopic())
		i.checks = append(i.checks, func(context.Context) []preflight.Finding { return []preflight.Finding{checkAcks(b, topic)} })
	}
	if a.Letters == nil {
		a.Letters = ends.letters
	}
	return i.bridgeListeners(b, ends)
}

// bridgeOptions are the settings as the bridge takes them. A default that would make every
// message wait, or fill the memory, is a bound: what is given is done as it is given.
func (i *Instance) bridgeOptions(prefix string) bridge.Options {
	c := &i.Config.Bridge
	given := func(setting string) bool { return i.Config.Given("bridge." + setting) }
	o := bridge.Options{
		Stream: c.Redis.Stream, Topic: c.MQTT.PublishTopic, Prefix: prefix,
		Workers: min(c.Resource.MaxWorkers, mostWorkers), Batch: c.Pipeline.BatchSize, Buffer: c.Pipeline.Capacity(), Prepare: c.Pipeline.Preallocate,
		Processing: c.Pipeline.ProcessingTimeout, Threshold: c.Pipeline.BackpressureThreshold,
		Grace: max(c.App.ShutdownTimeout-c.App.PendingOpsGrace, time.Second), Pending: orNone(c.App.PendingOpsGrace),
		Backoff: policy.Retry{Tries: -1, Base: max(c.Redis.RetryInterval, 10*time.Millisecond), Factor: 2, Max: max(c.Redis.RetryInterval, 30*time.Second), Jitter: policy.Equal},
		Log:     i.Log, Now: i.Now, Buckets: c.Metrics.HistogramBuckets,
	}
	_ = o.Drop.UnmarshalText([]byte(c.Pipeline.DropPolicy)) // checked with the configuration
	if c.DLQ.Enabled {
		o.Dead = c.DLQ.Topic
	}
	if given("pipeline.batch_timeout") {
		o.Age = c.Pipeline.BatchTimeout
	}
	if given("pipeline.flush_interval") {
		o.Linger = c.Pipeline.FlushInterval
	}
	if !given("pipeline.buffer_size") {
		o.Ahead = aheadOf * o.Workers * o.Batch
		o.Buffer = min(o.Buffer, 2*o.Ahead)
	}
	o.AwaitsRoom = c.Embedded()
	if c.Embedded() && !given("pipeline.drop_policy") { // what is dropped would come again only when its lease has ended
		o.Drop, o.Threshold = flow.DropNone, 1
	}
	if c.Retry.Enabled {
		o.Retry = policy.Retry{Tries: c.Retry.MaxAttempts, Base: c.Retry.InitialBackoff, Factor: c.Retry.Multiplier, Max: c.Retry.MaxBackoff}
	}
	if c.Breaker.Enabled {
		o.Calls = c.Breaker.MaxConcurrent
		o.Breaker = policy.Breaker{Rate: c.Breaker.ErrorThreshold / 100, Volume: c.Breaker.RequestVolume, Window: time.Minute,
			Open: c.Breaker.Timeout, Closes: c.Breaker.SuccessThreshold}
	}
	return o
}

// aheadOf is how many batches of every worker are read ahead where the size of the buffer
// is not given: enough that no worker waits, and not a million messages in memory because
// Redis is read faster than a broker takes.
const aheadOf = 2

// mostWorkers is more than any machine has use for: each has a ring of its own.
const mostWorkers = 256

// orNone is a time where zero means none at all.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// bridgeScaling is how workers follow the load; nil where it cannot be measured.
func (i *Instance) bridgeScaling() *bridge.Scaling {
	c := &i.Config.Bridge.Resource
	use := newUsage(i.Now)
	if _, _, err := use.read(); err != nil {
		i.Log.Warn("settings without effect: the load of the process cannot be measured on this platform, so that resource.max_workers is the number of workers", "settings", "RESOURCE_*", "error", err)
		return nil
	}
	return &bridge.Scaling{Min: min(c.MinWorkers, mostWorkers), Max: min(c.MaxWorkers, mostWorkers), Step: c.WorkerStep, CPUHigh: c.CPUHigh, CPULow: c.CPULow, MemHigh: c.MemHigh, MemLow: c.MemLow,
		Up: c.ScaleUpCooldown, Down: c.ScaleDownCooldown, Predict: c.PredictiveScaling, History: c.HistoryWindow, Horizon: c.PredictionHorizon, Usage: use.read}
}

// bridgeMetrics makes the collector of the bridge, and the loops that look at what is
// shown as it was last looked at.
func (i *Instance) bridgeMetrics(b *bridge.Bridge, ends *bridgeEnds) *metrics.Bridge {
	c := &i.Config.Bridge
	var load, buffer, pending sampled
	use, over := newUsage(i.Now), false
	b.Loops = append(b.Loops,
		flow.Loop{Name: "load", Every: c.Metrics.CollectInterval, AtStart: true, Do: func(context.Context) error {
			if cpu, mem, err := use.read(); err == nil { // told at the start where it cannot be measured
				load.set(cpu, mem)
			}
			return nil
		}},
		flow.Loop{Name: "backpressure", Every: c.Pipeline.BackpressurePollInterval, AtStart: true, Do: func(context.Context) error {
			used := b.Utilization()
			buffer.set(used, 0)
			if is := used >= 100*c.Pipeline.BackpressureThreshold; is != over {
				over = is
				i.Log.Warn("backpressure", "on", over, "buffer_percent", math.Round(used), "policy", c.Pipeline.DropPolicy)
			}
			return nil
		}},
		flow.Loop{Name: "pending", Every: c.Redis.PendingCheckInterval, AtStart: true, Do: func(ctx context.Context) error {
			books, err := ends.source.Books(ctx)
			if err == nil {
				pending.set(float64(books.Pending), float64(books.Lost))
			}
			return err
		}})
	n := &ends.count
	return metrics.NewBridge(metrics.BridgeParts{Bridge: b, Prefix: c.Metrics.Prefix(), Dropped: c.Pipeline.DropPolicy,
		Load: load.get, Pending: pending.get,
		Used: func() float64 { used, _ := buffer.get(); return used },
		Reports: func() metrics.BridgeReports {
			return metrics.BridgeReports{Claimed: n.claimed.Load(), Drained: n.drained.Load(), Removed: n.removed.Load(), Errors: n.errors.Load()}
		}})
}

// bridgeListeners puts probes and metrics where they belong: on ports of their own, as the
// consumer that this replaces has them, or on the common listener.
func (i *Instance) bridgeListeners(b *bridge.Bridge, ends *bridgeEnds) error {
	c := &i.Config.Bridge
	probes := probe.New(func() bool { return b.State() == flow.Running }, i.Now)
	b.Loops = append(b.Loops, flow.Loop{Name: "health", Every: c.Health.CheckInterval, AtStart: true, Do: func(ctx context.Context) error {
		probes.Set(ends.healthy(ctx))
		return nil
	}})
	i.entries = ends.door
	if c.Embedded() {
		if c.Health.Enabled {
			i.probes = probes
		}
		return nil
	}
	if c.Health.Enabled {
		mux := http.NewServeMux()
		probes.Register(mux)
		if err := i.port(c.Health.Port, "HEALTH_PORT", mux, serve.Limits{Header: c.Health.ReadTimeout, Body: c.Health.ReadTimeout, Answer: c.Health.WriteTimeout}); err != nil {
			return err
		}
	}
	if c.Metrics.Enabled {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", i.metricsHandler())
		return i.port(c.Metrics.Port, "METRICS_PORT", mux, serve.Limits{})
	}
	return nil
}

// port opens a listener of its own, on the address of listen where it has none.
func (i *Instance) port(port int, setting string, h http.Handler, l serve.Limits) error {
	address := i.Config.Ports
	if address == "" {
		address, _, _ = net.SplitHostPort(i.Config.Listen) // checked
	}
	return i.open(net.JoinHostPort(address, strconv.Itoa(port)), setting, h, l)
}

// audit is the proof of one source's books.
type audit struct {
	System    string   `json:"system"`
	Accepted  uint64   `json:"accepted"`
	Delivered uint64   `json:"delivered"`
	Skipped   uint64   `json:"skipped"`
	Dead      uint64   `json:"dead"`
	InFlight  uint64   `json:"in_flight"`
	Lost      uint64   `json:"lost"`
	Balanced  bool     `json:"balanced"`
	Faults    []string `json:"faults"`
}

func auditOf(system string, source tidemill.Bookkeeper) func(context.Context) (any, bool, error) {
	return func(ctx context.Context) (any, bool, error) {
		b, err := source.Books(ctx)
		a := audit{System: system, Accepted: b.Accepted, Delivered: b.Settled.Delivered, Skipped: b.Settled.Skipped, Dead: b.Settled.Dead,
			InFlight: b.Pending, Lost: b.Lost, Balanced: b.Off() == 0, Faults: []string{}}
		switch off := b.Off(); {
		case off > 0:
			a.Faults = append(a.Faults, fmt.Sprintf("%d entries are missing", off))
		case off < 0:
			a.Faults = append(a.Faults, fmt.Sprintf("%d entries were counted twice", -off))
		}
		return a, a.Balanced, err
	}
}

// source is a source with all that those of a bridge can do.
type source interface {
	stream
	tidemill.Keeper
	tidemill.Gater
}

// counted counts the calls of a source that fail.
type counted struct {
	source
	count *bridgeCounts
}

func (c counted) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := c.source.Receive(ctx, into)
	if err != nil && ctx.Err() == nil {
		c.count.errors.Add(1)
	}
	return n, err
}

func (c counted) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	err := c.source.Settle(ctx, ends)
	if err != nil && ctx.Err() == nil {
		c.count.errors.Add(1)
	}
	return err
}

// sampled are two numbers that are looked at every so often.
type sampled struct{ a, b atomic.Uint64 }

func (s *sampled) set(a, b float64) { s.a.Store(math.Float64bits(a)); s.b.Store(math.Float64bits(b)) }
func (s *sampled) get() (a, b float64) {
	return math.Float64frombits(s.a.Load()), math.Float64frombits(s.b.Load())
}
