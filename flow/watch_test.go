package flow

import (
	"testing"

	"github.com/tidemill/tidemill"
)

// watcher writes down what it is shown.
type watcher struct {
	on  bool
	saw []string
}

func (w *watcher) On() bool { return w.on }

func (w *watcher) Ended(ends []tidemill.Settlement, of func(int) *tidemill.Message) {
	for i := range ends {
		said := ends[i].ID + " by itself"
		if m := of(i); m != nil {
			said = ends[i].ID + " of " + m.Tenant
		}
		w.saw = append(w.saw, said)
	}
}

// A watcher is shown ends with their messages, and those that came from outside without; one that is
// not on is shown nothing.
func TestWhatAWatcherIsShown(t *testing.T) {
	now := gateStart
	w := &watcher{}
	e := bare(t, tidemill.Traits{}, &now, Pipeline{InFlight: 10, Acks: acksNever})
	e.Watch(w)
	for _, on := range []bool{false, true} {
		w.on = on
		d := &settler{e: e, loads: make([]int64, 1), clock: e.alarm(slotOut), tasks: numbered(2), acks: []tidemill.Settlement{{ID: "ack", Fate: tidemill.Delivered}}}
		for _, task := range d.tasks {
			task.Tenant = "shop"
			task.Deliver()
		}
		e.held.Store(2)
		if !d.tell(t.Context()) {
			t.Fatal("it gave up")
		}
	}
	same(t, "shown", w.saw, "[ack by itself 1 of shop 2 of shop]")
}
