package crm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// While events come, another handler takes the place of one. Each event is handled once: what has begun
// by the handler that it began with.
func TestHandlersChangeUnderTraffic(t *testing.T) {
	in(t, func(w *world) {
		by := map[string]string{} // handler by event
		named := func(name, typ string) handler.Spec {
			return handler.Spec{Name: name, Types: []string{typ}, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
				time.Sleep(20 * time.Millisecond)
				w.mu.Lock()
				defer w.mu.Unlock()
				if other := by[c.Event.ID]; other != "" {
					t.Errorf("%s is handled by %s and %s", c.Event.ID, other, name)
				}
				by[c.Event.ID] = name
				return nil
			})}
		}
		w.start(crm.Options{PerSecond: -1, PerTenant: -1}, named("old", "member.*"), named("stays", "booking.*"))
		send := func(from, to int) {
			for i := from; i < to; i++ {
				w.send(raw("club", fmt.Sprint(i), []string{"member.created", "booking.created"}[i%2], ""))
				time.Sleep(2 * time.Millisecond)
			}
		}
		send(0, 200)
		next := crm.Reload{Handlers: []handler.Spec{named("new", "member.*"), named("stays", "booking.*")}, PerSecond: -1, PerTenant: -1, Tenants: map[string]queue.Limit{"slow": {PerSecond: 1, Burst: 1}}}
		commit, _, err := w.sys.Prepare(context.Background(), next)
		fatal(w, err)
		commit()
		send(200, 400)
		for i := range 5 {
			w.send(raw("slow", fmt.Sprint(400+i), "booking.created", ""))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		count := map[string]int{}
		slow := 0
		for id, name := range by {
			if count[name]++; len(id) == 3 && id >= "400" {
				slow++
			}
		}
		if by["398"] != "new" || by["0"] != "old" || count["old"] < 50 || count["old"]+count["new"] != 200 || count["stays"] != 200+slow || slow < 2 || slow > 3 {
			t.Errorf("handled %v, %d of the slow tenant", count, slow)
		}
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.balanced()
	})
}

func TestAReloadOfHandlersThatFailsChangesNothing(t *testing.T) {
	in(t, func(w *world) {
		spec := w.does(nil, "member.*")
		w.start(crm.Options{PerSecond: 7}, spec)
		slow := w.does(nil, "booking.*")
		slow.Timeout = time.Hour / 5
		for want, r := range map[string]crm.Reload{
			"another has that name": {Handlers: []handler.Spec{spec, spec}},
			"restart":               {Handlers: []handler.Spec{slow}},
		} {
			if _, _, err := w.sys.Prepare(context.Background(), r); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		_, undo, err := w.sys.Prepare(context.Background(), crm.Reload{PerSecond: 9})
		fatal(w, err)
		undo()
		is, err := w.queues.Settings(context.Background(), crm.Queue)
		fatal(w, err)
		if is.Limit.PerSecond != 7 || w.sys.HandlerOf("member.created") != spec.Name || w.sys.HandlerOf("booking.created") != "" {
			t.Errorf("limit %v, handlers %q and %q", is.Limit, w.sys.HandlerOf("member.created"), w.sys.HandlerOf("booking.created"))
		}
		w.send(raw("club", "1", "member.created", ""))
		time.Sleep(time.Second)
		synctest.Wait()
		w.same("called", w.called(ids), "1")
		w.balanced()
	})
}
