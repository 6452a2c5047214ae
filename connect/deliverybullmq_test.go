package connect

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/source/bullmqsource/bullmqtest"
)

// Jobs that a producer adds to BullMQ are events of delivery: accepted once, delivered, and where they
// are none failed jobs with a dead letter, which runs again when it was put right and retried.
func TestDeliveryTakesEventsFromBullMQ(t *testing.T) {
	raw, prefix, peer := bullMQ(t, "events")
	p := newPartner(t)
	in := delivering(t, p, map[string]string{"TIDEMILL_DELIVERY_BULLMQ_URL": raw, "TIDEMILL_DELIVERY_BULLMQ_PREFIX": prefix})
	type job struct{ ID, State string }
	add := func(data any) string {
		return bullmqtest.As[job](peer, peer.Do("queue", "add", "event", data, map[string]any{"attempts": 3})).ID
	}
	ends := func(id, state string) {
		t.Helper()
		until(t, "job "+id+" is not "+state, func() bool { return bullmqtest.As[job](peer, peer.Do("job", id)).State == state })
	}
	letters := func() string { return get(in, "/api/v1/dead?pipeline="+"delivery-bullmq").Body.String() }
	const first, second = "0190f3c2-0000-7000-8000-0000000000b1", "0190f3c2-0000-7000-8000-0000000000b2"
	ends(add(pageView(first)), "completed")
	until(t, "the partner has the event", func() bool { return strings.Contains(p.got(first), first) })
	ends(add(pageView(first)), "completed") // it is known
	wrong := pageView(second)
	wrong["siteId"] = "nobody's"
	id := add(wrong)
	ends(id, "failed")
	until(t, "what is refused is no dead letter", func() bool { return strings.Contains(letters(), "siteId") })
	peer.Do("job", id, "updateData", pageView(second))
	peer.Do("job", id, "retry")
	ends(id, "completed")
	until(t, "the partner has what was put right", func() bool { return p.got(second) != "" })
	until(t, "its dead letter is still there: "+letters(), func() bool { return letters() == noneListed })
	until(t, "the partner's queue has not two events", func() bool {
		return strings.Contains(get(in, "/api/v1/queues/s2s.p").Body.String(), `"completed":2`)
	})
}

// pageView is an event of the site shop.
func pageView(id string) map[string]any {
	return map[string]any{"eventType": "page_view", "timestamp": "2026-01-15T10:00:00Z", "siteId": "shop", "eventId": id, "context": map[string]any{"page": map[string]any{"url": "https://shop.example/"}}}
}
