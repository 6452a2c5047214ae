package delivery_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// An urgent event stays urgent at a partner with a backlog, and nothing starves.
func TestAPurchaseWaitsBehindNoBacklog(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p", func(p *partner.Partner) { p.Workers = 1 })}, func(w *world) {
		pause := func(yes bool) {
			if _, err := w.queues.Set(context.Background(), "s2s.p", func(s *queue.Settings) { s.Paused = yes }); err != nil {
				t.Fatal(err)
			}
		}
		pause(true)
		for _, endpoint := range []string{delivery.Low, delivery.Standard, delivery.High} {
			for i := range 100 {
				w.add(endpoint, "shop", fmt.Sprint(endpoint, i), "page_view", "")
			}
			rest(time.Second)
		}
		pause(false)
		rest(time.Minute)
		got := w.requests("p")
		if len(got) != 300 {
			t.Fatalf("%d requests, want 300", len(got))
		}
		first, last := map[string]int{}, map[string]int{} // positions by queue
		for i, r := range got {
			endpoint := strings.TrimRight(r.key, "0123456789")
			if _, ok := first[endpoint]; !ok {
				first[endpoint] = i
			}
			last[endpoint] = i
		}
		if last[delivery.High] > 140 || last[delivery.Standard] > 240 || first[delivery.Low] > 50 {
			t.Errorf("first %v, last %v of 300: want high, standard and low at 16 : 4 : 1", first, last)
		}
	})
}
