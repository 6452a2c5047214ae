package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
	"github.com/tidemill/tidemill/test/promise"
)

// Parts are what a process is made of; a test with a planted bug replaces some.
type Parts struct {
	analytics.Parts
	Intake queue.Intake
}

// world is everything durable, the processes that come and go, and the clients.
type world struct {
	*stage
	bug func(*Parts)

	queues   *memoryqueue.Store
	persons  *tableperson.Store[*memorytable.Tx]
	events   *memorywarehouse.Store
	letters  deadletter.Store
	locks    *tablelock.Locks[*memorytable.Tx]
	defs     *tabledefinition.Definitions[*memorytable.Tx]
	projects *tableproject.Projects[*memorytable.Tx]

	load    *workload
	orderly bool // one process, and nothing is ever handed out twice: claims are in the order of acknowledgement
	junk    [][]byte
	waiting atomic.Int64 // clients that have not sent everything
	stale   atomic.Int64
	ids     atomic.Uint64

	up []*incarnation // those that clients may use; stage.mu guards it
}

type incarnation struct {
	p       *process
	handler http.Handler
}

func newWorld(seed uint64, bug func(*Parts)) *world {
	w := &world{stage: newStage(seed, 0x3017), bug: bug}
	w.load = newWorkload(rand.New(rand.NewPCG(seed, 0x10ad)))
	if w.orderly = w.rnd.IntN(8) == 0; w.orderly {
		for _, c := range []Class{Lose, Stall, Crash, After, Freeze, Stop} {
			delete(w.g.rates, c)
		}
		w.load.contend(rand.New(rand.NewPCG(seed, 0xc1a1)))
	}
	w.queues = memoryqueue.New(memoryqueue.Options{})
	w.persons = tableperson.Memory(tableperson.Options{})
	w.events = memorywarehouse.New()
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		panic(err)
	}
	w.letters = letters
	w.locks = tablelock.Memory(tablelock.Options{Rand: rand.NewChaCha8([32]byte{byte(seed)})})
	w.defs = tabledefinition.Memory()
	w.projects = tableproject.Memory()
	if err := w.projects.Ensure(w.ctx, project.Project{ID: projectID, Name: "sim"}, project.HashOf(tidemill.NewSecret(ingestKey))); err != nil {
		panic(err)
	}
	return w
}

// parts are a process's own view of everything durable.
func (w *world) parts(p *process) Parts {
	parts := Parts{
		Parts: analytics.Parts{
			Source:      gatedSource{w.queues.Open(analytics.Name, queue.Options{}), "queue", idleQueue(w.queues, analytics.Name), w.g, p},
			Persons:     gatedPersons{w.persons, w.g, p},
			Warehouse:   gatedWarehouse{w.events, w.g, p},
			Definitions: gatedDefinitions{w.defs, w.g, p},
			DeadLetters: gatedLetters{w.letters, w.g, p},
			Locks:       gatedLocks{w.locks, w.g, p},
			Projects:    w.projects,
		},
		Intake: gatedIntake{w.queues, w.g, p},
	}
	if w.bug != nil {
		w.bug(&parts)
	}
	return parts
}

// start starts a process.
func (w *world) start() {
	p := w.process()
	parts := w.parts(p)
	sys, err := analytics.New(parts.Parts, analytics.Options{Batch: 8, Age: 100 * time.Millisecond, Lanes: 2, InFlight: 30,
		Replay: 20 * time.Second, ReplayBatch: 20, Seed: w.seed + uint64(p.n) + 1, Settled: w.settled})
	if err != nil {
		panic(err)
	}
	handler, err := analyticsingest.New(analyticsingest.Options{Options: endpoint.Options{Projects: w.projects, NewID: w.id}, Intake: parts.Intake,
		Warn: func(context.Context, uuid.UUID, string, string, string, string) {}})
	if err != nil {
		panic(err)
	}
	in := &incarnation{p: p, handler: handler}
	w.mu.Lock()
	w.up = append(w.up, in)
	w.mu.Unlock()
	w.live(p, sys.Run, func(bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.up = slices.DeleteFunc(w.up, func(o *incarnation) bool { return o == in })
	}, w.start)
}

func (w *world) settled(ends []tidemill.Settlement) {
	for i := range ends {
		if ends[i].Outcome == tidemill.Stale {
			w.stale.Add(1)
		}
	}
}

// id makes ids for ingest that nothing else names.
func (w *world) id() uuid.UUID {
	n := w.ids.Add(1)
	return uuid.UUID{0: 0xee, 6: 0x70, 8: 0x80, 14: byte(n >> 8), 15: byte(n)}
}

// client sends batches, each until it is accepted.
func (w *world) client(n int, batches [][]*promise.Event, pause time.Duration) {
	defer w.waiting.Add(-1)
	rnd := rand.New(rand.NewPCG(w.seed, 0xc11e+uint64(n)))
	for _, batch := range batches {
		_ = sleep.For(w.ctx, time.Duration(rnd.Int64N(int64(pause))))
		sent := time.Now()
		for w.ctx.Err() == nil && len(batch) > 0 && !w.post(n, batch, sent) {
			if time.Since(sent) > keepsSent {
				sent = time.Now()
			}
			_ = sleep.For(w.ctx, 100*time.Millisecond+time.Duration(rnd.Int64N(int64(time.Second))))
		}
	}
}

// keepsSent is how long a client's retries keep the first try's time of sending: together with
// the longest wait between two of them, less than what shows a slow clock.
const keepsSent = 4 * time.Minute

func (w *world) post(client int, batch []*promise.Event, at time.Time) bool {
	w.mu.Lock()
	var h http.Handler
	if len(w.up) > 0 {
		h = w.up[client%len(w.up)].handler
	}
	w.mu.Unlock()
	if h == nil {
		return false // refused
	}
	ctx := context.WithValue(w.ctx, clientKey{}, fmt.Sprint("client ", client))
	ctx = context.WithValue(ctx, sentKey{}, at)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/batch/", bytes.NewReader(promise.Body(ingestKey, at, batch)))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Code == http.StatusOK
}

const clients = 3

// play runs one seed inside its bubble and returns what the checker finds.
func (w *world) play() []string {
	return w.stage.play(acts{open: w.open, storm: func(time.Duration) bool { return w.waiting.Load() > 0 }, quiet: w.quiet, check: w.check})
}

func (w *world) open() {
	for i := range 3 { // messages that never were events, put into the queue past ingest
		junk := []byte(fmt.Sprintf("{\"event\": \xff%d", i))
		w.junk = append(w.junk, junk)
		if err := w.queues.Add(w.ctx, []*tidemill.Message{{ID: fmt.Sprint("junk-", i), To: analytics.Name, Payload: junk, Time: time.Now()}}, nil); err != nil {
			panic(err)
		}
	}
	if w.start(); w.rnd.IntN(2) == 0 && !w.orderly {
		w.start()
	}
	w.waiting.Store(clients + 1)
	shares := make([][][]*promise.Event, clients)
	for i, batch := range w.load.batches {
		shares[i%clients] = append(shares[i%clients], batch)
	}
	for c, share := range shares {
		w.done.Go(func() { w.client(c, share, 4*time.Second) })
	}
	w.done.Go(func() { w.client(clients, w.load.claims, 300*time.Millisecond) })
}

// quiet reports that nothing is left to do.
func (w *world) quiet() bool {
	if w.waiting.Load() > 0 {
		return false
	}
	ctx := context.Background()
	if s, err := w.queues.Stats(ctx, analytics.Name); err != nil || s.Waiting+s.Delayed+s.Leased > 0 {
		return false
	}
	for l, err := range w.letters.List(ctx, deadletter.Filter{}) {
		if err != nil || l.State != deadletter.Held || retriable(l.Kind) {
			return false
		}
	}
	if os, err := w.persons.Overrides(ctx, 1); err != nil || len(os) > 0 {
		return false
	}
	ms, err := w.persons.Oldest(ctx, 1)
	return err == nil && len(ms) == 0
}

func retriable(k tidemill.Kind) bool {
	return k != tidemill.Validation && k != tidemill.Internal
}

// also counts what else happened: replayed dead letters, and settlements that came too late.
func (w *world) also() map[string]int {
	n := map[string]int{"stale settlement": int(w.stale.Load()), "claim in order": len(w.load.claims)}
	for l, err := range w.letters.List(context.Background(), deadletter.Filter{}) {
		if err == nil {
			n["replay"] += l.Replays
		}
	}
	if b, err := w.letters.Open(analytics.Name).(tidemill.Bookkeeper).Books(context.Background()); err == nil {
		n["replay"] += int(b.Settled.Delivered)
	}
	return n
}
