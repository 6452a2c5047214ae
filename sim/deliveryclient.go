package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

// client sends its share of the requests.
func (w *deliveryWorld) client(n int) {
	rnd := rand.New(rand.NewPCG(w.seed, 0xc11e+uint64(n)))
	for i := n; i < len(w.requests); i += deliveryClients {
		r := w.requests[i]
		_ = sleep.For(w.ctx, time.Until(epoch.Add(r.at))+time.Duration(rnd.IntN(1000)))
		for try := 1; w.ctx.Err() == nil && !w.post(n, i, r, rnd); try++ {
			if try == r.leaves {
				r.left = true
				break
			}
			_ = sleep.For(w.ctx, 100*time.Millisecond+time.Duration(rnd.Int64N(int64(time.Second))))
		}
	}
}

// post sends a request, and reports whether it was answered. Answers can get lost, too.
func (w *deliveryWorld) post(client, number int, r *request, rnd *rand.Rand) bool {
	in := w.pick(client + rnd.IntN(2))
	lost := rnd.IntN(10) == 0 && !w.peace
	if in == nil {
		return false // refused
	}
	ctx := context.WithValue(w.ctx, clientKey{}, fmt.Sprintf("client %d, request %d ", client, number))
	a, err := in.endpoint.Accept(ctx, r.asked())
	if errors.Is(err, accept.ErrReused) {
		w.fault("request %s was refused: %v", r.key, err)
		return true
	}
	if err != nil {
		return false
	}
	w.answered(r, a)
	return !lost
}

// answered checks an answer: it equals the first one, byte for byte, and what it says is true.
func (w *deliveryWorld) answered(r *request, a *accept.Answer) {
	w.book.Lock()
	defer w.book.Unlock()
	for _, o := range w.requests { // another client may have sent it, too
		if o.key == r.key && o.site == r.site && o.answer != nil {
			r.answer = o.answer
		}
	}
	if r.answer != nil {
		w.count[Repeated]++
		// An answer that was not stored is computed again: by then its events may have come by
		// another request, too.
		if !bytes.Equal(r.answer, a.Results) && !w.unwritten[r.key] {
			w.fault("request %s was answered %s, and before %s", r.key, a.Results, r.answer)
		}
		return
	}
	r.answer = bytes.Clone(a.Results)
	var results []struct{ EventID, Status, DuplicateOf string }
	if err := json.Unmarshal(a.Results, &results); err != nil || len(results) != len(r.events) {
		w.fault("request %s of %d events was answered %s: %v", r.key, len(r.events), a.Results, err)
		return
	}
	for i, e := range r.events {
		res := results[i]
		switch {
		case e.past:
			if res.Status != "duplicate" || res.DuplicateOf != e.id {
				w.fault("event %d, whose queue knew it, was answered %+v", e.n, res)
			}
		case e.job == "":
			w.fault("event %d was answered %s, and is in no queue", e.n, res.Status)
		case res.Status == "duplicate" && res.DuplicateOf == e.job:
			w.count[Duplicate]++
		case res.Status != "accepted" || res.EventID != e.job:
			w.fault("event %d was answered %+v; it is %s", e.n, res, e.job)
		}
	}
}

// operate is an operator with every right, who uses them.
func (w *deliveryWorld) operate(rnd *rand.Rand) {
	for i := range 2 + rnd.IntN(6) {
		_ = sleep.For(w.ctx, time.Duration(rnd.Int64N(int64(10*time.Second))))
		f := w.fars[rnd.IntN(len(w.fars))]
		q := []string{"s2s." + f.name, "s2s." + f.name, "ingest.high", "ingest.standard", "ingest.low"}[rnd.IntN(5)]
		d := time.Duration(rnd.Int64N(int64(20 * time.Second)))
		in, ways := w.pick(rnd.IntN(2)), rnd.IntN(9)
		w.g.turn(outsider(), "operator", fmt.Sprint(i))
		w.book.Lock()
		w.count[ByHand]++
		w.book.Unlock()
		switch {
		case ways == 0:
			w.set(q, func(s *queue.Settings) { s.Paused = true })
			_ = sleep.For(w.ctx, d)
			w.g.turn(outsider(), "operator", fmt.Sprint(i))
			w.set(q, func(s *queue.Settings) { s.Paused = false })
		case ways == 1:
			limit := queue.Limit{PerSecond: 1 + 10*rnd.Float64(), AtOnce: rnd.IntN(3)}
			w.set(q, func(s *queue.Settings) {
				if rnd.IntN(2) == 0 {
					s.Limit = limit
				} else {
					s.Tenants = map[string]queue.Limit{big: limit}
				}
			})
			_ = sleep.For(w.ctx, d)
			w.g.turn(outsider(), "operator", fmt.Sprint(i))
			w.set(q, func(s *queue.Settings) { s.Limit, s.Tenants = queue.Limit{}, nil })
		case ways == 2:
			w.g.turn(outsider(), "operator replays", q)
			w.replay(deadletter.Filter{Pipeline: q})
		case ways == 7 || ways == 8:
			w.g.turn(outsider(), "operator edits", "")
			for _, f := range w.fars {
				w.edit(f)
			}
		case in == nil:
		case ways == 3:
			_ = in.sys.OpenCircuit(w.ctx, f.name, d) // it may be gone by now
		case ways == 4:
			w.book.Lock()
			f.closes++
			w.book.Unlock()
			_ = in.sys.CloseCircuit(w.ctx, f.name)
			w.book.Lock()
			for _, e := range w.events { // waiting jobs were promoted
				if l := e.legs[f.name]; l != nil {
					l.asks = nil
				}
			}
			w.book.Unlock()
		case ways == 5:
			if in.sys.Pipeline(q).Pause() == nil {
				_ = sleep.For(w.ctx, d)
				w.g.turn(outsider(), "operator", fmt.Sprint(i))
				_ = in.sys.Pipeline(q).Resume()
			}
		default:
			if in.sys.Pause() == nil {
				_ = sleep.For(w.ctx, d)
				w.g.turn(outsider(), "operator", fmt.Sprint(i))
				_ = in.sys.Resume()
			}
		}
	}
}

// edit fixes an event that a partner refused, and sends it once more.
func (w *deliveryWorld) edit(f *far) {
	ctx, chosen := context.Background(), deadletter.Filter{Pipeline: "s2s." + f.name, State: deadletter.Held, Kinds: []tidemill.Kind{tidemill.Validation}, Max: 3}
	for l, err := range w.letters.List(ctx, chosen) {
		if err != nil || f.items > 1 { // a batch does not show it
			break
		}
		w.book.Lock()
		e := w.of(l.Payload)
		e.legs[f.name].mended = true
		w.count[Edited]++
		w.book.Unlock()
		if err := w.letters.Edit(ctx, l.Name(), e.better(), ""); err != nil {
			w.fault("edit the letter of %s: %v", l.ID, err)
		}
		w.replay(deadletter.Filter{Pipeline: l.Pipeline, Tenant: l.Tenant, IDs: []string{l.ID}})
	}
}

func (w *deliveryWorld) set(q string, change func(*queue.Settings)) {
	if _, err := w.queues.Set(context.Background(), q, change); err != nil {
		w.fault("set queue %s: %v", q, err)
	}
}
