package accept

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// What came in is found by its id and its order, of its own site alone, as long as it is known.
func TestReceiptsOfEventsAndOrders(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	a, err := New(tableledger.Memory(tableledger.Options{Now: clock}), memoryqueue.New(memoryqueue.Options{Now: clock}), Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("order 𝄞/", 60)
	for i, id := range []string{"first", "second"} {
		e := event.Event{Site: "shop", ID: id, Order: long, Purchase: true, Time: now}
		if _, err := a.Accept(t.Context(), &Request{Site: "shop", Scope: "events", Key: id, Items: []Item{{Raw: []byte(id), Event: e}}}); err != nil {
			t.Fatal(i, err)
		}
	}
	find := func(by func(context.Context, string, []string) ([]Receipt, error), id string, sites ...string) []Receipt {
		t.Helper()
		rs, err := by(t.Context(), id, sites)
		if err != nil {
			t.Fatal(err)
		}
		return rs
	}
	if rs := find(a.Event, "first", "other", "shop"); len(rs) != 1 || rs[0] != (Receipt{Site: "shop", Job: "first", At: now, Many: 1}) {
		t.Errorf("by its id: %+v", rs)
	}
	if rs := find(a.Order, long, "shop", "other"); len(rs) != 1 || rs[0].Job != "first" || rs[0].Site != "shop" {
		t.Errorf("by its order: %+v", rs)
	}
	if rs := append(find(a.Event, "first", "other"), find(a.Event, "second", "shop")...); len(rs) != 0 {
		t.Errorf("of another site, and of a duplicate: %+v", rs)
	}
	if rs := append(find(a.Event, strings.Repeat("x", 2000), "shop"), find(a.Order, "\x00\xff")...); len(rs) != 0 {
		t.Errorf("%+v", rs)
	}
	now = now.Add(25 * time.Hour)
	if err := a.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rs := find(a.Event, "first", "shop"); len(rs) != 0 {
		t.Errorf("a day later: %+v", rs)
	}
}
