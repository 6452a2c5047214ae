package flow

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill"
)

// release hands the ended messages of the batch to the settler. Before that it writes what
// they emit and puts the dead letters. The other messages stay, in order.
func (l *lane) release(ctx context.Context) {
	e := l.e
	if !e.traits.Forwards {
		l.emitAll(ctx)
	}
	if !e.traits.Parks {
		l.bury(ctx)
	}
	ended, stay, deferred := l.ended[:0], 0, int64(0)
	for _, t := range l.batch {
		if t.state == live {
			l.batch[stay] = t
			stay++
			continue
		}
		if t.end.Fate != tidemill.Delivered {
			t.dropEmitted()
		}
		if t.deferred {
			deferred++
		}
		ended = append(ended, t)
	}
	l.batch = l.batch[:stay]
	if deferred > 0 {
		e.acked.awaited.Add(deferred)
	}
	e.finish(ended)
	clear(ended)
	l.ended = ended[:0]
}

// bury puts the dead letters, and repeats until they are durable: nothing is settled
// before. Those that a Partial names never will be: their messages are left.
func (l *lane) bury(ctx context.Context) {
	e := l.e
	l.letters = l.letters[:0]
	for _, t := range l.batch {
		if t.dies() {
			l.letters = append(l.letters, tidemill.DeadLetter{Pipeline: e.p.Name, Message: &t.Message,
				Kind: t.end.Kind, Cause: t.end.Cause, Tries: t.Tries + t.attempts, Row: t.row, At: e.p.Now()})
		}
	}
	if len(l.letters) == 0 {
		return
	}
	for wrong := 1; ; wrong++ {
		err := e.p.Dead.Put(ctx, l.letters)
		if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
			l.unburied(partly)
			break
		}
		if err == nil {
			break
		}
		if !l.again(ctx, "put dead letters", err, wrong) {
			for _, t := range l.batch {
				if t.dies() {
					t.giveBack(e.traits.Delays, 0)
				}
			}
			break
		}
	}
	clear(l.letters)
}

// unburied leaves messages pending whose dead letter cannot be kept.
func (l *lane) unburied(p *tidemill.Partial) {
	e := l.e
	// Logged when the store of dead letters refuses some of a batch; their messages are handed out
	// again after their lease.
	// To do: read the error, and give the store room or rights; nothing is lost meanwhile.
	e.p.Log.Error("dead letters cannot be kept: their messages stay pending", "pipeline", e.p.Name, "count", len(p.Failed), "error", p)
	named := make(map[int]bool, len(p.Failed))
	for _, f := range p.Failed {
		named[f.Index] = true
	}
	n := 0
	for _, t := range l.batch {
		if !t.dies() {
			continue
		}
		if named[n] {
			t.ends(tidemill.Left)
		}
		n++
	}
}

// dies says that the task needs a dead letter.
func (t *Task) dies() bool {
	return t.state == ended && t.end.Fate == tidemill.Dead && !t.buried
}
