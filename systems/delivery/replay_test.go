package delivery_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// died lets so many events die at a partner, which is well afterwards.
func died(w *world, name string, n int) {
	w.Helper()
	w.answers(name, status(400, "no"))
	for i := range n {
		w.add(delivery.Standard, "shop", fmt.Sprint("e", i), "page_view", "")
	}
	rest(time.Minute)
	w.answers(name, nil)
}

// replay asks for all letters of a partner, and checks how many there are.
func replay(w *world, name string, want int) {
	w.Helper()
	if n, err := w.letters.Replay(context.Background(), deadletter.Filter{Pipeline: delivery.QueueOf(name)}); n != want || err != nil {
		w.Fatalf("%d letters are replayed (%v), want %d", n, err, want)
	}
}

// A replay of many is no storm: it shares what the partner's queue may send with its jobs.
func TestReplaysKeepToTheLimits(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		died(w, "p", 100)
		if _, err := w.queues.Set(context.Background(), "s2s.p", func(s *queue.Settings) { s.Limit = queue.Limit{PerSecond: 10} }); err != nil {
			t.Fatal(err)
		}
		before := len(w.requests("p"))
		replay(w, "p", 100)
		for i := range 50 {
			w.add(delivery.Standard, "shop", fmt.Sprint("new", i), "page_view", "")
		}
		rest(5 * time.Second)
		if n := len(w.requests("p")) - before; n < 48 || n > 52 {
			t.Errorf("%d requests in 5 s, of 10 a second", n)
		}
		rest(time.Minute)
		if n := len(w.requests("p")) - before; n != 150 {
			t.Errorf("%d requests, want 150", n)
		}
		w.balanced()
	})
}

// A partner that is left alone, by its circuit or by hand, is left alone by replays too.
func TestReplaysWaitForThePartner(t *testing.T) {
	for name, away := range map[string]func(*world) (wake func()){
		"the circuit is open": func(w *world) func() {
			w.answers("p", status(503, ""))
			for i := range 5 {
				w.add(delivery.Standard, "shop", fmt.Sprint("new", i), "page_view", "")
			}
			rest(time.Second)
			if h := health(w, "p"); h.Circuit != policy.Open {
				w.Fatalf("the circuit is not open: %+v", h)
			}
			return func() { w.answers("p", nil) }
		},
		"it was opened by hand": func(w *world) func() {
			if err := w.sys.OpenCircuit(context.Background(), "p", time.Hour); err != nil {
				w.Fatal(err)
			}
			return func() { _ = w.sys.CloseCircuit(context.Background(), "p") }
		},
		"its queue is paused": func(w *world) func() {
			paused := func(is bool) {
				if _, err := w.queues.Set(context.Background(), "s2s.p", func(s *queue.Settings) { s.Paused = is }); err != nil {
					w.Fatal(err)
				}
			}
			paused(true)
			return func() { paused(false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
				died(w, "p", 100)
				wake := away(w)
				before := len(w.requests("p"))
				replay(w, "p", 100)
				rest(20 * time.Second)
				if n := len(w.requests("p")) - before; n != 0 {
					t.Errorf("%d requests meanwhile", n)
				}
				if p := w.of("shop", "e0", "p"); p.State != delivery.StateWaiting || !strings.Contains(p.Why, "to be replayed: ") {
					t.Errorf("meanwhile %+v", p)
				}
				wake()
				rest(time.Minute)
				if n, err := w.letters.Count(context.Background(), deadletter.Filter{}); n != 0 || err != nil {
					t.Errorf("%d letters are left, %v", n, err)
				}
				w.balanced()
			})
		})
	}
}

// A letter shows the newest answer, and the cause that goes with it.
func TestALetterHasTheNewestAnswer(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p", func(p *partner.Partner) { p.Items.List, p.Items.Failed = "body.results", "item != 0" })}, func(w *world) {
		died(w, "p", 1)
		for _, c := range []struct {
			status     int
			text, want string
		}{
			{422, "still no", `{"status":422,"body":"still no"}`},
			{200, `{"results":[1]}`, `{"status":200,"body":"{\"results\":[1]}"}`},
			{0, "", ""},
		} {
			w.answers("p", status(c.status, c.text))
			replay(w, "p", 1)
			rest(time.Minute)
			for l, err := range w.letters.List(context.Background(), deadletter.Filter{}) {
				if err != nil || string(l.Answer()) != c.want || l.State != deadletter.Held {
					t.Errorf("after %d: %q, %s, %v", c.status, l.Answer(), l.Cause, err)
				}
			}
		}
		w.balanced()
	})
}

// A queue that waits for room among its dead letters says so.
func TestDeadLettersThatAreFullAreSeen(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		died(w, "p", maxLetters)
		w.answers("p", status(400, "no"))
		w.add(delivery.Standard, "shop", "late", "page_view", "")
		rest(time.Minute)
		if p := w.of("shop", "late", "p"); !strings.Contains(p.Why, "delivery.dead_max") || fmt.Sprint(w.sys.Full()) != "[s2s.p]" {
			t.Errorf("%+v, full are %v", p, w.sys.Full())
		}
		if n, err := w.letters.Delete(context.Background(), deadletter.Filter{Max: 1}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		rest(time.Minute)
		if p := w.of("shop", "late", "p"); p.State != delivery.StateDead || len(w.sys.Full()) != 0 {
			t.Errorf("with room: %+v, full are %v", p, w.sys.Full())
		}
		w.balanced()
	})
}
