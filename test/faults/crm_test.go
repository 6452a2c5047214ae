//go:build servers

package faults

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

var crmFlag = flag.Int("crm", 1500, "how many events TestCRM… tests send")

// Where the stores of a world are.
const (
	crmEmbedded  = false
	crmOnServers = true
)

// TestCRMEveryEventEnds kills the only instance every second or two, on SQLite.
func TestCRMEveryEventEnds(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmEmbedded, func(w *crmWorld) { w.everyEvent(1) })
}

// TestCRMEveryEventOfTwoEnds kills one of two instances, on Redis and PostgreSQL.
func TestCRMEveryEventOfTwoEnds(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmOnServers, func(w *crmWorld) { w.everyEvent(2) })
}

// everyEvent has an endpoint that fails, hangs and sends nonsense, and instances that are
// killed. Every event ends completed, or as one dead letter with its reason. Then the endpoint
// is healthy, the dead events it caused are opened again, and everything is replayed.
func (w *crmWorld) everyEvent(instances int) {
	w.app.does(.08, 5*time.Millisecond)
	ins := w.run(instances)
	ended := w.load("big", 0, *crmFlag, 150)
	others := w.load("small", 0, *crmFlag/5, 30)
	for n := 0; n < 4 || !over(ended) || !over(others); n++ {
		w.pass(w.between(time.Second, 2500*time.Millisecond))
		for range 100 {
			if w.app.underWay() > 0 {
				w.hit("killed while requests were under way")
				break
			}
			w.pass(5 * time.Millisecond)
		}
		in := ins[n%len(ins)]
		in.Kill()
		w.hit("kill")
		in.Begin()
	}
	const atOnce = 10 // workers, whose finished requests a kill may cut off
	if w.complain(w.judge(w.look(afterCRMLease), w.hits["kill"]*atOnce)); w.Failed() {
		return
	}
	w.heals(afterCRMLease)
	w.replays(afterCRMLease)
	w.raised(2)
	w.struck("kills while requests were under way", 3, w.hits["killed while requests were under way"])
	for _, how := range []string{"500", "no answer", "garbage", "garbage after it was done", "cut off", "redirect", "422", "business", "404"} {
		w.struck("answers "+how, 5, w.app.total(how))
	}
}

// TestCRMNothingIsHandledTwice kills nothing: no good answer is asked for again, on both.
func TestCRMNothingIsHandledTwice(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmOnServers, func(w *crmWorld) {
		w.app.does(.1, 0)
		w.run(2)
		<-w.load("big", 0, *crmFlag/2, 0)
		if w.complain(w.judge(w.look(afterCRMLease), 0)); w.Failed() {
			return
		}
		w.heals(afterCRMLease)
		w.replays(afterCRMLease)
		w.struck("answers that were bad", *crmFlag/40, w.app.total("")-w.app.total("good"))
	})
}

// TestCRMATenantsFloodDelaysNobody has a tenant with a backlog of a minute, and one that
// sends ten events meanwhile.
func TestCRMATenantsFloodDelaysNobody(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmEmbedded, func(w *crmWorld) {
		delete(w.settings, "per_second") // the defaults: 100 a second, and 50 of each tenant
		delete(w.settings, "tenant_per_second")
		w.run(1)
		<-w.load("big", 0, 3000, 0)
		w.pass(2 * time.Second)
		before, began := w.app.total(""), time.Now()
		var ten []*crmEvent
		for n := range 10 {
			e := w.draw("small", 100_000+n)
			e.typ, e.ends = "app.ordered", ""
			e.body = fmt.Sprintf(`{"id":%q,"type":"app.ordered","tenantId":"small","identity":{"externalId":"m-1"},"occurredAt":"2026-01-15T10:00:00.000Z"}`, e.id)
			ten = append(ten, e)
			w.send(e)
		}
		w.until(20*time.Second, "ten events of the other tenant are handled", func() bool {
			for _, e := range ten {
				if w.app.of(e.key()).good == 0 {
					return false
				}
			}
			return true
		})
		for _, e := range ten {
			if took := w.app.of(e.key()).first.Sub(e.accepted); took > 2*time.Second {
				w.Errorf("%s took %v", e.key(), took)
			}
		}
		w.pass(time.Until(began.Add(4 * time.Second)))
		n, passed := w.app.total("")-before-len(ten), time.Since(began)
		if most := int(50*passed.Seconds()) + 10 + 20; n > most { // its burst, and running calls
			w.Errorf("%d events of one tenant went out in %v, at most %d may", n, passed, most)
		}
		st, err := w.audit()
		if err != nil || !st.Balanced {
			w.Errorf("the books say %+v, %v", st, err)
		}
		w.struck("events that were let through meanwhile", 60, n)
		w.struck("events that waited", 1500, int(st.InFlight))
	})
}

// TestCRMTheHandlersProcessIsGone takes the endpoint's process away for a while: first nothing
// listens, then it closes connections. The dead events it caused are opened again.
func TestCRMTheHandlersProcessIsGone(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmEmbedded, func(w *crmWorld) {
		link := testenv.NewLink(w, w.app.Listener.Addr().String())
		w.endpoint = "http://" + link.Addr
		w.app.does(0, 2*time.Millisecond)
		w.run(1)
		ended := w.load("big", 0, *crmFlag/2, 100)
		w.pass(time.Second)
		link.Refuse()
		w.app.CloseClientConnections()
		w.pass(2 * time.Second)
		link.Heal()
		w.pass(time.Second)
		link.BlackHole()
		w.pass(2 * time.Second)
		link.Heal()
		<-ended
		o := w.look(afterCRMLease)
		died := 0
		for key, l := range o.letters {
			if l.Kind == "transient" || l.Kind == "timeout" {
				died++
				if l.Tries != 0 && l.Tries != 3 {
					w.Errorf("%s is dead after %d tries", key, l.Tries)
				}
			}
		}
		for key, l := range w.heals(afterCRMLease).letters {
			if l.Kind != "business" && l.Kind != "not_found" {
				w.Errorf("%s is dead of %s: %s", key, l.Kind, l.Cause)
			}
		}
		w.complain(w.judge(w.look(afterCRMLease), died))
		w.struck("events that died while the process was gone", 20, died)
	})
}
