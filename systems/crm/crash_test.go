package crm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// mortal is a process that dies at one of its steps: before a call to a store has any effect,
// or after it without seeing the answer. From then on it changes nothing.
type mortal struct {
	at  string // the step
	nth int    // the occurrence of the step, from 1

	mu   sync.Mutex     // guards came and gone
	came map[string]int // to each step
	gone bool
	dead chan struct{} // closed with gone; of the bubble
}

func newMortal(at string, nth int) *mortal {
	return &mortal{at: at, nth: nth, came: map[string]int{}, dead: make(chan struct{})}
}

var errDead = errors.New("the process is dead")

// step is called before each call and after it, and reports whether the process still lives.
func (m *mortal) step(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return false
	}
	if m.came[name]++; name == m.at && m.came[name] == m.nth {
		m.gone = true
		close(m.dead)
		return false
	}
	return true
}

func (m *mortal) died() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}

// do makes a call to a store.
func (m *mortal) do(name string, call func() error) error {
	if !m.step("before " + name) {
		return errDead
	}
	err := call()
	if !m.step("after " + name) {
		return errDead
	}
	return err
}

type mortalQueues struct {
	queue.Store
	m *mortal
}

func (q mortalQueues) Open(name string, o queue.Options) tidemill.Source {
	return &mortalSource{q.Store.Open(name, o), q.m, name}
}
func (q mortalQueues) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	return q.m.do("queue.Add", func() error { return q.Store.Add(ctx, jobs, added) })
}

type mortalLetters struct {
	deadletter.Store
	m *mortal
}

func (l mortalLetters) Open(name string) tidemill.Source {
	return &mortalSource{l.Store.Open(name), l.m, "letters"}
}
func (l mortalLetters) Put(ctx context.Context, all []tidemill.DeadLetter) error {
	return l.m.do("letters.Put", func() error { return l.Store.Put(ctx, all) })
}

// mortalSource is a source whose process may die. Its messages are not renewed then.
type mortalSource struct {
	tidemill.Source
	m    *mortal
	name string
}

func (s *mortalSource) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := s.Source.Receive(ctx, into)
	if n > 0 && !s.m.step("after receive of "+s.name) {
		return 0, errDead
	}
	return n, err
}
func (s *mortalSource) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	return s.m.do("settle of "+s.name, func() error { return s.Source.Settle(ctx, ends) })
}
func (s *mortalSource) Keep(ctx context.Context) error {
	if s.m.died() {
		return errDead
	}
	return s.Source.(tidemill.Keeper).Keep(ctx)
}
func (s *mortalSource) Gate(ctx context.Context, until time.Time, probes int) error {
	if g, ok := s.Source.(tidemill.Gater); ok {
		return g.Gate(ctx, until, probes)
	}
	return nil
}
func (s *mortalSource) Books(ctx context.Context) (tidemill.Books, error) {
	return s.Source.(tidemill.Bookkeeper).Books(ctx)
}

type mortalLedger struct {
	ledger.Store
	m    *mortal
	name string
}

func (l mortalLedger) Begin(ctx context.Context, es []*ledger.Entry, b ledger.Begin) error {
	return l.m.do(l.name+".Begin", func() error { return l.Store.Begin(ctx, es, b) })
}
func (l mortalLedger) End(ctx context.Context, es []*ledger.Entry) error {
	return l.m.do(l.name+".End", func() error { return l.Store.End(ctx, es) })
}
func (l mortalLedger) Range(ctx context.Context, f ledger.Filter) iter.Seq2[*ledger.Entry, error] {
	if l.m.died() {
		return func(yield func(*ledger.Entry, error) bool) { yield(nil, errDead) }
	}
	return l.Store.Range(ctx, f)
}

// Within implements ledger.Transactor in SQLite.
func (l mortalLedger) Within(ctx context.Context, es []*ledger.Entry, do func(context.Context, *sqlitedb.Tx) error) error {
	return l.m.do(l.name+".Within", func() error { return l.Store.(*tableledger.Ledger[*sqlitedb.Tx]).Within(ctx, es, do) })
}

type mortalProfiles struct {
	profile.Store
	m *mortal
}

func (p mortalProfiles) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	return p.m.do("profiles.Resolve", func() error { return p.Store.Resolve(ctx, asks, answers) })
}

// live runs a system on stores that may die.
func (w *world) live(m *mortal, o crm.Options, specs func(m *mortal) []handler.Spec, meanwhile func(s *crm.System)) {
	w.Helper()
	o.Create, o.Seed = true, uint64(time.Now().UnixNano())+1
	sys, err := crm.New(crm.Parts{Queues: mortalQueues{w.queues, m}, DeadLetters: mortalLetters{w.letters, m}, Log: mortalLedger{w.log, m, "log"},
		Replays: mortalLedger{w.replays, m, "replays"}, Profiles: mortalProfiles{w.profiles, m}, Handlers: specs(m)}, o)
	fatal(w, err)
	w.sys = sys
	ctx, kill := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { _ = sys.Run(ctx); close(ended) }() // of a dead one the error says nothing
	go meanwhile(sys)
	select {
	case <-m.dead:
	case <-time.After(15 * time.Second):
	}
	kill()
	<-ended
}

// C4, C9, C14: wherever a process dies, nothing is lost: each event is handled in the end, or
// is a dead letter, and work in a transaction happens once.
func TestACrashAtEveryStep(t *testing.T) {
	for _, kind := range []struct {
		name   string
		stores func(*testing.T) stores
		most   int // deaths at each step
	}{{"memory", memory, 5}, {"sqlite", sqlite, 2}} {
		t.Run(kind.name, func(t *testing.T) {
			die := func(at string, nth int) (m *mortal) {
				synctest.Test(t, func(t *testing.T) {
					m = newMortal(at, nth)
					w := &world{T: t, stores: kind.stores(t)}
					w.crash(m)
					w.down()
					if w.sqlite != nil {
						fatal(t, w.sqlite.Close())
					}
				})
				return m
			}
			life := die("", 0)
			for _, step := range []string{"before log.Begin", "after log.Begin", "before log.End", "after log.End", "before profiles.Resolve", "after profiles.Resolve",
				"after receive of crm-events", "before settle of crm-events", "after settle of crm-events", "before letters.Put", "after letters.Put",
				"after receive of letters", "before settle of letters", "after settle of letters", "before queue.Add", "after queue.Add",
				"before replays.Begin", "after replays.Begin", "before replays.End", "after replays.End", "before handler", "after handler"} {
				if life.came[step] == 0 {
					t.Errorf("a life has no step %s", step)
				}
			}
			for _, step := range slices.Sorted(maps.Keys(life.came)) {
				for nth := range min(life.came[step], kind.most) {
					m := die(step, nth+1)
					if t.Failed() {
						t.Fatalf("it died %s, the time %d", step, nth+1)
					}
					if nth == 0 && !m.died() {
						t.Errorf("it never died %s", step)
					}
				}
			}
		})
	}
}

// crash is a life with a death in it, and one after it.
func (w *world) crash(m *mortal) {
	ctx := context.Background()
	var mu sync.Mutex // guards bad
	bad := true       // the event that dies at first
	if w.sqlite != nil {
		fatal(w, w.sqlite.Write(ctx, func(tx *sqlitedb.Tx) error {
			_, err := tx.Exec("CREATE TABLE effect(event TEXT, replay TEXT)")
			return err
		}))
	}
	specs := func(m *mortal) []handler.Spec {
		all := []handler.Spec{{Name: "good", Types: []string{"good"}, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
			return m.do("handler", func() error { w.note(c); return nil })
		})}, {Name: "bad", Types: []string{"bad"}, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
			return m.do("handler", func() error {
				mu.Lock()
				defer mu.Unlock()
				if bad {
					return tidemill.Fail(tidemill.Business, "no")
				}
				w.note(c)
				return nil
			})
		})}}
		if w.sqlite != nil {
			all = append(all, handler.Spec{Name: "together", Types: []string{"together"}, Many: 10, Handler: handler.InTransaction(mortalLedger{w.log, m, "log"},
				func(_ context.Context, tx *sqlitedb.Tx, calls []*handler.Call) error {
					for _, c := range calls {
						if _, err := tx.Exec("INSERT INTO effect VALUES(?,?)", c.Event.ID, c.Replay); err != nil {
							return err
						}
					}
					return nil
				})})
		}
		return all
	}
	jobs := [][]byte{raw("club", "g1", "good", ""), raw("club", "g2", "good", ""), raw("club", "b1", "bad", "")}
	if w.sqlite != nil {
		jobs = append(jobs, raw("club", "t1", "together", ""), raw("club", "t2", "together", ""))
	}
	o := crm.Options{Workers: 2, Backoff: 100 * time.Millisecond}
	// The operator repeats a request that got no answer.
	asked := func(s *crm.System) bool {
		if _, err := s.Acceptor().Accept(ctx, jobs, nil); err != nil {
			return false
		}
		time.Sleep(time.Second)
		mu.Lock()
		bad = false
		mu.Unlock()
		if s.Retry(ctx, "club", "b1") != nil {
			return false
		}
		time.Sleep(5 * time.Second)
		if _, err := s.Replay(ctx, crm.ReplayRequest{ID: "r"}); err != nil {
			return false
		}
		return true
	}
	answered := make(chan bool, 1)
	w.live(m, o, specs, func(s *crm.System) { answered <- asked(s) })
	<-answered
	if m.died() {
		w.startWith(w.parts(specs(newMortal("", 0))...), o)
		_, err := w.sys.Acceptor().Accept(ctx, jobs, nil)
		fatal(w, err)
		rest(time.Minute) // leases of the dead process expire
		mu.Lock()
		bad = false
		mu.Unlock()
		if err := w.sys.Retry(ctx, "club", "b1"); err != nil && !errors.Is(err, crm.ErrNoDeadLetter) {
			w.Error(err)
		}
		rest(10 * time.Second)
		_, err = w.sys.Replay(ctx, crm.ReplayRequest{ID: "r"})
		fatal(w, err)
		rest(time.Minute)
		w.same("dead letters", w.dead(), "")
		w.balanced()
		if r, err := w.sys.ReplayOf(ctx, "r"); err != nil || r.State != crm.ReplayDone {
			w.Errorf("the replay is %+v, %v", r, err)
		}
	}
	w.judge(ctx, m.at)
}

// judge checks the state in the end.
func (w *world) judge(ctx context.Context, died string) {
	live, again := map[string]int{}, map[string]int{}
	for _, c := range w.calls {
		if c.replay == "" {
			live[c.id]++
		} else {
			again[c.id]++
		}
	}
	if w.sqlite != nil {
		fatal(w, w.sqlite.Read(ctx, func(tx *sqlitedb.Tx) error {
			rows, err := tx.Query("SELECT event, replay FROM effect")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var event, replay string
				if err := rows.Scan(&event, &replay); err != nil {
					return err
				}
				if replay == "" {
					live[event]++
				} else {
					again[event]++
				}
			}
			return rows.Err()
		}))
	}
	ids := []string{"g1", "g2", "b1"}
	if w.sqlite != nil {
		ids = append(ids, "t1", "t2")
	}
	for _, id := range ids {
		r := w.record("club", id)
		if r.State != crm.IsCompleted {
			w.Errorf("%s, died %s: %s is %+v", w.Name(), died, id, r)
		}
		most := 2 // a handler that was cut off is called again
		if id[0] == 't' {
			most = 1
		}
		if live[id]+again[id] == 0 || live[id] > most || again[id] > most {
			w.Errorf("died %s: %s was handled %d times, and replayed %d times", died, id, live[id], again[id])
		}
		if again[id] == 0 {
			w.Errorf("died %s: %s was not replayed", died, fmt.Sprint(id))
		}
	}
}
