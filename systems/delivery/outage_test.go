package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// away is a ledger that can be switched off.
type away struct {
	ledger.Store
	gone atomic.Bool
}

func (a *away) Begin(ctx context.Context, es []*ledger.Entry, b ledger.Begin) error {
	if a.gone.Load() {
		return tidemill.Fail(tidemill.Transient, "%w", errors.New("nobody answers"))
	}
	return a.Store.Begin(ctx, es, b)
}

// An outage of our own ledger does not count as a try of a purchase, nor is a partner left
// alone for it.
func TestAnOutageOfTheLedgerIsNobodysFailure(t *testing.T) {
	none := 0
	ps := []partner.Partner{to("one", func(p *partner.Partner) { p.MaxRetries = &none })}
	in(t, delivery.Options{}, ps, func(w *world) {
		w.stop()
		l := &away{Store: w.sent}
		l.gone.Store(true)
		w.startOn(l, delivery.Options{}, ps)
		for _, id := range []string{"e1", "e2", "e3", "e4", "e5", "e6", "e7"} {
			w.add(delivery.High, "shop", id, "purchase", `,"value":1`)
		}
		w.add(delivery.Standard, "shop", "v1", "page_view", "")
		rest(time.Hour) // it is handed out again and again
		if p := w.of("shop", "e1", "one"); p.Tries != 0 || p.State != delivery.StateDelayed && p.State != delivery.StateSending {
			t.Errorf("while the ledger is away e1 is %+v", p)
		}
		if p := w.of("shop", "v1", "one"); p.State != delivery.StateDelivered {
			t.Errorf("what needs no ledger is %+v", p)
		}
		l.gone.Store(false)
		rest(time.Minute)
		if p := w.of("shop", "e7", "one"); p.State != delivery.StateDelivered || len(w.requests("one")) != 8 {
			t.Errorf("e7 is %+v, %d requests", p, len(w.requests("one")))
		}
		w.balanced()
	})
}

// Each event for a partner that always fails ends after its seven retries, with the default
// breaker: a probe is a try, and tries are remembered from probe to probe.
func TestEveryEventForAPartnerThatAlwaysFailsEnds(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("gone")}, func(w *world) {
		w.answers("gone", status(503, ""))
		for n := range 5 { // in a row: its circuit opens
			w.add(delivery.Standard, "shop", fmt.Sprint("e", n), "page_view", "")
		}
		rest(2 * time.Minute)
		if p := w.of("shop", "e0", "gone"); p.State == delivery.StateDead {
			t.Errorf("e0 died after %d tries within two minutes of an outage", p.Tries)
		}
		rest(time.Hour)
		for n := range 5 {
			if p := w.of("shop", fmt.Sprint("e", n), "gone"); p.State != delivery.StateDead || p.Tries != 8 || len(p.Attempts) != 8 {
				t.Errorf("e%d is %+v, want dead after eight tries", n, p)
			}
		}
		if n := len(w.requests("gone")); n != 5*8 {
			t.Errorf("%d requests, want eight for each event", n)
		}
		w.balanced()
	})
}

// Hardly anything of a backlog dies in an outage: the tries of its events are probes, one in
// half a minute for all of them.
func TestAnOutageKillsFewOfABacklog(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("gone")}, func(w *world) {
		w.answers("gone", status(503, ""))
		for n := range 500 {
			w.add(delivery.Standard, "shop", fmt.Sprint("e", n), "page_view", "")
		}
		rest(time.Hour)
		probes := len(w.requests("gone"))
		w.answers("gone", nil)
		rest(10 * time.Minute)
		if h := health(w, "gone"); h.Depth() != 0 || h.Dead > probes/8 {
			t.Errorf("after %d requests of an outage: %+v", probes, h)
		}
		w.balanced()
	})
}

// Deliveries that our own crash left unknown are held for a person, and are not a failure of a
// healthy partner.
func TestACrashIsNotThePartnersFailure(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		var begun []*ledger.Entry
		for n := range 10 {
			begun = append(begun, &ledger.Entry{Key: fmt.Sprint("p/shop/e", n), Holder: "who was killed"})
		}
		if err := w.sent.Begin(context.Background(), begun, ledger.Begin{Lease: time.Second}); err != nil {
			t.Fatal(err)
		}
		rest(2 * time.Second)
		for n := range begun {
			w.add(delivery.High, "shop", fmt.Sprint("e", n), "purchase", `,"value":1`)
		}
		w.add(delivery.High, "shop", "new", "purchase", `,"value":1`)
		rest(time.Second)
		if p := w.of("shop", "e9", "p"); p.State != delivery.StateHeld {
			t.Errorf("what was begun is %+v", p)
		}
		if p := w.of("shop", "new", "p"); p.State != delivery.StateDelivered || health(w, "p").Circuit != policy.Closed {
			t.Errorf("another one is %+v, the circuit %v", p, health(w, "p").Circuit)
		}
		w.balanced()
	})
}

// A circuit that one instance opened is open for all: each shows it, and each can close it.
func TestACircuitIsThatOfAllInstances(t *testing.T) {
	ps := []partner.Partner{to("p")}
	in(t, delivery.Options{}, ps, func(w *world) {
		w.answers("p", status(503, ""))
		for n := range 5 {
			w.add(delivery.Standard, "shop", fmt.Sprint("e", n), "page_view", "")
		}
		rest(time.Second)
		first := w.second(delivery.Options{}, ps)
		rest(5 * time.Second)
		if h := health(w, "p"); h.Circuit != policy.Open || h.Until.IsZero() || h.Why == "" {
			t.Errorf("the second says %+v", h)
		}
		if p := w.of("shop", "e0", "p"); !strings.Contains(p.Why, "circuit is open until") {
			t.Errorf("of an event the second says %+v", p)
		}
		if away, err := w.sys.Away(context.Background()); away["p"] != policy.Open || err != nil {
			t.Errorf("away: %v, %v", away, err)
		}
		w.answers("p", nil)
		if err := w.sys.CloseCircuit(context.Background(), "p"); err != nil {
			t.Fatal(err)
		}
		rest(3 * time.Second)
		if away, err := first.Away(context.Background()); len(away) > 0 || err != nil {
			t.Errorf("the second closed it, and of the first is away %v, %v", away, err)
		}
		if p := w.of("shop", "e4", "p"); p.State != delivery.StateDelivered {
			t.Errorf("%+v", p)
		}
		w.balanced()
	})
}

// Closing a circuit by hand also releases delayed jobs: none waits for the end of a pause that
// is over.
func TestClosingACircuitLetsGoWhatWasPutOff(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("locked")}, func(w *world) {
		w.answers("locked", status(401, ""))
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		rest(5 * time.Second)
		w.answers("locked", nil)
		if err := w.sys.CloseCircuit(context.Background(), "locked"); err != nil {
			t.Fatal(err)
		}
		rest(time.Second)
		if p := w.of("shop", "e1", "locked"); p.State != delivery.StateDelivered {
			t.Errorf("a second after the circuit was closed: %+v", p)
		}
		w.balanced()
	})
}
