package sim

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/test/promise"
)

// bridgeWorld is a stream, a broker with a subscriber behind it, and bridges that come and go.
type bridgeWorld struct {
	*stage
	bug func(*bridge.Parts)

	queues  queue.Core
	close   func() // of queues
	broker  *broker
	entries []*entry
	by      map[string]*entry
	adding  atomic.Bool
}

const (
	bridgeLease = 10 * time.Second
	outTopic    = "out"
	deadTopic   = "dead"
)

func newBridgeWorld(seed uint64, bug func(*bridge.Parts)) *bridgeWorld {
	w := &bridgeWorld{stage: newStage(seed, 0xb71d), bug: bug, by: map[string]*entry{}}
	w.queues, w.close = memoryqueue.New(memoryqueue.Options{}), func() {}
	w.broker = newBroker(w, rand.New(rand.NewPCG(seed, 0xfa51de)))
	draw := rand.New(rand.NewPCG(seed, 0xe27))
	for n := range 20 + draw.IntN(30) {
		e := newEntry(n, draw)
		w.entries = append(w.entries, e)
		w.by[e.id] = e
	}
	return w
}

// source is the stream for one process. Below the gate everything is recorded.
func (w *bridgeWorld) source(p *process) gatedSource {
	s := w.queues.Open(bridge.Name, queue.Options{Lease: bridgeLease})
	return gatedSource{onRecord{s, w.fault,
		func(m *tidemill.Message) { w.by[m.ID].handed(w, p, m.Tries) },
		func(e *tidemill.Settlement) {
			if e.End == tidemill.Done {
				w.by[e.ID].ended(w, e.Fate)
			}
		}}, "queue", idleQueue(w.queues, bridge.Name), w.g, p}
}

// start brings up a process.
func (w *bridgeWorld) start() {
	p := w.process()
	ends := &gatedBroker{b: w.broker, g: w.g, p: p}
	parts := bridge.Parts{Source: w.source(p), Sink: ends, Up: ends.up, Acks: ends}
	if w.bug != nil {
		w.bug(&parts)
	}
	b, err := bridge.New(parts, bridge.Options{Topic: outTopic, Dead: deadTopic, Workers: 2, Batch: 8, Buffer: 40, Age: 100 * time.Millisecond,
		Retry:   policy.Retry{Tries: promise.MostRefusals - 1, Base: time.Second, Factor: 2, Max: 3 * time.Second},
		Breaker: policy.Breaker{Rate: .5, Volume: 10, Window: time.Minute, Open: 5 * time.Second, Closes: 2},
		Grace:   5 * time.Second, Rand: rand.New(rand.NewPCG(w.seed, uint64(p.n)))})
	if err != nil {
		panic(err)
	}
	w.live(p, b.Run, func(dead bool) {
		if dead {
			w.broker.leave(p)
		}
	}, w.start)
}

// produce adds the entries, each until it is confirmed.
func (w *bridgeWorld) produce() {
	defer w.adding.Store(false)
	rnd := rand.New(rand.NewPCG(w.seed, 0xadd))
	for _, e := range w.entries {
		_ = sleep.For(w.ctx, time.Duration(rnd.Int64N(int64(time.Second))))
		for w.ctx.Err() == nil {
			if w.g.do(outsider(), "add", e.id, func() error { return w.queues.Add(w.ctx, []*tidemill.Message{e.add()}, nil) }) == nil {
				break
			}
			_ = sleep.For(w.ctx, 100*time.Millisecond+time.Duration(rnd.Int64N(int64(time.Second))))
		}
	}
}

// play runs one seed inside its bubble and returns what the checker finds.
func (w *bridgeWorld) play() []string {
	defer w.close()
	return w.stage.play(acts{open: w.open, quiet: w.quiet, check: w.check,
		storm: func(since time.Duration) bool { return w.adding.Load() || since <= 30*time.Second }})
}

func (w *bridgeWorld) open() {
	for range 1 + w.rnd.IntN(2) {
		w.start()
	}
	w.adding.Store(true)
	w.done.Go(w.produce)
}

// also counts what else happened: at the subscriber, and entries that died.
func (w *bridgeWorld) also() map[string]int {
	n := maps.Clone(w.broker.count)
	for _, e := range w.entries {
		if e.end == tidemill.Dead {
			n["dead"]++
		}
	}
	return n
}

func (w *bridgeWorld) books() tidemill.Books {
	b, err := w.queues.Open(bridge.Name, queue.Options{}).(tidemill.Bookkeeper).Books(context.Background())
	if err != nil {
		w.fault("the books cannot be read: %v", err)
	}
	return b
}

// quiet reports that nothing is left to do.
func (w *bridgeWorld) quiet() bool { return !w.adding.Load() && w.books().Pending == 0 }
