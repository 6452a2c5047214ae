package crm_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// many are events of a tenant.
func many(tenant, typ string, n int) (all [][]byte) {
	for i := range n {
		all = append(all, raw(tenant, fmt.Sprintf("%s-%d", tenant, i), typ, ""))
	}
	return all
}

// C8: a tenant with a flood of events gets its 50 a second, and the ten events of another take
// less than 100 ms.
func TestATenantsMountainDelaysNobody(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{}, w.does(nil, "*"))
		for part := range slices.Chunk(many("big", "member.updated", 100_000), 10_000) {
			w.send(part...)
		}
		rest(10 * time.Second)
		sent := time.Now()
		w.send(many("small", "member.updated", 10)...)
		rest(5 * time.Second)
		perSecond := map[time.Time]int{}
		small := 0
		for _, c := range w.calls {
			if c.tenant == "small" {
				small++
				if took := c.at.Sub(sent); took > 100*time.Millisecond {
					w.Errorf("%s waited %v, want at most 100ms", c.id, took)
				}
				continue
			}
			perSecond[c.at.Truncate(time.Second)]++
		}
		w.same("events of the small one", small, 10)
		full := 0
		for at, n := range perSecond {
			if n > 60 { // a burst of ten after the pause before the first
				w.Errorf("%d events of the big one in the second of %v, want 50", n, at)
			}
			if n >= 50 {
				full++
			}
		}
		if full < 13 {
			w.Errorf("50 events or more in %d seconds of 15", full)
		}
		for _, a := range w.attempts {
			if a.Number != 1 {
				w.Fatalf("waiting burnt a try of %s", a.ID)
			}
		}
	})
}

// C8: 100 a second for all, and a limit of its own for a tenant.
func TestTheQueuesLimit(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{Tenants: map[string]queue.Limit{"slow": {PerSecond: 5, Burst: 1}}}, w.does(nil, "*"))
		for _, tenant := range []string{"a", "b", "c", "slow"} {
			w.send(many(tenant, "member.updated", 1000)...)
		}
		rest(10 * time.Second)
		n := map[string]int{}
		for _, c := range w.calls {
			n[c.tenant]++
		}
		if all := len(w.calls); all < 1000 || all > 1030 {
			w.Errorf("%d events in 10s, want 100 a second and a burst of 20", all)
		}
		if n["slow"] < 45 || n["slow"] > 52 {
			w.Errorf("%d events of the slow one, want 50", n["slow"])
		}
		for _, tenant := range []string{"a", "b", "c"} {
			if n[tenant] < 300 {
				w.Errorf("%d events of %s: want a third each", n[tenant], tenant)
			}
		}
	})
}

// C8: 10 handlers at once in an instance, however many events wait.
func TestAtOnce(t *testing.T) {
	in(t, func(w *world) {
		var mu sync.Mutex
		now, most := 0, 0
		w.start(crm.Options{PerSecond: -1, PerTenant: -1}, w.does(func(*handler.Call) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}, "*"))
		w.send(many("club", "member.updated", 500)...)
		rest(5100 * time.Millisecond)
		mu.Lock()
		all := most
		mu.Unlock()
		w.same("at once, and nearly all done in 5s", fmt.Sprint(all, len(w.ended()) >= 450), "10 true") // now and then a worker is a round late
		rest(time.Second)
	})
}

// C3: urgent events go first, and the others go on.
func TestPriorities(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{PerSecond: 100, PerTenant: -1, Workers: 1}, w.does(nil, "*"))
		pause := func(yes bool) {
			_, err := w.queues.Set(context.Background(), crm.Queue, func(s *queue.Settings) { s.Paused = yes })
			fatal(w, err)
		}
		pause(true)
		for i := range 1000 {
			w.send(raw("club", fmt.Sprint("low", i), "email.opened", ""), raw("club", fmt.Sprint("normal", i), "member.updated", ""),
				raw("club", fmt.Sprint("high", i), "payment.failed", ""), raw("club", fmt.Sprint("other", i), "unlisted", ""))
		}
		pause(false)
		rest(10 * time.Second)
		n := map[string]int{}
		for _, c := range w.calls {
			n[c.typ]++
		}
		all := len(w.calls)
		for typ, part := range map[string]int{"payment.failed": 64, "email.opened": 4} {
			if want := all * part / 84; n[typ] < want*9/10 || n[typ] > want*11/10 {
				w.Errorf("%d of %d are %s, want about %d", n[typ], all, typ, want)
			}
		}
		if normal := n["member.updated"] + n["unlisted"]; normal < all*16/84*9/10 {
			w.Errorf("%d of %d are normal", normal, all)
		}
		// An urgent one overtakes all that wait.
		sent := time.Now()
		pause(true)
		fatal(w, clean(w))
		for i := range 1000 {
			w.send(raw("club", fmt.Sprint("slow", i), "email.opened", ""))
		}
		w.send(raw("club", "now", "message.bounced", ""))
		pause(false)
		rest(time.Second)
		for _, c := range w.calls {
			if c.id == "now" && c.at.Sub(sent) > 100*time.Millisecond {
				w.Errorf("the urgent one waited %v", c.at.Sub(sent))
			}
		}
		if !strings.Contains(w.called(ids), "now") {
			w.Error("the urgent one still waits")
		}
	})
}

func clean(w *world) error {
	_, err := w.sys.Clean(context.Background(), "wait", 0)
	return err
}

// C3: low ones come in batches, to handlers of many.
func TestBatches(t *testing.T) {
	in(t, func(w *world) {
		var mu sync.Mutex
		var sizes []int
		w.start(crm.Options{PerSecond: -1, PerTenant: -1, Workers: 2, Ahead: 200}, handler.Spec{Name: "many", Types: []string{"email.*"}, Many: 50,
			Handler: handler.Batch(func(_ context.Context, calls []*handler.Call) error {
				mu.Lock()
				sizes = append(sizes, len(calls))
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				return nil
			})})
		w.send(many("club", "email.opened", 1000)...)
		rest(time.Second)
		all := 0
		for _, n := range sizes {
			all += n
		}
		if all != 1000 || len(sizes) > 50 || slices.Max(sizes) > 50 {
			w.Errorf("%d events in %d calls of at most %d: want 1000, many in each, 50 at most", all, len(sizes), slices.Max(sizes))
		}
		w.balanced()
	})
}

// C3, C8: few events of slow handlers are held, so that urgent ones come soon; more of fast
// ones, so that they share the writes.
func TestHowMuchIsHeld(t *testing.T) {
	for _, c := range []struct {
		takes       time.Duration
		least, most int
	}{{time.Second, 40, 40}, {time.Millisecond, 100, 300}, {100 * time.Microsecond, 500, 1000}} {
		in(t, func(w *world) {
			w.start(crm.Options{PerSecond: -1, PerTenant: -1}, w.does(func(*handler.Call) error { time.Sleep(c.takes); return nil }, "*"))
			for part := range slices.Chunk(many("club", "member.updated", 6000), 2000) {
				w.send(part...)
			}
			held := 0
			for range 10 {
				rest(15 * time.Millisecond)
				held = max(held, w.sys.Pipeline(crm.Queue).Stats().InFlight)
			}
			if held < c.least || held > c.most {
				w.Errorf("where a handler takes %v, %d are held; want %d to %d", c.takes, held, c.least, c.most)
			}
			fatal(w, clean(w))
			rest(time.Minute)
			w.balanced()
		})
	}
}

// A tenant's limit set by hand survives a restart; a configured one goes with its
// configuration.
func TestLimitsAcrossRestarts(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{Tenants: map[string]queue.Limit{"slow": {PerSecond: 5}}}, w.does(nil, "*"))
		rest(time.Second)
		_, err := w.queues.Set(t.Context(), crm.Queue, func(s *queue.Settings) { s.Tenants["hand"] = queue.Limit{PerSecond: 2} })
		fatal(w, err)
		w.stop()
		w.start(crm.Options{}, w.does(nil, "*"))
		rest(time.Second)
		s, err := w.queues.Settings(t.Context(), crm.Queue)
		fatal(w, err)
		if len(s.Tenants) != 1 || s.Tenants["hand"].PerSecond != 2 || s.Limit.PerSecond != 100 || s.Tenant.PerSecond != 50 {
			w.Errorf("after a restart without it: %+v, of each tenant %+v, of tenants %+v", s.Limit, s.Tenant, s.Tenants)
		}
	})
}
