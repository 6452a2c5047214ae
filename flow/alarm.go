package flow

import (
	"context"
	"time"
)

// An alarm is a reusable timer of one goroutine.
//
// Its owner has one slot of several: the alarm goes off only at instants (in nanoseconds)
// whose remainder is the slot, so no two owners ever wake at the same instant. With a faked
// clock, the clock and not the scheduler then decides who comes first, and every run is the
// same. A real clock does not notice.
type alarm struct {
	slot, of int
	now      func() time.Time
	timer    *time.Timer
}

// after sets the alarm and returns its channel.
func (a *alarm) after(d time.Duration) <-chan time.Time {
	d = a.round(d)
	if a.timer == nil {
		a.timer = time.NewTimer(d)
	} else {
		a.timer.Reset(d)
	}
	return a.timer.C
}

// round moves the end of d to a later instant of the owner's.
func (a *alarm) round(d time.Duration) time.Duration {
	d = max(d, 1)
	if a.of > 1 {
		of := int64(a.of)
		d += time.Duration(((int64(a.slot)-a.now().Add(d).UnixNano())%of + of) % of)
	}
	return d
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// wait returns when d has passed or ctx has ended.
func (a *alarm) wait(ctx context.Context, d time.Duration) {
	select {
	case <-a.after(d):
	case <-ctx.Done():
		a.stop()
	}
}

// The slots of an engine's goroutines: its lanes, and after them these.
const (
	slotIn = iota
	slotOut
	slotTend
	slotAcks
	slotStop
	slots
)

// alarm makes an alarm for a goroutine that is not a lane.
func (e *Engine) alarm(slot int) alarm {
	return alarm{slot: e.p.Lanes + slot, of: e.p.Lanes + slots, now: e.p.Now}
}

// signal wakes the goroutine that listens to c, which has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
