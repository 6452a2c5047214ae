package delivery_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// holding is a partner with a small queue.
func holding(name string, jobs int, full partner.Full) partner.Partner {
	return to(name, func(p *partner.Partner) { p.Queue = partner.Queue{Jobs: jobs, Full: full} })
}

// flood adds events, and checks that they reached the healthy partner, all within a second.
func (w *world) flood(from, n int) {
	w.Helper()
	before := len(w.requests("well"))
	for i := from; i < from+n; i++ {
		w.add(delivery.Standard, "shop", fmt.Sprint("e", i), "page_view", "")
	}
	rest(time.Second)
	if got := len(w.requests("well")) - before; got != n {
		w.Errorf("the partner that is well got %d of %d events within a second", got, n)
	}
}

// the books of the queue beside a partner's.
func (w *world) parked(name string) delivery.QueueAudit {
	w.Helper()
	return w.audited(delivery.ParkedOf(name))
}

func (w *world) audited(name string) delivery.QueueAudit {
	w.Helper()
	a, err := w.sys.Audit(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	for _, q := range a.Queues {
		if q.Queue == name {
			return q
		}
	}
	return delivery.QueueAudit{}
}

// emitted checks how many jobs of partners there were, each counted once.
func (w *world) emitted(want uint64) {
	w.Helper()
	if a, err := w.sys.Audit(context.Background()); err != nil || !a.Balanced || a.Emitted != want {
		w.Errorf("audit: %v, emitted %d, want %d: %+v", err, a.Emitted, want, a)
	}
}

// A partner that is down fills its own queue. Later jobs are parked, and go to it in order when
// it is back. No other partner and no sender notices.
func TestAFullQueueIsThatPartnersAlone(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{holding("away", 100, partner.Hold), to("well")}, func(w *world) {
		w.answers("away", status(http.StatusServiceUnavailable, ""))
		for i := range 10 {
			w.flood(i*100, 100)
		}
		h := health(w, "away")
		if h.Depth() > 120 || h.Depth()+h.Parked.Waiting+h.Parked.Leased != 1000 || !h.Full() {
			t.Errorf("of 1000 events: %+v", h)
		}
		if p := w.of("shop", "e999", "away"); p.State != delivery.StateWaiting || !strings.Contains(p.Why, "full") {
			t.Errorf("one that is parked: %+v", p)
		}
		if h := health(w, "well"); h.Full() {
			t.Errorf("the other partner: %+v", h)
		}
		w.emitted(2000)
		w.stop() // parked jobs survive the process
		w.start(delivery.Options{}, []partner.Partner{holding("away", 100, partner.Hold), to("well")})
		w.answers("away", nil)
		w.flood(1000, 10)
		rest(10 * time.Minute)
		if got := w.requests("away"); len(keysOf(got)) != 1010 {
			t.Errorf("%d of 1010 events arrived when it was back", len(keysOf(got)))
		}
		if h := health(w, "away"); h.Full() || h.Depth() != 0 || h.Dead != 0 {
			t.Errorf("afterwards: %+v", h)
		}
		w.flood(1010, 10) // it has its events at once again
		if got := w.requests("away"); len(keysOf(got)) != 1020 {
			t.Errorf("%d of 1020 events arrived", len(keysOf(got)))
		}
		w.emitted(2 * 1020)
	})
}

func keysOf(rs []request) map[string]int {
	keys := map[string]int{}
	for _, r := range rs {
		if r.status == http.StatusOK {
			keys[r.key]++
		}
	}
	return keys
}

// The newest become dead letters, and are sent when they are replayed.
func TestAFullQueueWhoseNewestDie(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{holding("away", 50, partner.DeadLetter), to("well")}, func(w *world) {
		w.answers("away", status(http.StatusServiceUnavailable, ""))
		for i := range 20 {
			w.flood(10*i, 10)
		}
		rest(5 * time.Second)
		if h := health(w, "away"); h.Depth() < 45 || h.Depth() > 60 || h.Dead != 200-int(h.Depth()) || h.Parked.Waiting != 0 {
			t.Errorf("%+v", h)
		}
		if p := w.of("shop", "e199", "away"); p.State != delivery.StateDead || !strings.Contains(p.Why, "full") {
			t.Errorf("the newest: %+v", p)
		}
		w.emitted(400)
		w.answers("away", nil)
		rest(time.Minute)
		if n, err := w.letters.Replay(context.Background(), deadletter.Filter{Pipeline: delivery.QueueOf("away")}); n < 140 || err != nil {
			t.Fatal(n, err)
		}
		rest(5 * time.Minute)
		if got := w.requests("away"); len(keysOf(got)) != 200 {
			t.Errorf("%d of 200 events arrived", len(keysOf(got)))
		}
		if p := w.of("shop", "e199", "away"); p.State != delivery.StateDelivered {
			t.Errorf("the newest, after its replay: %+v", p)
		}
		w.emitted(400)
	})
}

// The oldest are dropped, and counted: once, though two instances look after the queue.
func TestAFullQueueWhoseOldestAreDropped(t *testing.T) {
	ps := []partner.Partner{holding("away", 50, partner.DropOldest), to("well")}
	in(t, delivery.Options{}, ps, func(w *world) {
		w.answers("away", status(http.StatusServiceUnavailable, ""))
		first := w.second(delivery.Options{Seed: 2}, ps) // else they are one to the ledger
		for i := range 4 {
			w.flood(i*100, 100)
		}
		rest(10 * time.Second)
		all, err := first.Partners(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		h := health(w, "away")
		if h.Depth() != 50 || h.Dropped+all[0].Dropped != 350 {
			t.Errorf("%d jobs wait, %d and %d were dropped; want 50 and 350", h.Depth(), h.Dropped, all[0].Dropped)
		}
		if q := w.audited(delivery.QueueOf("away")); q.Skipped != 350 {
			t.Errorf("the books: %+v", q)
		}
		w.answers("away", nil)
		rest(10 * time.Minute)
		got := keysOf(w.requests("away"))
		for key := range got {
			if key < "e300" { // those that came in one second are in the order in which they were routed
				t.Errorf("%s arrived, which is older than those that were dropped", key)
			}
		}
		if len(got) != 50 {
			t.Errorf("%d events arrived", len(got))
		}
		w.emitted(800)
	})
}

// Expired jobs end, even while the circuit is open, but no purchases unless they have their own
// maximum age; a replay may send jobs of any age.
func TestAJobOfALargestAge(t *testing.T) {
	many := 100
	aging := func(p *partner.Partner) {
		p.MaxRetries, p.Queue = &many, partner.Queue{Jobs: 50, MaxAge: time.Hour}
	}
	in(t, delivery.Options{}, []partner.Partner{to("away", aging), to("well")}, func(w *world) {
		w.answers("away", status(http.StatusServiceUnavailable, ""))
		for i := range 10 {
			w.flood(10*i, 10)
		}
		w.add(delivery.High, "shop", "bought", "purchase", "")
		rest(59*time.Minute - 10*time.Second)
		if h := health(w, "away"); h.Expired != 0 || h.Depth()+h.Parked.Waiting+h.Parked.Leased != 101 {
			t.Errorf("before an hour: %+v", h)
		}
		rest(3 * time.Minute)
		if h := health(w, "away"); h.Expired != 100 || h.Depth() != 1 || h.Full() {
			t.Errorf("after an hour: %+v", h)
		}
		if p := w.of("shop", "bought", "away"); p.State == delivery.StateSkipped {
			t.Errorf("the purchase: %+v", p)
		}
		if p := w.of("shop", "e99", "away"); p.State != delivery.StateSkipped || p.Why != delivery.Expired {
			t.Errorf("one that was parked: %+v", p)
		}
		w.emitted(202)
		w.answers("away", nil)
		rest(10 * time.Minute)
		if got := keysOf(w.requests("away")); len(got) != 1 || got["bought"] != 1 {
			t.Errorf("arrived: %v", got)
		}
		w.balanced()
	})
}

// A partner that failed for too long is switched off, for all instances and across restarts,
// until an operator closes its circuit: page views are skipped, purchases are kept as dead
// letters.
func TestAPartnerThatFailedForLongIsSwitchedOff(t *testing.T) {
	many, after := 100, 3*time.Hour
	dead := func(p *partner.Partner) { p.MaxRetries, p.OffAfter, p.Breaker.Open = &many, &after, 10*time.Minute }
	ps := []partner.Partner{to("gone", dead), to("well", dead)}
	var log bytes.Buffer
	in(t, delivery.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, ps, func(w *world) {
		w.answers("gone", status(http.StatusServiceUnavailable, ""))
		w.flood(0, 10)
		rest(170 * time.Minute)
		if h := health(w, "gone"); !h.Off.IsZero() || h.FailingSince.IsZero() {
			t.Errorf("before three hours: %+v", h)
		}
		w.stop()
		w.start(delivery.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, ps)
		w.flood(10, 1)
		rest(20 * time.Minute)
		if h := health(w, "gone"); h.Off.IsZero() || !h.Held {
			t.Errorf("after three hours: %+v", h)
		}
		if h := health(w, "well"); !h.Off.IsZero() || !h.FailingSince.IsZero() {
			t.Errorf("the other: %+v", h)
		}
		if !strings.Contains(log.String(), "switched off") {
			t.Error("nothing is logged")
		}
		asked := len(w.requests("gone"))
		w.flood(11, 10)
		w.add(delivery.High, "shop", "bought", "purchase", "")
		rest(time.Hour)
		if n := len(w.requests("gone")) - asked; n != 0 {
			t.Errorf("it was asked %d times while it was off", n)
		}
		if p := w.of("shop", "e15", "gone"); p.State != delivery.StateSkipped || p.Why != delivery.SwitchedOff {
			t.Errorf("a page view: %+v", p)
		}
		if p := w.of("shop", "bought", "gone"); p.State != delivery.StateDead || !strings.Contains(p.Why, "switched off") {
			t.Errorf("a purchase: %+v", p)
		}
		w.balanced()

		w.answers("gone", nil)
		if err := w.sys.CloseCircuit(context.Background(), "gone"); err != nil {
			t.Fatal(err)
		}
		rest(5 * time.Minute)
		if h := health(w, "gone"); !h.Off.IsZero() || h.Held || h.Depth() != 0 {
			t.Errorf("switched on again: %+v", h)
		}
		w.flood(21, 5)
		if got := keysOf(w.requests("gone")); len(got) != 11+5 {
			t.Errorf("%d events arrived, want those before and after", len(got))
		}
		w.balanced()
	})
}

// A limit follows the configuration after a restart, and parked jobs go on when the limit is
// raised.
func TestALimitThatIsRaised(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{holding("away", 10, partner.Hold), to("well")}, func(w *world) {
		w.answers("away", status(http.StatusServiceUnavailable, ""))
		w.flood(0, 50)
		w.flood(50, 50)
		w.stop()
		w.start(delivery.Options{}, []partner.Partner{holding("away", 1000, partner.Hold), to("well")})
		rest(10 * time.Second)
		if h := health(w, "away"); h.Depth() != 100 || h.Full() {
			t.Errorf("%+v", h)
		}
		if q := w.parked("away"); q.InFlight != 0 || q.Delivered == 0 {
			t.Errorf("what was parked: %+v", q)
		}
		if st, err := w.queues.Stats(context.Background(), delivery.QueueOf("away")); err != nil || st == (queue.Stats{}) {
			t.Error(st, err)
		}
		w.emitted(200)
	})
}
