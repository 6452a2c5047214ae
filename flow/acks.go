package flow

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow/ring"
)

// acks are ends that come from outside, on their way to the settler.
type acks struct {
	ring    *ring.Ring[tidemill.Settlement]
	room    chan struct{} // wakes the listener: the ring was emptied
	idle    chan struct{} // wakes the stop: no ack is awaited any more
	awaited atomic.Int64  // left for an ack, less those acked
	window  window
}

func (a *acks) init(t tidemill.Traits) {
	a.window.init(t)
	a.ring = ring.New[tidemill.Settlement](maxReceive)
	a.room, a.idle = make(chan struct{}, 1), make(chan struct{}, 1)
}

// took counts the source's answers to ends from outside.
func (a *acks) took(ends []tidemill.Settlement) {
	n := int64(0)
	for i := range ends {
		if ends[i].Outcome == tidemill.Applied {
			n++
		}
	}
	if n > 0 && a.awaited.Add(-n) <= 0 {
		signal(a.idle)
	}
}

// listen takes ends from outside until ctx ends, and then those that came in before.
func (e *Engine) listen(ctx context.Context) {
	into := make([]tidemill.Settlement, maxReceive)
	clock := e.alarm(slotAcks)
	defer clock.stop()
	for wrong, n := 0, 1; ctx.Err() == nil || n > 0; {
		clear(into)
		var err error
		n, err = e.p.Acks(ctx, into)
		rest := into[:min(max(n, 0), len(into))]
		if e.acked.window.heard(e.p.Now(), rest) {
			signal(e.knock)
		}
		for len(rest) > 0 {
			put := e.acked.ring.TryPutN(rest)
			signal(e.ending)
			if rest = rest[put:]; len(rest) > 0 && put == 0 {
				<-e.acked.room // the settler outlives the listener
			}
		}
		switch {
		case err == nil:
			wrong = 0
		case ctx.Err() == nil:
			e.trouble("listen for acks", err)
			wrong++
			clock.wait(ctx, e.p.Backoff.Wait(wrong, e.chance.acks.Float64()))
		}
	}
}

// awaitAcks waits for acks from outside, for a time after the last message was worked on.
func (e *Engine) awaitAcks(d time.Duration) {
	if e.p.Acks == nil {
		return
	}
	clock := e.alarm(slotStop)
	defer clock.stop()
	over := clock.after(d)
	for e.acked.awaited.Load() > 0 {
		select {
		case <-e.acked.idle:
		case <-over:
			return
		}
	}
}
