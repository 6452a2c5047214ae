package delivery_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

func TestAPurchaseWhoseAnswerWasLost(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name       string
		idempotent *bool
		typ        string
		state      string
		requests   int
	}{
		{"is held where the partner does not de-duplicate", &no, "purchase", delivery.StateHeld, 1},
		{"is sent again where it does", &yes, "purchase", delivery.StateDelivered, 2},
		{"of no purchase is sent again anyway", &no, "page_view", delivery.StateDelivered, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, delivery.Options{}, []partner.Partner{to("p", func(p *partner.Partner) { p.Idempotent = c.idempotent })}, func(w *world) {
				lost := false
				w.answers("p", func(*http.Request, string) (int, string) {
					if !lost {
						lost = true
						return 0, ""
					}
					return 200, ""
				})
				w.add(delivery.High, "shop", "e1", c.typ, "")
				rest(time.Minute)
				if p := w.of("shop", "e1", "p"); p.State != c.state {
					t.Errorf("%+v", p)
				}
				if n := len(w.requests("p")); n != c.requests {
					t.Errorf("%d requests, want %d", n, c.requests)
				}
				if c.state == delivery.StateHeld { // a person decides
					again := deadletter.Filter{Pipeline: "s2s.p", Kinds: deadletter.PartnerError.Kinds()}
					if n, err := w.letters.Replay(context.Background(), again); n != 0 || err != nil {
						t.Errorf("replaying partner_error sends %d of unknown outcome, %v", n, err)
					}
					if _, err := w.letters.Replay(context.Background(), deadletter.Filter{Pipeline: "s2s.p"}); err != nil {
						t.Fatal(err)
					}
					rest(time.Minute)
					if n := len(w.requests("p")); n != 2 {
						t.Errorf("%d requests after the replay, want 2", n)
					}
				}
				w.balanced()
			})
		})
	}
}

// Page views whose answers are lost end as any failure does: a timeout is one, and so is a cut
// answer. A page view that shares its request with a purchase does not wait for a person.
func TestLostAnswersAreRetried(t *testing.T) {
	two := 2
	for _, c := range []struct {
		name     string
		items    int
		slow     time.Duration // of each answer; the timeout is 3s
		status   int
		kind     tidemill.Kind // of the page view
		requests int
	}{
		{"cut", 1, 0, 0, tidemill.Partner, 4},
		{"late", 1, 5 * time.Second, 200, tidemill.Timeout, 4},
		{"cut, of several", 2, 0, 0, tidemill.Partner, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := to("p", func(p *partner.Partner) {
				p.MaxRetries, p.Breaker.Fails, p.Workers = &two, 1000, 1
				p.Batch = partner.Batch{Items: c.items, Head: "[", Tail: "]"}
			})
			in(t, delivery.Options{}, []partner.Partner{p}, func(w *world) {
				w.slow = c.slow
				w.answers("p", status(c.status, ""))
				w.add(delivery.Standard, "shop", "seen", "page_view", "")
				w.add(delivery.High, "shop", "bought", "purchase", "")
				rest(time.Minute)
				if p := w.of("shop", "seen", "p"); p.State != delivery.StateDead || !strings.HasPrefix(p.Why, c.kind.String()+":") || p.Tries != 3 {
					t.Errorf("the page view: %+v", p)
				}
				if p := w.of("shop", "bought", "p"); p.State != delivery.StateHeld || p.Tries != 1 {
					t.Errorf("the purchase: %+v", p)
				}
				if n := len(w.requests("p")); n != c.requests {
					t.Errorf("%d requests, want %d", n, c.requests)
				}
				w.balanced()
			})
		})
	}
}

func TestAPurchaseIsInTheLedger(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		w.add(delivery.High, "shop", "bought", "purchase", "")
		w.add(delivery.High, "shop", "seen", "page_view", "")
		w.add(delivery.High, "shop", "converted", "custom_event", "", tidemill.Field{Name: []byte(delivery.ConversionHeader), Value: []byte("1")})
		rest(time.Second)
		var keys []string
		for e, err := range w.sent.Range(context.Background(), ledger.Filter{}) {
			if err != nil || e.State != ledger.Done {
				t.Errorf("%+v %v", e, err)
			}
			keys = append(keys, e.Key)
		}
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != "p/shop/bought p/shop/converted" {
			t.Errorf("ledger has %q", got)
		}
		if n := len(w.requests("p")); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}
