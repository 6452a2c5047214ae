//go:build servers

package faults

import (
	"fmt"
	"testing"
	"time"
)

// TestADeadPartnerDelaysNobody has one of three partners dead for a while.
func TestADeadPartnerDelaysNobody(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) { w.deadPartner(1) })
}

// TestADeadPartnerOfTwoDelaysNobody does the same with two instances.
func TestADeadPartnerOfTwoDelaysNobody(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.deadPartner(2) })
}

// deadPartner has a partner that answers 500, then not at all. A probe is a try of its event,
// and this outage has enough of them.
func (w *deliveryWorld) deadPartner(instances int) {
	const workers = 5
	w.settings["workers"], w.settings["max_workers"] = workers, 40
	dead := w.partner("dead", after(20*time.Millisecond, well), map[string]any{"idempotent": true, "maxRetries": 30, "retry": map[string]any{"max": "1s"}, "timeout": "1s", "breaker": map[string]any{"open": "1s"}})
	w.partner("one", well, map[string]any{"idempotent": true})
	w.partner("other", well, map[string]any{"idempotent": true})
	w.run(instances)
	l := w.startDeliveryLoad(deliveryLoadOptions{Rate: 100})
	w.pass(2 * time.Second)
	dead.does(down)
	w.pass(4 * time.Second)
	dead.does(silent)
	w.pass(4 * time.Second)
	failed, took := dead.total("500")+dead.total("no answer"), dead.taken()
	waits := int(l.confirmed.Load()) - took
	dead.concurrency()
	dead.does(after(20*time.Millisecond, well))
	w.until(10*time.Second, "the partner is tried again", func() bool { return dead.taken() > took+1 })
	w.pass(300 * time.Millisecond)
	if n := dead.concurrency(); n > 2*workers*instances {
		w.Errorf("the partner came back to %d requests at once, %d workers of each of %d instances are there at first", n, workers, instances)
	}
	l.stop()
	w.quiet(afterLease)
	for id, l := range w.letters()["s2s.dead"] {
		if l.Kind != "validation" {
			w.Errorf("event %s died of the outage: %+v", id, l)
		}
	}
	for _, p := range w.partners[1:] {
		if late := late(l, p, atMost); len(late) > 0 {
			w.Errorf("%d events took longer than %v to %s: %v", len(late), atMost, p.name, late[len(late)-1])
		}
	}
	w.finish(afterLease, deliveryAllowance{})
	w.struck("requests that failed at the dead partner", 8, failed)
	w.struck("events that waited for the dead partner", 500, waits)
}

// TestOneProbeAtATime has two instances that probe whether a partner is back.
func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) {
		p := w.partner("shaky", well, map[string]any{"idempotent": true, "breaker": map[string]any{"open": "500ms"}})
		w.run(2)
		w.startDeliveryLoad(deliveryLoadOptions{Rate: 60})
		w.pass(time.Second)
		p.does(after(200*time.Millisecond, down))
		w.until(10*time.Second, "the circuit opens", func() bool { return p.total("500") >= 5 })
		w.pass(time.Second) // running requests end
		p.concurrency()
		before := p.total("500")
		w.pass(5 * time.Second)
		if n := p.concurrency(); n > 1 {
			w.Errorf("%d probes at once", n)
		}
		probes := p.total("500") - before
		p.does(well)
		w.flows(p, "the partner is back")
		w.finish(afterLease, deliveryAllowance{})
		w.struck("probes", 3, probes)
	})
}

// flows waits until events go to a partner.
func (w *deliveryWorld) flows(p *farPartner, why string) {
	w.Helper()
	took := p.taken()
	w.until(10*time.Second, why, func() bool { return p.taken() > took+60 })
}

// TestACircuitIsMovedByHand opens and closes it by the command line.
func TestACircuitIsMovedByHand(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) { w.byHand(1) })
}

// TestACircuitOfTwoIsMovedByHand does so at one of two instances, for both.
func TestACircuitOfTwoIsMovedByHand(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.byHand(2) })
}

func (w *deliveryWorld) byHand(instances int) {
	p := w.partner("shaky", well, map[string]any{"idempotent": true, "breaker": map[string]any{"open": "500ms"}})
	ins := w.run(instances)
	l := w.startDeliveryLoad(deliveryLoadOptions{Rate: 60})
	for n := range 2 {
		w.flows(p, fmt.Sprintf("the circuit is closed, %d times by hand", n))
		ins[0].Ask("partner", "open", "shaky", "--for", "1h")
		w.until(3*time.Second, "requests end", func() bool { return p.underWay() == 0 })
		w.pass(500 * time.Millisecond) // handed out already
		requests, confirmed := p.total(""), l.confirmed.Load()
		w.pass(2 * time.Second)
		if p.total("") != requests {
			w.Errorf("%d requests went out although the circuit was opened by hand", p.total("")-requests)
		}
		if l.confirmed.Load() > confirmed+60 {
			w.hit("opened")
		}
		ins[n%instances].Ask("partner", "close", "shaky")
	}
	w.flows(p, "the circuit was closed by hand")
	w.finish(afterLease, deliveryAllowance{})
	w.struck("opened by hand under load", 2, w.hits["opened"])
}

// TestCredentialsAreRefused has a partner that no longer accepts our credentials. That pauses
// it, and nothing else.
func TestCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) { w.refused(1) })
}

// TestCredentialsOfTwoAreRefused does the same with two instances.
func TestCredentialsOfTwoAreRefused(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.refused(2) })
}

func (w *deliveryWorld) refused(instances int) {
	p := w.partner("strict", well, map[string]any{"idempotent": true, "maxRetries": 0})
	other := w.partner("other", well, map[string]any{"idempotent": true})
	ins := w.run(instances)
	l := w.startDeliveryLoad(deliveryLoadOptions{Rate: 100})
	w.pass(time.Second)
	p.does(refuses)
	w.until(5*time.Second, "it refuses us", func() bool { return p.total("401") > 0 })
	w.pass(time.Second)
	refused := p.total("401")
	w.pass(3 * time.Second)
	if n := p.total("401"); n != refused || n > 40*instances {
		w.Errorf("%d requests to a partner that refuses us, %d more later", refused, n-refused)
	}
	for id, l := range w.letters()["s2s.strict"] {
		if l.Kind != "validation" {
			w.Errorf("event %s died of wrong credentials: %+v", id, l)
		}
	}
	waits := int(l.confirmed.Load()) - p.taken()
	p.does(well)
	took := p.taken()
	if w.pass(time.Second); p.taken() != took {
		w.Error("it goes on before anybody said so")
	}
	ins[len(ins)-1].Ask("partner", "close", "strict")
	w.until(10*time.Second, "all that waited arrives", func() bool { return p.taken() > took+waits*9/10 })
	w.finish(afterLease, deliveryAllowance{})
	if late := late(l, other, atMost); len(late) > 0 {
		w.Errorf("%d events took longer than %v to the other partner: %v", len(late), atMost, late[len(late)-1])
	}
	w.struck("requests that were refused", 1, refused)
	w.struck("events that waited", 200, waits)
}
