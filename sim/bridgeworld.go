package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/bridge"
)

// bridgeWorld is a stream, a broker with a far side behind it, and bridges that come and
// go.
type bridgeWorld struct {
	g    *Gate
	rnd  *rand.Rand // the scheduler's own
	seed uint64
	bug  func(*bridge.Parts)

	queues  *memoryqueue.Store
	broker  *broker
	entries []*entry
	by      map[string]*entry
	adding  atomic.Bool

	ctx  context.Context
	end  context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex // guards next and faults
	next   int
	faults []string
}

const (
	bridgeLease = 10 * time.Second
	retries     = 3 // after the first failed try
	outTopic    = "out"
	deadTopic   = "dead"
)

func newBridgeWorld(seed uint64, bug func(*bridge.Parts)) *bridgeWorld {
	w := &bridgeWorld{g: newGate(seed), rnd: rand.New(rand.NewPCG(seed, 0xb71d)), seed: seed, bug: bug, by: map[string]*entry{}}
	w.queues = memoryqueue.New(memoryqueue.Options{})
	w.broker = newBroker(w, rand.New(rand.NewPCG(seed, 0xfa51de)))
	draw := rand.New(rand.NewPCG(seed, 0xe27))
	for n := range 20 + draw.IntN(30) {
		e := newEntry(n, draw)
		w.entries = append(w.entries, e)
		w.by[e.id] = e
	}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// fault notes what must not be.
func (w *bridgeWorld) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// source is the stream as one process has it: what is beneath the gate is on record.
func (w *bridgeWorld) source(p *process) gatedSource {
	s := w.queues.Open(bridge.Name, queue.Options{Lease: bridgeLease})
	return gatedSource{onRecord{s, s.(tidemill.Keeper), s.(tidemill.Gater), s.(tidemill.Bookkeeper), w, p}, "queue", w.g, p}
}

// start brings up a process.
func (w *bridgeWorld) start() {
	w.mu.Lock()
	w.next++
	p := &process{n: w.next}
	w.mu.Unlock()
	ends := &gatedBroker{b: w.broker, g: w.g, p: p}
	parts := bridge.Parts{Source: w.source(p), Sink: ends, Up: ends.up, Acks: ends}
	if w.bug != nil {
		w.bug(&parts)
	}
	b, err := bridge.New(parts, bridge.Options{Topic: outTopic, Dead: deadTopic, Workers: 2, Batch: 8, Buffer: 40, Age: 100 * time.Millisecond,
		Retry:   policy.Retry{Tries: retries, Base: time.Second, Factor: 2, Max: 3 * time.Second},
		Breaker: policy.Breaker{Rate: .5, Volume: 10, Window: time.Minute, Open: 5 * time.Second, Closes: 2},
		Grace:   5 * time.Second, Rand: rand.New(rand.NewPCG(w.seed, uint64(p.n)))})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	leave := sync.OnceFunc(func() { // gone: another one comes
		cancel()
		pause := time.Duration(w.rnd.Int64N(int64(3 * time.Second)))
		w.done.Go(func() {
			sleep(w.ctx, pause)
			if w.ctx.Err() == nil {
				w.start()
			}
		})
	})
	p.onDeath = func() { w.broker.leave(p); leave() }
	p.onStop = leave
	w.done.Go(func() {
		if err := b.Run(ctx); err != nil && ctx.Err() == nil {
			w.fault("process %d ended by itself: %v", p.n, err)
		}
	})
}

// produce adds the entries, each until it is confirmed.
func (w *bridgeWorld) produce() {
	defer w.adding.Store(false)
	rnd := rand.New(rand.NewPCG(w.seed, 0xadd))
	for _, e := range w.entries {
		sleep(w.ctx, time.Duration(rnd.Int64N(int64(time.Second))))
		for w.ctx.Err() == nil {
			nobody := func() {}
			once := &process{onDeath: nobody, onStop: nobody} // a producer is not one of ours
			m := &tidemill.Message{ID: e.id, To: bridge.Name, Header: []tidemill.Field{{Name: []byte("payload"), Value: []byte(e.payload)}}}
			if w.g.do(once, "add", e.id, func() error { return w.queues.Add(w.ctx, []*tidemill.Message{m}, nil) }) == nil {
				break
			}
			sleep(w.ctx, 100*time.Millisecond+time.Duration(rnd.Int64N(int64(time.Second))))
		}
	}
}

// play runs one seed inside its bubble and returns what the checker finds.
func (w *bridgeWorld) play() []string {
	for range 1 + w.rnd.IntN(2) {
		w.start()
	}
	w.adding.Store(true)
	w.done.Go(w.produce)
	begun := time.Now()
	w.g.run(func() bool {
		since := time.Since(begun)
		return !w.adding.Load() && since > 30*time.Second || since > 5*time.Minute
	})
	w.g.calm = true
	calmed := time.Now()
	w.g.run(func() bool { return w.quiet() || time.Since(calmed) > 15*time.Minute })
	if !w.quiet() {
		w.fault("liveness: not everything was done 15 minutes after the last fault")
	}
	w.end()
	ended := make(chan struct{})
	over := false
	go func() { w.done.Wait(); close(ended) }()
	w.g.run(func() bool {
		select {
		case <-ended:
			over = true
		default:
		}
		return over
	})
	synctest.Wait()
	w.check()
	return w.faults
}

func (w *bridgeWorld) books() tidemill.Books {
	b, err := w.queues.Open(bridge.Name, queue.Options{}).(tidemill.Bookkeeper).Books(context.Background())
	if err != nil {
		w.fault("the books cannot be read: %v", err)
	}
	return b
}

// quiet says that nothing is left to do.
func (w *bridgeWorld) quiet() bool { return !w.adding.Load() && w.books().Pending == 0 }
