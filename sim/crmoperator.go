package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
)

// operate is an operator with every right, who uses them.
func (w *crmWorld) operate(rnd *rand.Rand) {
	for i := range 3 + rnd.IntN(7) {
		_ = sleep.For(w.ctx, time.Duration(rnd.Int64N(int64(8*time.Second))))
		e, d, ways := w.events[rnd.IntN(len(w.events))], time.Duration(rnd.Int64N(int64(10*time.Second))), rnd.IntN(8)
		q := &crm.ReplayRequest{ID: fmt.Sprint("replay-", i)}
		if rnd.IntN(2) == 0 {
			q.From = time.Now().Add(-time.Duration(rnd.Int64N(int64(20 * time.Second))))
		}
		if rnd.IntN(3) == 0 {
			q.To = time.Now().Add(-time.Duration(rnd.Int64N(int64(3 * time.Second))))
		}
		if rnd.IntN(3) == 0 {
			q.Tenant = tenants[rnd.IntN(len(tenants))]
		}
		if rnd.IntN(3) == 0 {
			q.Type = single
		}
		if !q.From.IsZero() && !q.To.IsZero() && q.To.Before(q.From) {
			q.From, q.To = q.To, q.From
		}
		w.g.turn(outsider(), "operator", fmt.Sprint(i))
		w.counted(ByHand)
		switch ways {
		case 0:
			w.set(func(s *queue.Settings) { s.Paused = true })
			_ = sleep.For(w.ctx, d)
			w.g.turn(outsider(), "operator", fmt.Sprint(i))
			w.set(func(s *queue.Settings) { s.Paused = false })
		case 1:
			w.set(func(s *queue.Settings) { s.Closed = true })
			_ = sleep.For(w.ctx, d)
			w.g.turn(outsider(), "operator", fmt.Sprint(i))
			w.set(func(s *queue.Settings) { s.Closed = false })
		case 2:
			w.g.turn(outsider(), "operator opens letters", "")
			w.openAgain(deadletter.Filter{})
		case 3:
			w.retry(e)
		case 4:
			if w.ask(q) && rnd.IntN(2) == 0 {
				w.stop(q.ID)
			}
		default:
			if w.ask(q) && rnd.IntN(2) == 0 {
				_ = sleep.For(w.ctx, d)
				w.counted(AskedTwice)
				w.ask(q)
			}
		}
	}
}

func (w *crmWorld) set(change func(*queue.Settings)) {
	if _, err := w.queues.Set(context.Background(), crm.Queue, change); err != nil {
		w.fault("set the queue: %v", err)
	}
}

// retry opens the job of one dead event again.
func (w *crmWorld) retry(e *happening) {
	in := w.pick(e.n)
	if in == nil {
		return
	}
	if err := in.sys.Retry(w.ctx, e.tenant, e.id); errors.Is(err, crm.ErrNoDeadLetter) != (tidemill.KindOf(err) == tidemill.NotFound) {
		w.fault("retry %v: %v", e, err)
	}
}

// ask requests a replay until it is answered.
func (w *crmWorld) ask(q *crm.ReplayRequest) bool {
	for n := 0; w.ctx.Err() == nil; n++ {
		if in := w.pick(n); in != nil {
			r, err := in.sys.Replay(w.ctx, *q)
			if errors.Is(err, crm.ErrReplayTaken) {
				w.fault("replay %+v: %v", q, err)
				return false
			}
			if err == nil {
				w.book.Lock()
				defer w.book.Unlock()
				for _, o := range w.requests {
					if o == q || o.ID == q.ID {
						return true
					}
				}
				if r.ID != q.ID || r.Tenant != q.Tenant || r.Type != q.Type {
					w.fault("replay %+v was answered %+v", q, r)
				}
				w.requests = append(w.requests, q)
				return true
			}
		}
		_ = sleep.For(w.ctx, 500*time.Millisecond)
		w.g.turn(outsider(), "operator asks again", q.ID)
	}
	return false
}

// stop stops a replay.
func (w *crmWorld) stop(id string) {
	w.book.Lock()
	w.stopped[id] = time.Now().Add(time.Hour) // it is unknown when that happens
	w.book.Unlock()
	for n := 0; w.ctx.Err() == nil; n++ {
		if in := w.pick(n); in != nil && in.sys.StopReplay(w.ctx, id) == nil {
			w.book.Lock()
			w.stopped[id] = time.Now()
			w.book.Unlock()
			return
		}
		_ = sleep.For(w.ctx, 500*time.Millisecond)
		w.g.turn(outsider(), "operator stops again", id)
	}
}
