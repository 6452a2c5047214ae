package crm_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// stores are what outlives a process.
type stores struct {
	queues       queue.Store
	letters      deadletter.Store
	log, replays ledger.Store
	profiles     profile.Store
	sqlite       *sqlitedb.DB // nil: in memory
}

// world is a CRM system on its stores, in fake time.
type world struct {
	*testing.T
	stores
	sys  *crm.System
	stop func()

	mu       sync.Mutex // guards what follows
	calls    []call
	attempts []crm.Attempt
}

// call is one call of the world's handler.
type call struct {
	at              time.Time
	id, tenant, typ string
	attempt         int
	replay          string
	isNew           bool
}

func memory(t *testing.T) stores {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := tableprofile.Memory(profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return stores{queues: memoryqueue.New(memoryqueue.Options{}), letters: letters, log: tableledger.Memory(tableledger.Options{}),
		replays: tableledger.Memory(tableledger.Options{}), profiles: profiles}
}

func sqlite(t *testing.T) stores {
	ctx := context.Background()
	db, err := sqlitedb.Open(ctx, filepath.Join(t.TempDir(), "crm.db"), sqlitedb.Options{})
	fatal(t, err)
	s := stores{sqlite: db}
	s.queues, err = sqlitequeue.New(ctx, db, sqlitequeue.Options{})
	fatal(t, err)
	letters, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	fatal(t, err)
	s.letters, err = tabledeadletter.New(ctx, letters, tabledeadletter.Options{})
	fatal(t, err)
	s.log, s.replays = ledgerIn(t, db, "crm"), ledgerIn(t, db, "crm_replay")
	profiles, err := sqlitetable.New(ctx, db, tableprofile.Spec())
	fatal(t, err)
	s.profiles, err = tableprofile.New(profiles, profile.Options{})
	fatal(t, err)
	return s
}

func ledgerIn(t testing.TB, db *sqlitedb.DB, name string) *tableledger.Ledger[*sqlitedb.Tx] {
	t.Helper()
	s, err := sqlitetable.New(t.Context(), db, tableledger.Spec(name))
	fatal(t, err)
	return tableledger.New(s, tableledger.Options{})
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in runs a test with a world in memory, in a bubble.
func in(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, stores: memory(t)}
		test(w)
		w.down()
	})
}

// each runs a test with a world in memory, and with one in SQLite.
func each(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { in(t, test) })
	t.Run("sqlite", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{T: t, stores: sqlite(t)}
			test(w)
			w.down()
			fatal(t, w.sqlite.Close())
		})
	})
}

// down stops the system, if one runs.
func (w *world) down() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// parts are the world's stores.
func (w *world) parts(specs ...handler.Spec) crm.Parts {
	return crm.Parts{Queues: w.queues, DeadLetters: w.letters, Log: w.log, Replays: w.replays, Profiles: w.profiles, Handlers: specs}
}

// start brings a system up.
func (w *world) start(o crm.Options, specs ...handler.Spec) {
	w.Helper()
	w.startWith(w.parts(specs...), o)
}

func (w *world) startWith(p crm.Parts, o crm.Options) {
	w.Helper()
	o.Seed = uint64(time.Now().UnixNano())
	o.Create = !o.Create // the tests' default
	finished := o.Finished
	o.Finished = func(a crm.Attempt) {
		w.mu.Lock()
		w.attempts = append(w.attempts, a)
		w.mu.Unlock()
		if finished != nil {
			finished(a)
		}
	}
	sys, err := crm.New(p, o)
	fatal(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	w.sys = sys
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("Run: %v", err)
		}
	}
	synctest.Wait()
}

// does is a handler of these types that records its calls, and answers as do says.
func (w *world) does(do func(*handler.Call) error, types ...string) handler.Spec {
	return handler.Spec{Name: "test " + strings.Join(types, " "), Types: types, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
		w.note(c)
		if do == nil {
			return nil
		}
		return do(c)
	})}
}

func (w *world) note(c *handler.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call{time.Now(), c.Event.ID, c.Event.Tenant, c.Event.Type, c.Attempt, c.Replay, c.New})
}

// fails is a handler's answer.
func fails(k tidemill.Kind) func(*handler.Call) error {
	return func(*handler.Call) error { return tidemill.Fail(k, "as the test says") }
}

// called are the calls so far, as show writes them, sorted.
func (w *world) called(show func(call) string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, c := range w.calls {
		all = append(all, show(c))
	}
	slices.Sort(all) // several workers run
	return strings.Join(all, " ")
}

func ids(c call) string { return c.id }

// ended are the attempts so far, as "id status kind-or-reason".
func (w *world) ended() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, a := range w.attempts {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", a.ID, a.Status, strings.TrimPrefix(a.Kind.String()+a.Reason, "none"))))
	}
	return all
}

// raw is an event.
func raw(tenant, id, typ, payload string) []byte {
	if payload == "" {
		payload = "{}"
	}
	return fmt.Appendf(nil, `{"id":%q,"type":%q,"tenantId":%q,"identity":{"externalId":"m-%s"},"occurredAt":"1999-12-31T10:00:00.000Z","payload":%s}`, id, typ, tenant, id, payload)
}

// send sends events and returns what became of them.
func (w *world) send(raws ...[]byte) []accept.Result {
	w.Helper()
	results, err := w.sys.Acceptor().Accept(context.Background(), raws, nil)
	fatal(w, err)
	return results
}

// record is the sync log's record.
func (w *world) record(tenant, id string) *crm.Record {
	w.Helper()
	e, err := w.sys.Event(context.Background(), tenant, id)
	if errors.Is(err, crm.ErrNoEvent) {
		return &crm.Record{}
	}
	fatal(w, err)
	if e.Record == nil {
		return &crm.Record{}
	}
	return e.Record
}

// dead are the ids of dead letters with their kinds.
func (w *world) dead() string {
	w.Helper()
	var all []string
	for l, err := range w.letters.List(context.Background(), deadletter.Filter{Pipeline: crm.Queue}) {
		fatal(w, err)
		all = append(all, l.ID+" "+l.Kind.String())
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// balanced checks the books.
func (w *world) balanced() {
	w.Helper()
	a, err := w.sys.Audit(context.Background())
	fatal(w, err)
	if !a.Balanced {
		w.Errorf("books do not balance: %+v", a)
	}
}

// rest lets time pass.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// same compares values.
func (w *world) same(what string, got, want any) {
	w.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// make makes a profile.
func (w *world) make(tenant, external string) {
	w.Helper()
	answers := make([]profile.Answer, 1)
	fatal(w, w.profiles.Resolve(context.Background(), []profile.Ask{{Tenant: tenant, Identities: profile.Identities{External: external}, Create: true}}, answers))
	fatal(w, answers[0].Err)
}

func runtimeExit() { runtime.Goexit() }

func allOf(pipeline string) deadletter.Filter { return deadletter.Filter{Pipeline: pipeline} }

// sysOf is a system that does not run.
func (w *world) sysOf(specs ...handler.Spec) *crm.System {
	w.Helper()
	s, err := crm.New(w.parts(specs...), crm.Options{})
	fatal(w, err)
	return s
}
