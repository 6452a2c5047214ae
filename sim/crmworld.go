package sim

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
)

// CRMParts are what a process of the CRM system is made of; a test with a planted bug replaces
// some.
type CRMParts struct {
	crm.Parts
	Options crm.Options
	Door    queue.Intake // for accepted events
}

// What happens in addition to the faults of the gate, and must happen. Repeated, ByHand and
// Replays are those of delivery.
const (
	Opened     = "letter opened again"
	Requested  = "event replayed"
	AskedTwice = "replay asked for twice"
	LeftBehind = "handler left behind"
	Panicked   = "handler panicked"
	Exited     = "handler ended its goroutine"
	CutOff     = "handler cut off by a crash"
	Unanswered = "end not written"
)

// crmWorld is a queue, dead letters, a sync log, replays and profiles, processes that come
// and go with their handlers, clients and an operator.
//
// One seed in eight is in peace: the only fault is that one tenant floods the others. Then the
// cost for the others is measured, and every call must be right.
type crmWorld struct {
	*stage
	bug   func(*CRMParts)
	peace bool

	queues   *memoryqueue.Store
	letters  deadletter.Store
	log      *tableledger.Ledger[*memorytable.Tx]
	asked    *tableledger.Ledger[*memorytable.Tx] // replays
	profiles *tableprofile.Store[*memorytable.Tx]

	events   []*happening
	byKey    map[string]*happening // by tenant and id
	sendings []*sending

	book     sync.Mutex // guards the history of happenings, and what follows
	count    map[string]int
	handouts map[string]*handout // by source and position
	until    map[uint64]time.Time
	newest   map[string]uint64    // token, by key of the sync log
	stopped  map[string]time.Time // replays, since when
	requests []*crm.ReplayRequest // that were answered
	up       []*crmInstance
	busy     int // unfinished clients and operators
	again    int // how often dead letters were opened again in the end
}

// crmInstance is a running process.
type crmInstance struct {
	p        *process
	sys      *crm.System
	endpoint *accept.Acceptor
}

// handout is a job that was handed to a process.
type handout struct {
	e       *happening
	job     string
	request string
}

func newCRMWorld(seed uint64, bug func(*CRMParts)) *crmWorld {
	w := &crmWorld{stage: newStage(seed, 0xc4), bug: bug, count: map[string]int{}, byKey: map[string]*happening{}, handouts: map[string]*handout{},
		until: map[uint64]time.Time{}, newest: map[string]uint64{}, stopped: map[string]time.Time{}}
	draw := rand.New(rand.NewPCG(seed, 0xc4e))
	if w.peace = draw.IntN(8) == 0; w.peace {
		clear(w.g.rates)
	}
	w.queues = memoryqueue.New(memoryqueue.Options{})
	w.log, w.asked = tableledger.Memory(tableledger.Options{}), tableledger.Memory(tableledger.Options{})
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		panic(err)
	}
	w.letters = letters
	ids := byte(0)
	if w.profiles, err = tableprofile.Memory(profile.Options{NewID: func() uuid.UUID { ids++; return uuid.UUID{6: 0x70, 8: 0x80, 14: 1, 15: ids} }}); err != nil {
		panic(err)
	}
	w.draw(draw)
	return w
}

// Limits of these worlds: a flood has to wait.
const (
	crmPerSecond = 40
	crmPerTenant = 10
)

func (w *crmWorld) options(n int) crm.Options {
	return crm.Options{Workers: 3, Batch: 6, Backoff: time.Second, PerSecond: crmPerSecond, PerTenant: crmPerTenant, Create: true, ReplayAhead: 10, Seed: w.seed + uint64(n) + 1}
}

// start starts a process.
func (w *crmWorld) start() {
	p := w.process()
	in := &crmInstance{p: p}
	log := gatedLog{w, w.log, "log", p}
	parts := CRMParts{Options: w.options(p.n), Door: gatedIntake{crmIntakeOnRecord{w}, w.g, p},
		Parts: crm.Parts{Queues: crmQueues{w.queues, w, p}, DeadLetters: gatedLetters{crmLettersOnRecord{w.letters, w}, w.g, p},
			Log: log, Replays: gatedLog{w, w.asked, "replays", p}, Profiles: gatedProfiles{w.profiles, w.g, p}, Handlers: w.handlers(p, log)}}
	if w.bug != nil {
		w.bug(&parts)
	}
	sys, err := crm.New(parts.Parts, parts.Options)
	if err != nil {
		panic(err)
	}
	endpoint, err := accept.New(parts.Door, accept.Options{})
	if err != nil {
		panic(err)
	}
	in.sys, in.endpoint = sys, endpoint
	w.book.Lock()
	w.up = append(w.up, in)
	w.book.Unlock()
	w.live(p, sys.Run, func(bool) { w.leave(in) }, w.start)
}

func (w *crmWorld) leave(in *crmInstance) {
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
func (w *crmWorld) pick(n int) *crmInstance {
	w.book.Lock()
	defer w.book.Unlock()
	if len(w.up) == 0 {
		return nil
	}
	return w.up[n%len(w.up)]
}

// play runs one seed inside its bubble and returns what the checker finds.
func (w *crmWorld) play() []string {
	return w.stage.play(acts{open: w.open, quiet: w.quiet, check: w.check,
		storm: func(since time.Duration) bool { return w.working() || since <= 30*time.Second }})
}

func (w *crmWorld) working() bool {
	w.book.Lock()
	defer w.book.Unlock()
	return w.busy > 0
}

const crmClients = 3

func (w *crmWorld) open() {
	w.acquainted()
	for range 1 + w.rnd.IntN(2) {
		w.start()
	}
	w.busy = crmClients
	for c := range crmClients {
		w.done.Go(func() { defer w.over(); w.client(c) })
	}
	if !w.peace {
		w.busy++
		w.done.Go(func() { defer w.over(); w.operate(rand.New(rand.NewPCG(w.seed, 0x09e))) })
	}
}

func (w *crmWorld) over() {
	w.book.Lock()
	defer w.book.Unlock()
	w.busy--
}

// quiet reports that nothing is left to do. Events that died by faults are opened again, now
// that all is well, and must be completed; and everything is replayed once, by a request that
// is made twice.
func (w *crmWorld) quiet() bool {
	if w.working() || w.g.stalls() {
		return false
	}
	ctx := context.Background()
	s, err := w.queues.Stats(ctx, crm.Queue)
	if err != nil {
		w.fault("the queue cannot be looked at: %v", err)
	}
	if s.Waiting+s.Delayed+s.Leased > 0 {
		return false
	}
	if n, err := w.letters.Count(ctx, deadletter.Filter{State: deadletter.Replaying}); err != nil || n > 0 {
		return false
	}
	for e, err := range w.asked.Range(ctx, ledger.Filter{}) {
		if stop := strings.HasPrefix(e.Key, "stop/"); err != nil || e.State != ledger.Done && !stop {
			return false
		}
	}
	switch w.again {
	case 0, 2:
		w.openAgain(deadletter.Filter{NotKinds: []tidemill.Kind{tidemill.Business}})
	case 1:
		w.again++
		for range 2 {
			w.busy++
			w.done.Go(func() { defer w.over(); w.ask(&crm.ReplayRequest{ID: "in-the-end"}) })
		}
		return false
	default:
		return true
	}
	w.again++
	return false
}

// openAgain opens dead letters again, as an operator may.
func (w *crmWorld) openAgain(f deadletter.Filter) {
	w.book.Lock()
	defer w.book.Unlock()
	f.State, f.Pipeline = deadletter.Held, crm.Queue
	n, err := w.letters.Replay(context.Background(), f)
	if err != nil {
		w.fault("open letters again: %v", err)
	}
	w.count[Replays] += n
}

// also counts what else happened.
func (w *crmWorld) also() map[string]int { return w.count }
