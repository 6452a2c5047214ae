// Package bridgesystem puts the bridge on a Redis and an MQTT broker, or on those that are embedded.
package bridgesystem

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/probe"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
	"github.com/tidemill/tidemill/systems/bridge/bridgecli"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconsole"
	"github.com/tidemill/tidemill/systems/bridge/bridgemetrics"
)

// ends are what a bridge stands between, on servers or embedded.
type ends struct {
	bridge.Parts
	source  source
	letters deadletter.Store            // nil: the dead are on their topic alone
	prefix  string                      // of every topic
	healthy func(context.Context) error // asks the servers, each within its time; of kind validation: it cannot work as it is set up
	// isStream asks Redis whether the stream's key is one; nil where it is not in Redis.
	isStream func(context.Context) error
	count    counts
	outline  func(context.Context, *bridgeapi.Bridge) error            // says how the stream stands
	consumer func(context.Context, string) (bridgeapi.Consumer, error) // nil: embedded
	takeOver func(context.Context, string) (int, error)                // of a consumer; nil: embedded
	endpoint http.Handler                                              // takes entries in; nil: producers write into the stream themselves
	finder   *bridgeapi.Finder
}

// counts are what the source reports.
type counts struct{ claimed, drained, removed, errors atomic.Uint64 }

// System is the bridge.
var System = system.System{
	Name:       bridge.Name,
	Settings:   bridgeconfig.Group,
	Stateless:  true,
	Operations: new(bridgeapi.API).Operations(),
	Missing:    "the bridge does not run in this instance",
	Pages:      bridgeconsole.Pages,
	Commands:   func() []system.Command { return bridgecli.Commands(listen) },
	First:      bridgecli.First,
	Check:      func(c *config.Loaded) error { return bridgeconfig.Of(c).Check() },
	Rehearse:   rehearse,
	Build:      build,
	Figures:    figures,
}

// wiring is a bridge that is being built.
type wiring struct {
	*system.Host
	own   *bridgeconfig.Settings
	log   *slog.Logger // the host's, which names the service
	parts system.Parts
}

// build puts the bridge together, on the servers that are named or embedded.
func build(ctx context.Context, h *system.Host) (*system.Parts, error) {
	c := bridgeconfig.Of(h.Config)
	w := &wiring{Host: h, own: c, log: h.Log}
	if err := c.Check(); err != nil {
		return nil, err
	}
	open := w.onServers
	if c.Embedded() {
		open = w.embedded
	}
	if !c.Embedded() || h.Config.Given("bridge.app.name") || h.Config.Given("bridge.app.env") { // not in the way of who tries it out
		w.log = w.log.With("app", c.App.Name, "env", c.App.Env)
	}
	e := &ends{}
	if err := open(ctx, e); err != nil {
		return nil, err
	}
	e.Source = counted{e.source, &e.count}
	scaling := w.scaling()
	b, err := bridge.New(e.Parts, w.options(e.prefix))
	if err != nil {
		return nil, err
	}
	if scaling != nil {
		if err := scaling.Check(); err != nil {
			return nil, fmt.Errorf("bridge: %w", err)
		}
		b.Repeat(scaling.Loop(b, c.Resource.CheckInterval))
	}
	w.tellWithoutEffect()
	p := &w.parts
	p.Metrics = append(p.Metrics, w.collector(b, e))
	p.Runs = append(p.Runs, system.Running{System: b.System, Shown: admin.System{Whole: b.System,
		Books: map[string]tidemill.Bookkeeper{bridge.Name: e.source}, Audit: auditOf(bridge.Name, e.source),
		Notes: func() []string { return notes(b) }, Unanswered: func() string { return wantsAcks(b.Stats().Unanswered) }}})
	if c.MQTT.AckTopic() != "" {
		topic := bridge.JoinTopic(e.prefix, c.MQTT.AckTopic())
		p.Checks = append(p.Checks, func(context.Context) []preflight.Finding { return []preflight.Finding{checkAcks(b, topic)} })
	}
	p.Operations = (&bridgeapi.API{Status: w.status(b, e), Entries: e.endpoint, Consumer: e.consumer, TakeOver: e.takeOver}).Operations()
	e.finder.Letters, e.finder.Acks, e.finder.Lease, e.finder.Now = e.letters, c.MQTT.AckTopic() != "", c.Redis.ClaimMinIdle, w.Now
	p.Finder = e.finder
	p.API = func(a *admin.Parts) {
		if a.Letters == nil {
			a.Letters = e.letters
		}
	}
	w.listeners(b, e)
	return p, nil
}

// options are the settings as the bridge takes them. A default that would make every
// message wait, or fill the memory, is a bound: what is given is done as it is given.
func (w *wiring) options(prefix string) bridge.Options {
	c := w.own
	given := func(setting string) bool { return w.Config.Given("bridge." + setting) }
	o := bridge.Options{
		Stream: c.Redis.Stream, Topic: c.MQTT.PublishTopic, Prefix: prefix,
		Workers: min(c.Resource.MaxWorkers, mostWorkers), Batch: c.Pipeline.BatchSize, Buffer: c.Pipeline.Capacity(), Prepare: c.Pipeline.Preallocate,
		Processing: c.Pipeline.ProcessingTimeout, Threshold: c.Pipeline.BackpressureThreshold,
		Grace: max(c.App.ShutdownTimeout-c.App.PendingOpsGrace, time.Second), Pending: orNone(c.App.PendingOpsGrace),
		Backoff: policy.Retry{Tries: -1, Base: max(c.Redis.RetryInterval, 10*time.Millisecond), Factor: 2, Max: max(c.Redis.RetryInterval, 30*time.Second), Jitter: policy.Equal},
		Log:     w.log, Now: w.Now, Tracer: w.Tracer, Buckets: c.Metrics.HistogramBuckets,
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

// scaling is how workers follow the load; nil where it cannot be measured.
func (w *wiring) scaling() *bridge.Scaling {
	c := &w.own.Resource
	use := newUsage(w.Now)
	if _, _, err := use.read(); err != nil {
		// Logged at the start, where the load of the process cannot be measured: the number of workers is
		// `bridge.resource.max_workers`, and the other settings of RESOURCE_* do nothing.
		// To do: nothing, or run it on Linux.
		w.log.Warn("workers do not follow the load on this platform", "error", err)
		return nil
	}
	return &bridge.Scaling{Min: min(c.MinWorkers, mostWorkers), Max: min(c.MaxWorkers, mostWorkers), Step: c.WorkerStep, CPUHigh: c.CPUHigh, CPULow: c.CPULow, MemHigh: c.MemHigh, MemLow: c.MemLow,
		Up: c.ScaleUpCooldown, Down: c.ScaleDownCooldown, Predict: c.PredictiveScaling, History: c.HistoryWindow, Horizon: c.PredictionHorizon, Usage: use.read}
}

// collector makes the collector of the bridge, and the loops that look at what is
// shown as it was last looked at.
func (w *wiring) collector(b *bridge.Bridge, e *ends) *bridgemetrics.Collector {
	c := w.own
	var load, buffer, pending sampled
	use, over := newUsage(w.Now), false
	b.Repeat(
		flow.Loop{Name: "load", Every: c.Metrics.CollectInterval, AtStart: true, Do: func(context.Context) error {
			if cpu, mem, err := use.read(); err == nil { // told at the start where it cannot be measured
				load.set(cpu, mem)
			}
			return nil
		}},
		flow.Loop{Name: "backpressure", Every: c.Pipeline.BackpressurePollInterval, AtStart: true, Do: func(context.Context) error {
			used := b.Utilization()
			buffer.set(used, 0)
			is := used >= 100*c.Pipeline.BackpressureThreshold
			switch {
			case is == over:
			case is:
				// Logged when the buffer is fuller than `bridge.pipeline.backpressure_threshold`.
				// To do: see whether the broker is slow; more workers (`bridge.resource.max_workers`) may help.
				w.log.Warn("backpressure begins: the buffer is nearly full", "buffer_percent", math.Round(used), "policy", c.Pipeline.DropPolicy)
			default:
				// Logged when the buffer has room again.
				w.log.Info("backpressure ends", "buffer_percent", math.Round(used))
			}
			over = is
			return nil
		}},
		flow.Loop{Name: "pending", Every: c.Redis.PendingCheckInterval, AtStart: true, Do: func(ctx context.Context) error {
			books, err := e.source.Books(ctx)
			if err == nil {
				pending.set(float64(books.Pending), float64(books.Lost))
			}
			return err
		}})
	n := &e.count
	return bridgemetrics.New(bridgemetrics.Parts{Bridge: b, Prefix: c.Metrics.Prefix(), Dropped: c.Pipeline.DropPolicy,
		Load: load.get, Pending: pending.get,
		Used: func() float64 { used, _ := buffer.get(); return used },
		Reports: func() bridgemetrics.Reports {
			return bridgemetrics.Reports{Claimed: n.claimed.Load(), Drained: n.drained.Load(), Removed: n.removed.Load(), Errors: n.errors.Load()}
		}})
}

// listeners puts probes and metrics where they belong: on ports of their own, as the consumer that
// this replaces has them, or on the common listener.
func (w *wiring) listeners(b *bridge.Bridge, e *ends) {
	c := w.own
	probes := probe.New(func() bool { return b.State() == flow.Running }, w.Now)
	b.Repeat(flow.Loop{Name: "health", Every: c.Health.CheckInterval, AtStart: true, Do: func(ctx context.Context) error {
		probes.Set(e.healthy(ctx))
		return nil
	}})
	answers := http.NewServeMux()
	probes.Register(answers)
	if c.Embedded() {
		if c.Health.Enabled {
			w.parts.Endpoints = append(w.parts.Endpoints, system.Endpoint{Serves: func(path string) bool { return slices.Contains(probe.Paths, path) }, Handler: answers, Operators: true})
		}
		return
	}
	if c.Health.Enabled {
		w.parts.Ports = append(w.parts.Ports, system.Port{Number: c.Health.Port, Setting: "HEALTH_PORT", Handler: answers,
			Limits: serve.Limits{Header: c.Health.ReadTimeout, Body: c.Health.ReadTimeout, Answer: c.Health.WriteTimeout}})
	}
	if c.Metrics.Enabled {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", w.MetricsHandler())
		w.parts.Ports = append(w.parts.Ports, system.Port{Number: c.Metrics.Port, Setting: "METRICS_PORT", Handler: mux})
	}
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
	tidemill.Source
	tidemill.Bookkeeper
	tidemill.Keeper
	tidemill.Gater
}

// counted counts the calls of a source that fail.
type counted struct {
	source
	count *counts
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
