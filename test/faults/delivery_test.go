//go:build servers

package faults

import (
	"flag"
	"testing"
	"time"
)

var (
	eventsFlag = flag.Int("events", 1500, "how many events TestEveryPartner… tests send")
	floodFlag  = flag.Int("flood", 6_000, "how many events a site floods the queues with, while another sends ten")
	rateFlag   = flag.Int("rate", 150, "how many of them a second; 0: as fast as they are taken, in arrays")
)

// fourPartners are one that fails, one that is slow and forgets its answers, one that is down
// for a while, and a healthy one.
func (w *deliveryWorld) fourPartners() (gone *farPartner) {
	w.partner("erring", erring, map[string]any{"idempotent": true, "maxRetries": 2, "timeout": "1s", "breaker": map[string]any{"open": "1s"}})
	w.partner("slow", after(40*time.Millisecond, forgetful(100)), map[string]any{"maxRetries": 3})
	gone = w.partner("gone", well, map[string]any{"idempotent": true, "timeout": "1s", "breaker": map[string]any{"open": "1s"}})
	w.partner("well", well, map[string]any{"idempotent": true})
	return gone
}

// TestEveryPartnerGetsEveryEvent kills the only instance every second or two, on SQLite.
//
//	go test -tags servers ./test/faults -run TestEveryPartner -events 100000 -rate 0 -timeout 30m -v
func TestEveryPartnerGetsEveryEvent(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) { w.everyPartner(1, true) })
}

// TestEveryPartnerGetsEveryEventOfTwo kills one of two instances, on Redis.
func TestEveryPartnerGetsEveryEventOfTwo(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.everyPartner(2, true) })
}

// TestEveryPartnerGetsEveryEventOnce kills nothing: no good answer is asked for twice.
func TestEveryPartnerGetsEveryEventOnce(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.everyPartner(2, false) })
}

func (w *deliveryWorld) everyPartner(instances int, kill bool) {
	gone := w.fourPartners()
	away := []func(){func() { gone.does(silent) }, func() { gone.does(well) }, func() { gone.does(down) }, func() { gone.does(well) }}
	if kill { // then a good answer may be lost as well
		link := w.linkTo(gone)
		away = []func(){link.Refuse, link.Heal, link.BlackHole, link.Heal}
	}
	ins := w.run(instances)
	o := deliveryLoadOptions{Events: *eventsFlag, Rate: *rateFlag}
	if o.Rate == 0 {
		o.Clients, o.Batch = 16, 25
	}
	l := w.startDeliveryLoad(o)
	ended := make(chan struct{})
	go func() { l.wait(); close(ended) }()
	for n := 0; n <= len(away) || !over(ended); n++ {
		w.pass(w.between(time.Second, 2*time.Second))
		if n > 0 && n <= len(away) {
			away[n-1]()
			w.hit("away")
		}
		if kill {
			w.kills(ins[n%len(ins)])
		}
	}
	allow := deliveryAllowance{}
	if kill {
		allow = w.crashes()
	}
	w.finish(afterLease+time.Duration(*eventsFlag)*10*time.Millisecond, allow)
	w.struck("requests that came to nothing at the partner that errs", *eventsFlag/10, w.partners[0].total("")-w.partners[0].total("good"))
	w.struck("answers lost where nothing is de-duplicated", *eventsFlag/300, w.partners[1].total("answer lost"))
	w.struck("times that a partner went away or came back", len(away), w.hits["away"])
	if kill {
		w.struck("instances killed while requests were under way", 4, w.hits["killed while requests were under way"])
	}
}

func over(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}
