//go:build servers

package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/tidemill/tidemill/test/process"
)

// upgrading has a world begin with the version before; without its history the test is left out.
func (w *world) upgrading() {
	w.Helper()
	if _, err := process.Before(); errors.Is(err, process.ErrNoHistory) {
		w.Skip(err)
	} else if err != nil {
		w.Fatal(err)
	}
	w.binary = process.Before
}

// replace puts this version in the place of instances, or the one before: one after the other, in an
// orderly way, as a deployment does.
func (w *world) replace(with func() (string, error), ins ...*process.Instance) {
	w.Helper()
	for _, in := range ins {
		w.pass(w.between(500*time.Millisecond, 1500*time.Millisecond))
		if err := in.Stop(time.Minute); err != nil {
			w.Fatal(err)
		}
		in.Binary = with
		in.Start()
		w.hit("replaced")
	}
}

// upgrades replaces both instances, one of them by the version before again, which goes on with what
// this version has made of the tables, and that one by this version.
func (w *world) upgrades(ins []*process.Instance) {
	w.replace(nil, ins...)
	w.replace(process.Before, ins[0])
	w.replace(nil, ins[0])
}

// TestAnalyticsIsUpgraded has two instances replaced on Redis, PostgreSQL and ClickHouse while events come.
func TestAnalyticsIsUpgraded(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		w.upgrading()
		ins := w.run("one", "two")
		w.startLoad(loadOptions{})
		w.upgrades(ins)
		w.finish(afterClaim, allowance{})
		w.struck("instances that were replaced", 4, w.hits["replaced"])
	})
}

// TestDeliveryIsUpgraded has two instances replaced on Redis while partners get events.
func TestDeliveryIsUpgraded(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) {
		w.upgrading()
		w.fourPartners()
		ins := w.run(2)
		l := w.startDeliveryLoad(deliveryLoadOptions{Events: *eventsFlag, Rate: *rateFlag})
		w.upgrades(ins)
		l.wait()
		w.finish(afterLease+time.Duration(*eventsFlag)*10*time.Millisecond, deliveryAllowance{})
		w.struck("instances that were replaced", 4, w.hits["replaced"])
	})
}

// TestCRMIsUpgraded has two instances replaced on Redis and PostgreSQL while events are handled.
func TestCRMIsUpgraded(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmOnServers, func(w *crmWorld) {
		w.upgrading()
		w.app.does(.08, 5*time.Millisecond)
		ins := w.run(2)
		ended := w.load("big", 0, *crmFlag, 150)
		w.upgrades(ins)
		<-ended
		if w.complain(w.judge(w.look(afterCRMLease), 0)); w.Failed() {
			return
		}
		w.heals(afterCRMLease)
		w.replays(afterCRMLease)
		w.struck("instances that were replaced", 4, w.hits["replaced"])
	})
}
