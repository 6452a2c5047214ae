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

	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

func when(condition string) func(*partner.Partner) {
	return func(p *partner.Partner) { p.When = condition }
}

// A condition that fails makes a dead letter of that partner; the others have the event. A
// replay after it was mended evaluates it anew.
func TestAConditionThatFailsIsNobodyElses(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("picky", when("event.properties.price > 10")), to("all")}, func(w *world) {
		w.add(delivery.High, "shop", "e1", "purchase", "")
		w.add(delivery.Standard, "shop", "e2", "page_view", `,"properties":{"price":3}`)
		w.add(delivery.Standard, "shop", "e3", "page_view", `,"consent":{}`)
		w.add(delivery.Standard, "shop", "e4", "page_view", "")
		rest(time.Second)
		if n := len(w.requests("all")); n != 3 {
			t.Errorf("the other partner has %d events, want 3", n)
		}
		if e := w.event("shop", "e3"); e.State != delivery.StateSkipped || e.Why != delivery.NoConsent {
			t.Errorf("without consent: %+v", e)
		}
		for _, id := range []string{"e1", "e4"} {
			if p := w.of("shop", id, "picky"); p.State != delivery.StateDead || !strings.HasPrefix(p.Why, "validation: ") || !strings.Contains(p.Why, "event.properties.price > 10") {
				t.Errorf("%s: %+v", id, p)
			}
		}
		if n := len(w.requests("picky")); n != 0 {
			t.Errorf("%d requests for which nobody knows whether they are wanted", n)
		}
		w.balanced()

		w.stop()
		w.start(delivery.Options{}, []partner.Partner{to("picky", when(`(event.properties?.price ?? 0) > 10 || event.eventType == "purchase"`)), to("all")})
		rest(time.Second)
		if n, err := w.letters.Replay(context.Background(), deadletter.Filter{Pipeline: "s2s.picky"}); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		rest(time.Minute)
		if got := w.requests("picky"); len(got) != 1 || got[0].key != "e1" {
			t.Errorf("replayed: %+v", got)
		}
		if n, err := w.letters.Count(context.Background(), deadletter.Filter{}); n != 0 || err != nil {
			t.Errorf("%d letters left, %v", n, err)
		}
		w.balanced()
	})
}

// A partner that accepts nothing and asks for less does not get its whole backlog.
func TestAPartnerThatAsksForLessIsLeftAlone(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("busy"), to("well")}, func(w *world) {
		w.asks("busy", "60")
		for i := range 500 {
			w.add(delivery.Standard, "shop", fmt.Sprintf("e%d", i), "page_view", "")
		}
		rest(50 * time.Second)
		if n := len(w.requests("busy")); n == 0 || n > 20 {
			t.Errorf("%d requests to a partner that asked for a minute, want five and what its workers had begun", n)
		}
		if n := len(w.requests("well")); n != 500 {
			t.Errorf("the other partner has %d events, want 500", n)
		}
		if h := health(w, "busy"); h.Circuit != policy.Closed || h.Until.IsZero() || !strings.Contains(h.Why, "429") {
			t.Errorf("meanwhile it stands as %+v", h)
		}
		w.asks("busy", "")
		rest(5 * time.Minute)
		if h := health(w, "busy"); h.Depth() != 0 || h.Dead != 0 {
			t.Errorf("afterwards: %+v", h)
		}
		w.balanced()
	})
}

// asks makes a partner answer 429 with a Retry-After; empty: it accepts everything again.
func (w *world) asks(name, retryAfter string) {
	if retryAfter == "" {
		w.answers(name, nil)
		return
	}
	w.answers(name, func(*http.Request, string) (int, string) { return http.StatusTooManyRequests, retryAfter })
}

// A retried dead job goes on beside its dead letter: the event's status is the newer of both.
func TestADeadJobThatWasRetried(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		w.answers("p", status(http.StatusUnprocessableEntity, "no"))
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		rest(time.Second)
		w.answers("p", nil)
		if n, err := w.queues.Retry(context.Background(), queue.Filter{Queue: delivery.QueueOf("p")}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		rest(time.Second)
		if p := w.of("shop", "e1", "p"); p.State != delivery.StateDelivered || len(w.requests("p")) != 2 {
			t.Errorf("%+v", p)
		}
		w.balanced()
	})
}

// Jobs of a partner that was removed from the configuration are in the books, with a warning.
func TestAPartnerThatWasTakenOut(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("gone"), to("stays")}, func(w *world) {
		w.answers("gone", status(http.StatusServiceUnavailable, ""))
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		rest(500 * time.Millisecond)
		w.stop()
		var log bytes.Buffer
		w.start(delivery.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, []partner.Partner{to("stays")})
		rest(time.Second)
		a, err := w.sys.Audit(context.Background())
		if err != nil || !a.Balanced || a.Emitted != 2 {
			t.Errorf("audit: %v, %+v", err, a)
		}
		if n := len(a.Queues); n != 5 || a.Queues[n-1].Queue != "s2s.gone" || a.Queues[n-1].InFlight != 1 {
			t.Errorf("queues of the audit: %+v", a.Queues)
		}
		if !strings.Contains(log.String(), "not configured") || !strings.Contains(log.String(), "queue=s2s.gone count=1") {
			t.Errorf("log: %s", log.String())
		}
	})
}

// A refused batch is sent again in halves, to find the bad one: no faster than the partner
// allows.
func TestARefusedBatchKeepsToTheLimit(t *testing.T) {
	batch := func(p *partner.Partner) {
		p.Batch = partner.Batch{Items: 50, Head: "[", Tail: "]"}
		p.RateLimit = partner.RateLimit{Requests: 2, Window: 1}
	}
	in(t, delivery.Options{}, []partner.Partner{to("p", batch)}, func(w *world) {
		w.answers("p", func(_ *http.Request, body string) (int, string) {
			if strings.Contains(body, `"e7"`) {
				return http.StatusBadRequest, "one of them is wrong"
			}
			return http.StatusOK, ""
		})
		for i := range 50 {
			w.add(delivery.Standard, "shop", fmt.Sprint("e", i), "page_view", "")
		}
		rest(time.Minute)
		got := w.requests("p")
		if h := health(w, "p"); h.Dead != 1 || h.Depth() != 0 || len(got) < 8 {
			t.Fatalf("%d requests: %+v", len(got), h)
		}
		for i := range got[:len(got)-4] {
			if d := got[i+4].at.Sub(got[i].at); d < time.Second {
				t.Errorf("5 requests within %v", d)
			}
		}
		w.balanced()
	})
}

// A site's limit set by hand survives a restart, whatever is configured for others; a
// configured one goes with its configuration.
func TestALimitSetByHandStays(t *testing.T) {
	o := delivery.Options{Tenants: map[string]queue.Limit{"shop": {PerSecond: 5}}}
	in(t, o, []partner.Partner{to("p")}, func(w *world) {
		settings := func() queue.Settings {
			s, err := w.queues.Settings(context.Background(), "s2s.p")
			if err != nil {
				w.Fatal(err)
			}
			return s
		}
		rest(time.Second)
		if _, err := w.queues.Set(context.Background(), "s2s.p", func(s *queue.Settings) {
			s.Tenants["blog"], s.Tenants["shop"] = queue.Limit{PerSecond: 2}, queue.Limit{PerSecond: 9}
		}); err != nil {
			w.Fatal(err)
		}
		w.stop()
		w.start(o, []partner.Partner{to("p", func(p *partner.Partner) {
			p.RateLimit, p.AtOnce = partner.RateLimit{Requests: 100, Window: 1}, 3
		})})
		rest(time.Second)
		s := settings()
		if len(s.Tenants) != 2 || s.Tenants["blog"].PerSecond != 2 || s.Tenants["shop"].PerSecond != 5 || s.Limit.PerSecond == 0 || s.Limit.AtOnce != 3 {
			t.Errorf("after a restart the limits are %+v, %+v", s.Limit, s.Tenants)
		}
		w.stop()
		w.start(delivery.Options{}, []partner.Partner{to("p")})
		rest(time.Second)
		s = settings()
		if len(s.Tenants) != 1 || s.Tenants["blog"].PerSecond != 2 || s.Limit != (queue.Limit{}) {
			t.Errorf("without a configuration the limits are %+v, %+v", s.Limit, s.Tenants)
		}
	})
}
