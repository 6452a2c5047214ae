package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/window"
)

// operate is an operator with every right, who uses them.
func (w *windowsWorld) operate(rnd *rand.Rand) {
	for i := range 3 + rnd.IntN(6) {
		_ = sleep.For(w.ctx, time.Duration(rnd.Int64N(int64(12*time.Second))))
		r, ways := w.reports[rnd.IntN(len(w.reports))], rnd.IntN(5)
		w.g.turn(outsider(), "operator", fmt.Sprint(i))
		w.counted(ByHand)
		switch ways {
		case 0:
			w.closeNow(stored(r.batch))
		case 1:
			w.replayWindows(window.Filter{Max: 1 + rnd.IntN(2)})
		case 2:
			w.replayLetters(deadletter.Filter{Max: 1 + rnd.IntN(5)})
		case 3:
			w.pause(rnd.IntN(3), time.Duration(rnd.Int64N(int64(20*time.Second))))
		default:
			w.peek()
		}
	}
}

// pause pauses a process for a while.
func (w *windowsWorld) pause(n int, d time.Duration) {
	w.book.Lock()
	if len(w.up) == 0 {
		w.book.Unlock()
		return
	}
	sys := w.up[n%len(w.up)]
	w.count[PausedOnes]++
	w.book.Unlock()
	if sys.Pause() == nil { // else it has not begun, or is about to end
		_ = sleep.For(w.ctx, d)
		w.g.turn(outsider(), "operator goes on", "")
		_ = sys.Resume()
	}
}

// closeNow closes the window of a batch.
func (w *windowsWorld) closeNow(batch string) {
	w.book.Lock()
	defer w.book.Unlock()
	before := 0
	for range w.store.List(context.Background(), window.Filter{State: window.Active, Batch: batch}) {
		before++
	}
	was, err := w.store.CloseNow(context.Background(), batch)
	if err != nil || was != (before == 1) {
		w.fault("close the window of %s: %v, %v; there were %d", batch, was, err, before)
	}
	if was {
		w.count[ClosedNow]++
	}
}

// replayWindows replays parked windows.
func (w *windowsWorld) replayWindows(f window.Filter) {
	w.book.Lock()
	defer w.book.Unlock()
	f.State = window.Parked
	var chosen []*span
	for i, err := range w.store.List(context.Background(), f) {
		o := w.spans[i.ID]
		if err != nil || o == nil || !o.parked {
			w.fault("window %s is listed as parked: %v", i.ID, err)
			continue
		}
		chosen = append(chosen, o)
	}
	n, err := w.store.Replay(context.Background(), f)
	if err != nil || n != len(chosen) {
		w.fault("%d windows are replayed, want %d: %v", n, len(chosen), err)
	}
	for _, o := range chosen {
		w.count[BackAgain]++
		o.parked, o.burnt = false, 0
		o.replays++
	}
}

// replayLetters replays dead letters.
func (w *windowsWorld) replayLetters(f deadletter.Filter) {
	f.State = deadletter.Held
	if _, err := w.letters.Replay(context.Background(), f); err != nil {
		w.fault("replay letters: %v", err)
	}
}

// peek reads every window as an operator does, and compares.
func (w *windowsWorld) peek() {
	w.book.Lock()
	defer w.book.Unlock()
	ctx := context.Background()
	for i, err := range w.store.List(ctx, window.Filter{}) {
		if err != nil {
			w.fault("list windows: %v", err)
			return
		}
		o, n := w.spans[i.ID], 0
		if o == nil {
			w.fault("there is a window %s, and nobody put anything into it", i.ID)
			continue
		}
		into := make([]window.Record, 2)
		for from := ""; ; {
			page, err := w.store.Peek(ctx, i.ID, from, into)
			if err != nil {
				w.fault("peek into window %s: %v", i.ID, err)
				return
			}
			n += page.N
			for _, x := range into[:page.N] {
				if r := w.of(x.Body); r == nil || o.places[r.name()] == nil || o.places[r.name()].r != r {
					w.fault("window %s has the record %s, which is not there", i.ID, x.Body)
				}
			}
			if from = page.Next; from == "" {
				break
			}
		}
		if n != len(o.places) {
			w.fault("window %s has %d records, want %d", i.ID, n, len(o.places))
		}
	}
}
