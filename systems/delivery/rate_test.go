package delivery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

func TestABatchPartnerIsAskedAsOftenAsItAllows(t *testing.T) {
	batch := func(p *partner.Partner) {
		p.Batch = partner.Batch{Items: 50, Head: "[", Tail: "]"}
		p.RateLimit = partner.RateLimit{Requests: 2, Window: 1}
	}
	in(t, delivery.Options{}, []partner.Partner{to("p", batch)}, func(w *world) {
		for i := range 300 { // 10 a second: batches are never full
			w.add(delivery.Standard, "shop", fmt.Sprintf("e%d", i), "page_view", "")
			rest(100 * time.Millisecond)
		}
		rest(10 * time.Second)
		got := w.requests("p")
		if n := len(got); n > 2*40+4 || n < 10 {
			t.Errorf("%d requests in 40 s, want at most 2 a second", n)
		}
		for i := range got[:len(got)-4] {
			if d := got[i+4].at.Sub(got[i].at); d < time.Second {
				t.Errorf("5 requests within %v", d)
			}
		}
		if h := health(w, "p"); h.Depth() != 0 {
			t.Errorf("%+v", h)
		}
		w.balanced()
	})
}

// No span of a window's length has more requests than the partner allows, wherever it begins.
func TestAPartnersRateHoldsFromTheFirstSecondOn(t *testing.T) {
	for _, limit := range []partner.RateLimit{{Requests: 1, Window: 1}, {Requests: 25, Window: 1}, {Requests: 40, Window: 4}} {
		in(t, delivery.Options{}, []partner.Partner{to("p", func(p *partner.Partner) { p.RateLimit = limit })}, func(w *world) {
			for i := range 3 * limit.Requests {
				w.add(delivery.Standard, "shop", fmt.Sprintf("e%d", i), "page_view", "")
			}
			rest(5 * time.Duration(limit.Window) * time.Second)
			got := w.requests("p")
			if len(got) != 3*limit.Requests {
				t.Errorf("%+v: %d requests in five windows", limit, len(got))
			}
			for i := range len(got) - limit.Requests {
				if d := got[i+limit.Requests].at.Sub(got[i].at); d < time.Duration(limit.Window)*time.Second-time.Millisecond {
					t.Errorf("%+v: one request more within %v", limit, d)
				}
			}
		})
	}
}
