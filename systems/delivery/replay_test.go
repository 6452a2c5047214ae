package delivery_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// died makes so many events die at a partner, which is healthy afterwards.
func died(w *world, name string, n int) {
	w.Helper()
	w.answers(name, status(400, "no"))
	for i := range n {
		w.add(delivery.Standard, "shop", fmt.Sprint("e", i), "page_view", "")
	}
	rest(time.Minute)
	w.answers(name, nil)
}

// replay replays all dead letters of a partner, and checks how many there are.
func replay(w *world, name string, want int) {
	w.Helper()
	if n, err := w.letters.Replay(context.Background(), deadletter.Filter{Pipeline: delivery.QueueOf(name)}); n != want || err != nil {
		w.Fatalf("%d letters are replayed (%v), want %d", n, err, want)
	}
}

// A replay of many is not a storm: it shares the rate of the partner's queue with its jobs.
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

// A dead letter shows the newest answer, and its cause.
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
			rest(10 * time.Minute) // all its retries
			for l, err := range w.letters.List(context.Background(), deadletter.Filter{}) {
				if err != nil || string(l.Answer()) != c.want || l.State != deadletter.Held {
					t.Errorf("after %d: %q, %s, %v", c.status, l.Answer(), l.Cause, err)
				}
			}
		}
		w.balanced()
	})
}

// A queue that waits for room for dead letters says so.
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

// TestWhatBecameOfTheDead: once its dead letter is gone, an event says what happened to it the
// last time.
func TestWhatBecameOfTheDead(t *testing.T) {
	for _, once := range []partner.Once{partner.Purchases, partner.All, partner.Nothing} {
		t.Run(fmt.Sprintf("once=%q", once), func(t *testing.T) {
			in(t, delivery.Options{}, []partner.Partner{to("p", func(p *partner.Partner) { p.Once = once })}, func(w *world) {
				ctx := context.Background()
				died(w, "p", 2)
				letter := func(n int) deadletter.Filter {
					return deadletter.Filter{Pipeline: "s2s.p", IDs: []string{delivery.JobOf(fmt.Sprint("e", n), "p")}}
				}
				if n, err := w.letters.Replay(ctx, letter(0)); n != 1 || err != nil {
					w.Fatalf("%d letters to be replayed, %v", n, err)
				}
				if n, err := w.letters.Delete(ctx, letter(1)); n != 1 || err != nil {
					w.Fatalf("%d letters deleted, %v", n, err)
				}
				rest(time.Minute)
				p := w.of("shop", "e0", "p")
				if p.State != delivery.StateDelivered || !strings.Contains(p.Why, "replay") || len(p.Attempts) != 1 || !p.Ended.After(p.Attempts[0].At) {
					t.Errorf("of the one that was replayed: %+v", p)
				}
				if p := w.of("shop", "e1", "p"); p.State != delivery.StateSettled || !strings.Contains(p.Why, "400") {
					t.Errorf("of the one that was deleted: %+v", p)
				}
				if n := len(w.requests("p")); n != 3 {
					t.Errorf("%d requests, want 3", n)
				}

				if once == partner.All {
					return // it does not get again what it had
				}
				w.answers("p", status(400, "no"))
				if n, err := w.queues.Retry(ctx, queue.Filter{Queue: "s2s.p"}); n != 2 || err != nil {
					w.Fatalf("retried %d jobs, %v", n, err)
				}
				rest(time.Minute)
				if n, err := w.letters.Delete(ctx, letter(0)); n != 1 || err != nil {
					w.Fatalf("%d letters deleted, %v", n, err)
				}
				if p := w.of("shop", "e0", "p"); p.State != delivery.StateSettled {
					t.Errorf("of the one that was replayed, and tried once more since: %+v", p)
				}
			})
		})
	}
}

// TestWhatBecameOfWhatCouldNotBeRouted: the replay of its dead letter is what went to partners.
func TestWhatBecameOfWhatCouldNotBeRouted(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		ctx := context.Background()
		for _, id := range []string{"mended", "deleted"} {
			m := &tidemill.Message{ID: id, To: delivery.Standard, Tenant: "shop", Payload: []byte(`{"a":`)}
			if err := w.queues.Add(ctx, []*tidemill.Message{m}, nil); err != nil {
				w.Fatal(err)
			}
		}
		rest(time.Second)
		good := []byte(`{"eventType":"page_view","timestamp":"2026-01-15T10:00:00Z","siteId":"shop","eventId":"mended"}`)
		if err := w.letters.Edit(ctx, deadletter.Name{Pipeline: delivery.Standard, Tenant: "shop", ID: "mended"}, good, ""); err != nil {
			w.Fatal(err)
		}
		if n, err := w.letters.Replay(ctx, deadletter.Filter{IDs: []string{"mended"}}); n != 1 || err != nil {
			w.Fatalf("%d letters to be replayed, %v", n, err)
		}
		if n, err := w.letters.Delete(ctx, deadletter.Filter{IDs: []string{"deleted"}}); n != 1 || err != nil {
			w.Fatalf("%d letters deleted, %v", n, err)
		}
		rest(time.Minute)
		if e := w.event("shop", "mended"); e.State != delivery.StateDone || e.Why != "" || len(e.Partners) != 1 || e.Partners[0].State != delivery.StateDelivered {
			t.Errorf("of the one that was mended and replayed: %+v", e)
		}
		if e := w.event("shop", "deleted"); e.State != delivery.StateSettled || !strings.Contains(e.Why, "discarded") {
			t.Errorf("of the one that was deleted: %+v", e)
		}
		w.balanced()
	})
}

// forgetful are dead letters that lose the first settlement of a replay, as if the process died
// before it.
type forgetful struct {
	deadletter.Store
	left int
}

type forgetfulSource struct {
	tidemill.Source
	tidemill.Keeper
	tidemill.Bookkeeper
	of *forgetful
}

func (f *forgetful) Open(pipeline string) tidemill.Source {
	s := f.Store.Open(pipeline)
	return forgetfulSource{s, s.(tidemill.Keeper), s.(tidemill.Bookkeeper), f}
}

func (s forgetfulSource) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if s.of.left == 0 {
		return s.Source.Settle(ctx, ends)
	}
	s.of.left--
	for i := range ends {
		ends[i].Outcome = tidemill.Applied
	}
	return nil
}

// TestAReplayThatWasNotedIsNotSentAgain: although its dead letter is handed out once more.
func TestAReplayThatWasNotedIsNotSentAgain(t *testing.T) {
	ps := []partner.Partner{to("p", func(p *partner.Partner) { p.Once = partner.Nothing })}
	in(t, delivery.Options{}, ps, func(w *world) {
		w.stop()
		letters := &forgetful{Store: w.letters}
		w.letters = letters
		w.start(delivery.Options{}, ps)
		died(w, "p", 1)
		letters.left = 1
		replay(w, "p", 1)
		rest(time.Second)
		if n, err := w.letters.Count(context.Background(), deadletter.Filter{}); n != 1 || err != nil {
			w.Fatalf("%d letters are left, %v; want the one whose end was lost", n, err)
		}
		w.stop()
		w.start(delivery.Options{}, ps)
		rest(5 * time.Minute)
		if n, err := w.letters.Count(context.Background(), deadletter.Filter{}); n != 0 || err != nil {
			w.Errorf("%d letters are left, %v", n, err)
		}
		if n := len(w.requests("p")); n != 2 {
			w.Errorf("%d requests, want 2: the one that was refused, and its replay", n)
		}
		w.balanced()
	})
}
