package sim

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// DeliveryParts are what a process of the delivery system is made of; a test with a planted bug
// replaces some.
type DeliveryParts struct {
	delivery.Parts
	Options delivery.Options
	Door    queue.Intake // for accepted events
	Names   queue.Register
	Keys    ledger.Store // of accepted requests
}

// What happens in addition to the faults of the gate and the partners, and must happen.
const (
	Again     = "taken again"
	Repeated  = "request repeated"
	Duplicate = "event sent by two"
	LongAgo   = "order behind an event of long ago"
	Hold      = "held for a person"
	Replays   = "letter replayed"
	ByHand    = "operator's hand"
	Edited    = "letter edited"
	LeaseLost = "lease lost"
	Parked    = "parked beside a full queue"
)

// deliveryWorld is queues, dead letters and ledgers, partners behind them, processes that
// come and go, clients and an operator.
//
// One seed in six is in peace: the only faults are that one partner is dead, and one site
// floods the others. Then the cost for the others is measured.
type deliveryWorld struct {
	*stage
	bug      func(*DeliveryParts)
	peace    bool
	forwards bool // queues add in the transaction of a settlement; else a crash can come in between

	queues  *memoryqueue.Store
	letters deadletter.Store
	sent    *tableledger.Ledger[*memorytable.Tx]
	keys    *tableledger.Ledger[*memorytable.Tx]

	fars     []*far
	events   []*conversion
	requests []*request

	book  sync.Mutex // guards legs, conversions and what follows
	count map[string]int
	byJob map[string]*conversion // by their names in the queues of the ingest API
	up    []*instance

	unwritten map[string]bool // requests whose answer could not be stored
	busy      int             // unfinished clients and operators
	before    int             // events of long ago
	again     int             // how often what died by faults was replayed in the end
}

// instance is a running process.
type instance struct {
	p        *process
	sys      *delivery.System
	endpoint *accept.Acceptor
}

func newDeliveryWorld(seed uint64, bug func(*DeliveryParts)) *deliveryWorld {
	w := &deliveryWorld{stage: newStage(seed, 0xde11), bug: bug, count: map[string]int{}, byJob: map[string]*conversion{}, unwritten: map[string]bool{}}
	draw := rand.New(rand.NewPCG(seed, 0xf1a7))
	if w.peace = draw.IntN(6) == 0; w.peace {
		clear(w.g.rates)
	}
	w.forwards = draw.IntN(2) == 0
	w.queues = memoryqueue.New(memoryqueue.Options{})
	w.sent, w.keys = tableledger.Memory(tableledger.Options{}), tableledger.Memory(tableledger.Options{})
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		panic(err)
	}
	w.letters = letters
	w.fars = newFars(w, draw)
	w.draw(draw)
	w.begunBefore()
	return w
}

func (w *deliveryWorld) partners() (all []partner.Partner) {
	for _, f := range w.fars {
		all = append(all, f.partner())
	}
	return all
}

// Workers of each queue, at least and at most, and how many events one process may hold of a
// partner that gets them one by one.
const (
	fewest   = 2
	most     = 4
	readOver = 2 * most
)

func (w *deliveryWorld) options(n int) delivery.Options {
	return delivery.Options{Workers: fewest, Most: most, Batch: 8, Absent: absent, Seed: w.seed + uint64(n) + 1}
}

// start starts a process.
func (w *deliveryWorld) start() {
	p := w.process()
	in := &instance{p: p}
	parts := DeliveryParts{Options: w.options(p.n), Door: gatedIntake{intakeOnRecord{w}, w.g, p}, Names: gatedRegister{w.queues, w.g, p}, Keys: gatedLedger{w, w.keys, "keys", p},
		Parts: delivery.Parts{Queues: gatedQueues{w.queues, w, in}, DeadLetters: gatedLetters{lettersOnRecord{w.letters, w, in}, w.g, p},
			Sent: gatedLedger{w, w.sent, "sent", p}, Partners: w.partners(), Env: partner.Env{Via: roads{w, p}}}}
	if w.bug != nil {
		w.bug(&parts)
	}
	sys, err := delivery.New(parts.Parts, parts.Options)
	if err != nil {
		panic(err)
	}
	calls := uint64(p.n) << 32
	endpoint, err := accept.New(parts.Keys, struct {
		queue.Intake
		queue.Register
	}{parts.Door, parts.Names}, accept.Options{
		Gather: ledger.GatherOptions{Calls: 1000}, // which calls are shared depends on the scheduler
		Call:   func() uint64 { w.book.Lock(); defer w.book.Unlock(); calls++; return calls }})
	if err != nil {
		panic(err)
	}
	in.sys, in.endpoint = sys, endpoint
	w.book.Lock()
	w.up = append(w.up, in)
	w.book.Unlock()
	w.live(p, sys.Run, func(bool) { w.leave(in) }, w.start)
}

func (w *deliveryWorld) leave(in *instance) {
	w.book.Lock()
	defer w.book.Unlock()
	for i, o := range w.up {
		if o == in {
			w.up = append(w.up[:i:i], w.up[i+1:]...)
			return
		}
	}
}

// pick is one of the running processes, or nil.
func (w *deliveryWorld) pick(n int) *instance {
	w.book.Lock()
	defer w.book.Unlock()
	if len(w.up) == 0 {
		return nil
	}
	return w.up[n%len(w.up)]
}

// play runs one seed inside its bubble and returns what the checker finds.
func (w *deliveryWorld) play() []string {
	return w.stage.play(acts{open: w.open, quiet: w.quiet, check: w.check,
		storm: func(since time.Duration) bool { return w.working() || since <= 30*time.Second }})
}

func (w *deliveryWorld) working() bool {
	w.book.Lock()
	defer w.book.Unlock()
	return w.busy > 0
}

const deliveryClients = 3

func (w *deliveryWorld) open() {
	n := 1 + w.rnd.IntN(2)
	for range n {
		w.start()
	}
	w.busy = deliveryClients
	for c := range deliveryClients {
		w.done.Go(func() { defer w.over(); w.client(c) })
	}
	if !w.peace {
		w.busy++
		w.done.Go(func() { defer w.over(); w.operate(rand.New(rand.NewPCG(w.seed, 0x09e))) })
	}
}

func (w *deliveryWorld) over() {
	w.book.Lock()
	defer w.book.Unlock()
	w.busy--
}

// quiet reports that nothing is left to do. Events that died by faults are replayed, now that
// all is well, and must be delivered: by the second time at the latest, as a replay may be the
// first to learn of a try that was cut off.
func (w *deliveryWorld) quiet() bool {
	if w.working() || w.g.stalls() {
		return false
	}
	ctx := context.Background()
	queues, err := w.queues.Queues(ctx)
	if err != nil {
		w.fault("the queues cannot be listed: %v", err)
	}
	for _, q := range queues {
		if s, err := w.queues.Stats(ctx, q); err != nil || s.Waiting+s.Delayed+s.Leased > 0 {
			return false
		}
	}
	if n, err := w.letters.Count(ctx, deadletter.Filter{State: deadletter.Replaying}); err != nil || n > 0 {
		return false
	}
	if w.again == 2 {
		return true
	}
	for _, f := range w.fars {
		if f.isDown(time.Now()) {
			return false
		}
	}
	w.again++
	w.replay(deadletter.Filter{NotKinds: []tidemill.Kind{tidemill.Validation}})
	return false
}

// replay replays dead letters, as an operator may.
func (w *deliveryWorld) replay(f deadletter.Filter) {
	w.book.Lock()
	defer w.book.Unlock()
	f.State = deadletter.Held
	for l, err := range w.letters.List(context.Background(), f) {
		e := w.of(l.Payload)
		if err != nil || e == nil {
			w.fault("a letter cannot be read, or nobody sent it: %v", err)
			return
		}
		w.count[Replays]++
		if l.Kind == tidemill.Unknown {
			w.count[Hold]++
		}
		if leg := e.legs[strings.TrimPrefix(l.Pipeline, "s2s.")]; leg != nil {
			leg.asked++
		}
	}
	if _, err := w.letters.Replay(context.Background(), f); err != nil {
		w.fault("replay: %v", err)
	}
}

// also counts what else happened.
func (w *deliveryWorld) also() map[string]int { return w.count }
