package bridge

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// While one of two bridges is paused with entries in memory, the other publishes them.
func TestAPauseOfOneOfTwoHoldsNothingBack(t *testing.T) {
	with(t, func(o *Options, p *Parts) { withoutAcks(o, p); o.Batch, o.Workers = 2, 1 }, func(w *world) {
		w.broker.set(func() { w.broker.slow = 100 * time.Millisecond })
		for n := range 100 {
			w.add(fmt.Sprint(n))
		}
		w.rest(time.Second)
		held := w.bridge.Pipeline.Stats().InFlight
		if err := w.bridge.Pause(); err != nil {
			t.Fatal(err)
		}
		w.rest(time.Second)
		if now := w.bridge.Pipeline.Stats().InFlight; held < 50 || now != 0 {
			t.Fatalf("%d entries were held before the pause and %d in it, want many and none", held, now)
		}
		paused := w.bridge
		w.start(withoutAcks)
		w.rest(10 * time.Second)
		w.books(tidemill.Books{Accepted: 100, Settled: tidemill.Count{Delivered: 100}})
		if n := len(w.broker.ids()); n != 100 {
			t.Errorf("%d messages were published of 100 entries", n)
		}
		if err := paused.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
