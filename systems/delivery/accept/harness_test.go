package accept_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/accept/redisaccept"
	"github.com/tidemill/tidemill/systems/delivery/accept/sqliteaccept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

var start = time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC)

// clock is the ledger's, moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// stores are an Acceptor's stores, with faults in between.
type stores struct {
	*clock
	ledger *faultyLedger
	queue  *faultyQueue
	all    queue.Core
	capped func(t *testing.T) queue.Core // an empty queue with room for two jobs
	stroke *faultyTransaction            // of both; nil: none
	site   string
}

// atOnce gives the stores a Transaction.
func (s *stores) atOnce(of func(q queue.Core) accept.Transaction) *stores {
	s.stroke = &faultyTransaction{Transaction: of(s.all), of: of, queue: s.all, s: s}
	return s
}

// each runs a test on every available backend, without a Transaction and with one.
func each(t *testing.T, run func(t *testing.T, s *stores)) {
	with := func(l func(now func() time.Time) ledger.Store, q queue.Core, capped func(t *testing.T) queue.Core) *stores {
		c := &clock{now: start}
		return &stores{clock: c, ledger: &faultyLedger{Store: l(c.Now)}, queue: &faultyQueue{Queues: q}, all: q, capped: capped, site: testenv.Name("site")}
	}
	t.Run("memory", func(t *testing.T) {
		run(t, with(func(now func() time.Time) ledger.Store { return tableledger.Memory(tableledger.Options{Now: now}) }, memoryqueue.New(memoryqueue.Options{}),
			func(*testing.T) queue.Core { return memoryqueue.New(memoryqueue.Options{Capacity: 2}) }))
	})
	t.Run("memory at once", func(t *testing.T) {
		var l ledger.Store
		s := with(func(now func() time.Time) ledger.Store {
			l = tableledger.Memory(tableledger.Options{Now: now})
			return l
		}, &named{memoryqueue.New(memoryqueue.Options{}), map[string]bool{}}, func(*testing.T) queue.Core {
			return &named{memoryqueue.New(memoryqueue.Options{Capacity: 2}), map[string]bool{}}
		})
		one := &sync.Mutex{}
		s.ledger.one, s.queue.one = one, one
		run(t, s.atOnce(func(q queue.Core) accept.Transaction { return memoryTransaction{one, l, q.(*named)} }))
	})
	t.Run("sqlite", func(t *testing.T) {
		var keys *sqlitetable.Store[ledger.Record]
		var l *tableledger.Ledger[*sqlitetable.Tx]
		fresh := func() *stores {
			db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			open := func(o sqlitequeue.Options) queue.Core {
				q, err := sqlitequeue.New(t.Context(), db, o)
				if err != nil {
					t.Fatal(err)
				}
				return q
			}
			opened := func(now func() time.Time) ledger.Store {
				if keys, err = sqlitetable.New(t.Context(), db, tableledger.Spec("ingest")); err != nil {
					t.Fatal(err)
				}
				l = tableledger.New(keys, tableledger.Options{Now: now})
				return l
			}
			return with(opened, open(sqlitequeue.Options{}), func(*testing.T) queue.Core { return open(sqlitequeue.Options{Capacity: 2}) })
		}
		of := func(q queue.Core) accept.Transaction { return sqliteaccept.New(l, keys, q.(*sqlitequeue.Store)) }
		s := fresh()
		run(t, s)
		other := fresh()
		if of(s.all) != nil {
			t.Error("two files have a stroke")
		}
		t.Run("at once", func(t *testing.T) { run(t, other.atOnce(of)) })
	})
	t.Run("redis", func(t *testing.T) {
		redistest.Each(t, func(t *testing.T, client rueidis.Client) {
			open := func(o redisqueue.Options) queue.Core {
				o.Prefix = testenv.Name("q")
				q, err := redisqueue.New(client, o)
				if err != nil {
					t.Fatal(err)
				}
				return q
			}
			var l *redisledger.Ledger
			opened := func(now func() time.Time) ledger.Store {
				var err error
				if l, err = redisledger.New(client, redisledger.Options{Name: "l", Prefix: testenv.Name("l"), Now: now}); err != nil {
					t.Fatal(err)
				}
				return l
			}
			capped := func(*testing.T) queue.Core { return open(redisqueue.Options{Capacity: 2}) }
			s := with(opened, open(redisqueue.Options{Shards: 3}), capped)
			of := func(q queue.Core) accept.Transaction { return redisaccept.New(l, q.(*redisqueue.Store)) }
			if of(s.all) != nil {
				t.Error("several shards have a stroke")
			}
			run(t, s)
			s = with(opened, open(redisqueue.Options{}), capped)
			if client.Mode() == rueidis.ClientModeCluster {
				if of(s.all) != nil {
					t.Error("a cluster has a stroke")
				}
				return
			}
			t.Run("at once", func(t *testing.T) { run(t, s.atOnce(of)) })
		})
	})
}

func (s *stores) acceptor(t *testing.T, change ...func(*accept.Options)) *accept.Acceptor {
	t.Helper()
	o := accept.Options{Now: s.Now}
	if s.stroke != nil {
		o.Transaction = s.stroke
	}
	for _, c := range change {
		c(&o)
	}
	a, err := accept.New(s.ledger, s.queue, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// jobs are the names in all ingest queues, sorted, with their queue.
func (s *stores) jobs(t *testing.T) (names []string) {
	t.Helper()
	for _, q := range []string{accept.High, accept.Standard, accept.Low} {
		for j, err := range s.all.List(t.Context(), queue.Filter{Queue: q}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, q[len("ingest."):]+" "+j.ID)
		}
	}
	slices.Sort(names)
	return names
}

func (s *stores) wantJobs(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := s.jobs(t); !slices.Equal(got, want) {
		t.Errorf("in the queues: %q; want %q", got, want)
	}
}

// ids of events.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// view is an event with an id; 0: without. Its time is part of its identity.
func view(n int, second int) accept.Item {
	e := event.Event{Type: "page_view", Time: start.Add(time.Duration(second) * time.Second)}
	raw := fmt.Sprintf(`{"eventType":"page_view","second":%d}`, second)
	if n != 0 {
		e.ID = id(n)
		raw = fmt.Sprintf(`{"eventType":"page_view","eventId":%q,"second":%d}`, e.ID, second)
	}
	return accept.Item{Raw: []byte(raw), Event: e}
}

func purchase(n int, order string) accept.Item {
	it := view(n, n)
	it.Event.Type, it.Event.Purchase, it.Event.Order = "purchase", true, order
	it.Raw = fmt.Appendf(nil, `{"eventType":"purchase","n":%d,"orderId":%q}`, n, order)
	return it
}

func keyed(it accept.Item, key string) accept.Item { it.Event.Key = key; return it }

// request puts events into one.
func (s *stores) request(key string, items ...accept.Item) *accept.Request {
	r := &accept.Request{Site: s.site, Key: key, Items: items}
	for i := range items {
		items[i].Event.Site = s.site
		r.Body = append(append(r.Body, items[i].Raw...), '\n')
	}
	return r
}

// outcome is an answer in short: "accepted 1" (the last digits of the id), or the error.
func outcome(t *testing.T, a *accept.Answer, err error) string {
	t.Helper()
	if err != nil {
		switch {
		case errors.Is(err, accept.ErrRunning):
			return "running"
		case errors.Is(err, accept.ErrReused):
			return "reused"
		case errors.Is(err, accept.ErrFull):
			return "full"
		}
		return "error"
	}
	var results []struct{ EventID, Status, DuplicateOf, Error string }
	if err := json.Unmarshal(a.Results, &results); err != nil {
		t.Fatalf("results %s: %v", a.Results, err)
	}
	short := func(id string) string {
		if len(id) > 24 {
			return id[min(24, len(id)):]
		}
		return id
	}
	out := ""
	for _, r := range results {
		if out != "" {
			out += ", "
		}
		out += r.Status
		if len(r.EventID) > 24 && r.EventID[:24] == id(0)[:24] {
			out += " " + short(r.EventID)
		}
		if r.DuplicateOf != "" {
			out += " of " + short(r.DuplicateOf)
		}
		if r.Error != "" {
			out += " " + r.Error
		}
	}
	if a.Again {
		out += " (again)"
	}
	return out
}

func (s *stores) try(t *testing.T, a *accept.Acceptor, r *accept.Request) string {
	t.Helper()
	answer, err := a.Accept(t.Context(), r)
	return outcome(t, answer, err)
}

// want tries a request and compares its outcome.
func (s *stores) want(t *testing.T, a *accept.Acceptor, r *accept.Request, want string) {
	t.Helper()
	if got := s.try(t, a, r); got != want {
		t.Errorf("%s: got %s; want %s", r.Body, got, want)
	}
}
