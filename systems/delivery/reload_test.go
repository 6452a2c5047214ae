package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// reload has other partners in force.
func (w *world) reload(ps ...partner.Partner) {
	w.Helper()
	p, err := w.sys.Prepare(context.Background(), delivery.Reload{Partners: ps, Env: partner.Env{Via: w.partners}})
	if err != nil {
		w.Fatal(err)
	}
	p.Commit()
}

// keys counts requests by their keys, and refuses events that were sent twice.
func (w *world) keys(names ...string) map[string]bool {
	w.Helper()
	all := map[string]bool{}
	for _, name := range names {
		for _, r := range w.requests(name) {
			if all[r.key] {
				w.Errorf("%v got %s twice", names, r.key)
			}
			all[r.key] = true
		}
	}
	return all
}

// removed are the ids of events whose jobs ended because their partner was removed.
func (w *world) removed(name string) map[string]bool {
	w.Helper()
	all := map[string]bool{}
	for l, err := range w.letters.List(context.Background(), deadletter.Filter{Pipeline: delivery.QueueOf(name)}) {
		if err != nil {
			w.Fatal(err)
		}
		if !strings.Contains(l.Cause, "was removed") {
			w.Errorf("%s died of %s", l.ID, l.Cause)
		}
		all[strings.TrimSuffix(l.ID, "/"+name)] = true
	}
	return all
}

// While a thousand events a second come, partners are added, changed and removed. No event is lost or
// sent twice, and none to the partner that was removed.
func TestPartnersComeChangeAndGoUnderLoad(t *testing.T) {
	patient := func(p *partner.Partner) { p.Timeout = time.Minute }
	busy := func(p *partner.Partner) { p.Workers = 16 } // it takes 800 a second, so that some wait
	in(t, delivery.Options{}, []partner.Partner{to("stays", patient), to("goes", patient, busy), to("changes", patient)}, func(w *world) {
		w.slow = 20 * time.Millisecond
		var added atomic.Int64
		traffic, enough := context.WithCancel(context.Background())
		ended := make(chan bool)
		go func() {
			defer close(ended)
			for traffic.Err() == nil {
				n := added.Add(1)
				w.add([]string{delivery.High, delivery.Standard, delivery.Low}[n%3], "shop", fmt.Sprintf("e%d", n), "page_view", "")
				time.Sleep(time.Millisecond)
			}
		}()
		time.Sleep(time.Second)
		moved := to("changes", patient, func(p *partner.Partner) { p.Endpoint = "https://changed.test/events" })
		w.reload(to("stays", patient), to("goes", patient, busy), to("changes", patient), to("comes", patient))
		withNew := added.Load()
		time.Sleep(time.Second)
		w.reload(to("stays", patient), to("goes", patient, busy), moved, to("comes", patient))
		changed := len(w.requests("changes"))
		time.Sleep(time.Second)
		w.reload(to("stays", patient), moved, to("comes", patient))
		gone := len(w.requests("goes"))
		time.Sleep(2 * time.Second)
		enough()
		<-ended
		rest(5 * time.Second)

		n := int(added.Load())
		if got := len(w.keys("stays")); got != n {
			t.Errorf("the partner that stays got %d of %d", got, n)
		}
		if got := len(w.keys("changes", "changed")); got != n {
			t.Errorf("the partner that changes got %d of %d", got, n)
		}
		if now := len(w.requests("changes")); now != changed {
			t.Errorf("the old endpoint got %d after the reload had answered", now-changed)
		}
		if now := len(w.requests("goes")); now != gone {
			t.Errorf("the partner that goes got %d after the reload had answered", now-gone)
		}
		came := w.keys("comes")
		for i := withNew + 1; i <= int64(n); i++ {
			if !came[fmt.Sprintf("e%d", i)] {
				t.Errorf("the partner that comes did not get e%d", i)
			}
		}
		got, dead := w.keys("goes"), w.removed("goes")
		for id := range dead {
			if got[id] {
				t.Errorf("%s was sent, and is dead", id)
			}
		}
		st, err := w.queues.Open(delivery.QueueOf("goes"), queue.Options{}).(tidemill.Bookkeeper).Books(context.Background())
		if err != nil || st.Accepted != uint64(len(got)+len(dead)) || st.Pending != 0 || gone == 0 || len(dead) == 0 {
			t.Errorf("of the partner that goes %+v, %v: %d were sent, and %d are dead", st, err, len(got), len(dead))
		}
		w.balanced()
	})
}

// What waits for a partner that is away when it is removed becomes dead letters, and a replay sends
// them when it is there again.
func TestARemovedPartnerThatComesAgainLosesNothing(t *testing.T) {
	few := 3
	in(t, delivery.Options{}, []partner.Partner{to("p", func(p *partner.Partner) { p.MaxRetries = &few })}, func(w *world) {
		w.answers("p", status(503, ""))
		for i := range 40 {
			w.add(delivery.High, "shop", fmt.Sprint(i), "purchase", "")
		}
		rest(2 * time.Second)
		w.reload()
		before := len(w.requests("p"))
		rest(3 * time.Minute) // what was to be tried again is due, and the circuit's gate opens
		if dead := w.removed("p"); len(dead) != 40 || len(w.requests("p")) != before {
			t.Fatalf("%d are dead, and %d were sent since", len(dead), len(w.requests("p"))-before)
		}
		if _, err := w.sys.Delivering(context.Background(), &delivery.EventStatus{}, "p"); !errors.Is(err, delivery.ErrNoPartner) {
			t.Errorf("of a partner that is gone: %v", err)
		}
		w.balanced()
		w.answers("p", status(200, ""))
		w.reload(to("p"))
		if n, err := w.letters.Replay(context.Background(), deadletter.Filter{Pipeline: delivery.QueueOf("p")}); err != nil || n != 40 {
			t.Fatalf("%d, %v", n, err)
		}
		w.add(delivery.High, "shop", "new", "purchase", "")
		rest(time.Minute)
		taken := map[string]bool{}
		for _, r := range w.requests("p") {
			if r.status == http.StatusOK {
				if taken[r.key] {
					t.Errorf("%s was sent twice", r.key)
				}
				taken[r.key] = true
			}
		}
		if len(taken) != 41 {
			t.Errorf("%d were sent", len(taken))
		}
		w.balanced()
	})
}

// refusing is a store that refuses the settings of one queue.
type refusing struct {
	queue.Store
	name atomic.Value
}

func (r *refusing) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	if name == r.name.Load() {
		return queue.Settings{}, errors.New("the store is away")
	}
	return r.Store.Set(ctx, name, change)
}

func TestAReloadThatFailsLeavesPartnersAsTheyWere(t *testing.T) {
	limited := func(n int) func(*partner.Partner) { return func(p *partner.Partner) { p.RateLimit.Requests = n } }
	in(t, delivery.Options{}, nil, func(w *world) {
		w.stop()
		store := &refusing{Store: w.queues}
		w.queues = store
		w.start(delivery.Options{}, []partner.Partner{to("a", limited(100)), to("b")})
		synctest.Wait()
		settings := func() (all [2]queue.Settings) {
			for i, name := range []string{"a", "b"} {
				var err error
				if all[i], err = w.queues.Settings(context.Background(), delivery.QueueOf(name)); err != nil {
					t.Fatal(err)
				}
			}
			return all
		}
		before := settings()
		store.name.Store(delivery.QueueOf("b"))
		for name, ps := range map[string][]partner.Partner{
			"a condition that is none": {to("a", limited(5)), to("b", func(p *partner.Partner) { p.When = "event.vale > 1" })},
			"the same name twice":      {to("a", limited(5)), to("a")},
			"the store is away":        {to("a", limited(5)), to("b", limited(7)), to("c")},
		} {
			if _, err := w.sys.Prepare(context.Background(), delivery.Reload{Partners: ps, Env: partner.Env{Via: w.partners}}); err == nil {
				t.Errorf("%s: it is prepared", name)
			}
			if after := settings(); after[0].Version() != before[0].Version() || after[1].Version() != before[1].Version() {
				t.Errorf("%s: the queues have other settings: %+v, were %+v", name, after, before)
			}
		}
		w.add(delivery.High, "shop", "1", "purchase", "")
		rest(time.Second)
		if a, b, c := len(w.requests("a")), len(w.requests("b")), len(w.requests("c")); a != 1 || b != 1 || c != 0 {
			t.Errorf("sent %d, %d and %d", a, b, c)
		}
		w.balanced()
	})
}

// A partner that an operator has paused stays paused when it is changed, and another limit of its site
// holds at once.
func TestAChangedPartnerStaysPaused(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p"), to("q")}, func(w *world) {
		synctest.Wait()
		if err := w.sys.Pipeline(delivery.QueueOf("p")).Pause(); err != nil {
			t.Fatal(err)
		}
		ps := []partner.Partner{to("p", func(p *partner.Partner) { p.Method = http.MethodPut }), to("q")}
		r, err := w.sys.Prepare(context.Background(), delivery.Reload{Partners: ps, Env: partner.Env{Via: w.partners}, Tenants: map[string]queue.Limit{"shop": {PerSecond: 1, Burst: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		untouched := w.sys.Pipeline(delivery.QueueOf("q"))
		r.Commit()
		if w.sys.Pipeline(delivery.QueueOf("q")) != untouched {
			t.Error("a partner that did not change was started anew")
		}
		for i := range 5 {
			w.add(delivery.High, "shop", fmt.Sprint(i), "purchase", "")
		}
		rest(2 * time.Second)
		if p, q := len(w.requests("p")), len(w.requests("q")); p != 0 || q < 2 || q > 3 {
			t.Errorf("the paused one got %d, and the other %d in two seconds", p, q)
		}
		if err := w.sys.Pipeline(delivery.QueueOf("p")).Resume(); err != nil {
			t.Fatal(err)
		}
		rest(10 * time.Second)
		if p, q := len(w.keys("p")), len(w.keys("q")); p != 5 || q != 5 {
			t.Errorf("got %d and %d", p, q)
		}
		w.balanced()
	})
}

// A partner whose secret is another one is built anew, others are not touched.
func TestAReloadTakesARotatedSecret(t *testing.T) {
	in(t, delivery.Options{}, nil, func(w *world) {
		w.stop()
		var token atomic.Value
		token.Store("canary-1")
		env := partner.Env{Via: w.partners, Secret: func(string) (tidemill.Secret, bool) { return tidemill.NewSecret(token.Load().(string)), true }}
		ps := []partner.Partner{to("p", func(p *partner.Partner) { p.Auth = partner.Auth{Type: "bearer", Credentials: "TOKEN"} }), to("q")}
		var seen atomic.Value
		w.answers("p", func(r *http.Request, _ string) (int, string) {
			seen.Store(r.Header.Get("Authorization"))
			return 200, ""
		})
		sys, err := delivery.New(delivery.Parts{Queues: w.queues, DeadLetters: w.letters, Sent: w.sent, Partners: ps, Env: env}, delivery.Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		w.sys = sys
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- sys.Run(ctx) }()
		w.stop = func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		p, q := sys.Pipeline(delivery.QueueOf("p")), sys.Pipeline(delivery.QueueOf("q"))
		for i, want := range []string{"canary-1", "canary-2"} {
			token.Store(want)
			r, err := sys.Prepare(ctx, delivery.Reload{Partners: ps, Env: env})
			if err != nil {
				t.Fatal(err)
			}
			r.Commit()
			w.add(delivery.High, "shop", want, "purchase", "")
			rest(time.Second)
			if seen.Load() != "Bearer "+want || (sys.Pipeline(delivery.QueueOf("p")) == p) != (i == 0) || sys.Pipeline(delivery.QueueOf("q")) != q {
				t.Errorf("it shows %v, want %s", seen.Load(), want)
			}
		}
		w.balanced()
	})
}
