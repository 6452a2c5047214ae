package flow

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
)

// tendAtMost bounds one call of Keep or Gate where the source's leases do not.
const tendAtMost = 5 * time.Second

// tend renews leases and tells the source's gate, until everything is settled.
func (e *Engine) tend(ctx context.Context) {
	keeper, _ := e.p.Source.(tidemill.Keeper)
	gater, _ := e.p.Source.(tidemill.Gater)
	every, atMost := e.traits.Keep, tendAtMost
	if every > 0 {
		atMost = min(atMost, every/2)
	}
	clock := e.alarm(slotTend)
	keep, gate := e.p.Now().Add(every), time.Time{} // when each is to be called next
	wrong := 0
	for ctx.Err() == nil {
		now := e.p.Now()
		next := time.Duration(0)
		if every > 0 {
			if !now.Before(keep) && e.returns() && e.held.Load() == 0 { // we hold nothing
				keep = now.Add(every)
			}
			if !now.Before(keep) {
				keep = now.Add(every)
				if err := call(ctx, atMost, keeper.Keep); err != nil && ctx.Err() == nil {
					e.trouble("keep leases", err)
					keep = now.Add(every / 4)
				}
				now = e.p.Now()
			}
			next = max(keep.Sub(now), 1)
		}
		if until, probes, due := e.gate.order(now); due {
			if now.Before(gate) { // after an error
				next = earlier(next, gate.Sub(now))
			} else if err := call(ctx, atMost, func(ctx context.Context) error { return gater.Gate(ctx, until, probes) }); err == nil {
				e.gate.obeyed(now, until)
				wrong = 0
				continue
			} else if ctx.Err() == nil {
				e.trouble("gate", err)
				wrong++
				gate = now.Add(e.p.Backoff.Wait(wrong, e.chance.tend.Float64()))
				continue
			}
		}
		if next == 0 {
			select {
			case <-e.tending:
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-e.tending:
		case <-clock.after(next):
		case <-ctx.Done():
		}
	}
	clock.stop()
}

func earlier(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

func call(ctx context.Context, atMost time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	return do(ctx)
}

// gateChanged wakes all goroutines that wait at the gate.
func (e *Engine) gateChanged() {
	e.wakeAll()
	signal(e.tending)
}

// Trip opens the breaker by hand for a time.
func (e *Engine) Trip(d time.Duration) {
	if e.gate.trip(e.p.Now(), d, "opened by hand") {
		e.gateChanged()
	}
}

// Reset closes the breaker by hand.
func (e *Engine) Reset() {
	e.gate.reset()
	e.gateChanged()
}
