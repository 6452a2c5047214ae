package flow

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill"
)

// emits says that the task is delivered and has something to emit.
func (t *Task) emits() bool {
	return t.state == ended && t.end.Fate == tidemill.Delivered && len(t.end.Next) > 0
}

// dropEmitted drops the messages that the task emitted.
func (t *Task) dropEmitted() {
	clear(t.end.Next)
	t.end.Next = t.end.Next[:0]
}

// name checks what a delivered message emits, and gives ids to messages without one.
func (l *lane) name(t *Task) {
	next := t.end.Next
	for i, m := range next {
		if m.ID == "" {
			m.ID = fmt.Sprintf("%s/%d", t.ID, i)
		}
		m.Header = t.Trace.Put(m.Header)
	}
	switch twice := duplicate(next); {
	case !l.e.traits.Forwards && l.e.p.Emits == nil:
		l.refuse(t, tidemill.Fail(tidemill.Internal, "%d messages, but the source does not forward and the pipeline has no Emits", len(next)))
	case twice != "":
		l.refuse(t, tidemill.Fail(tidemill.Internal, "%q twice: the second would be taken for the first", twice))
	}
}

// duplicate returns an id that occurs twice.
func duplicate(ms []*tidemill.Message) string {
	if len(ms) < 2 {
		return ""
	}
	seen := make(map[string]bool, len(ms))
	for _, m := range ms {
		if seen[m.ID] {
			return m.ID
		}
		seen[m.ID] = true
	}
	return ""
}

// refuse ends a delivered message whose emitted messages cannot be stored.
func (l *lane) refuse(t *Task, err error) {
	t.Fail(fmt.Errorf("emit: %w", err))
	l.decide(t, false)
	l.countFailures()
	if t.end.End != tidemill.Done && l.e.holds { // repeating it in the lane would change nothing
		t.end.End, t.end.Fate = tidemill.Done, tidemill.Dead
	}
}

// emitAll writes what the delivered messages of the batch emit.
func (l *lane) emitAll(ctx context.Context) {
	l.live = l.live[:0]
	for _, t := range l.batch {
		if t.emits() {
			l.live = append(l.live, t)
		}
	}
	l.emit(ctx, l.live)
}

// emit writes what these messages emit, and repeats until it is durable: ids make that
// harmless. A message whose emitted messages are rejected fails.
func (l *lane) emit(ctx context.Context, parents []*Task) {
	for wrong := 1; len(parents) > 0; wrong++ {
		err := l.writeEmitted(ctx, parents)
		if err == nil {
			for _, t := range parents {
				t.dropEmitted()
			}
			return
		}
		if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
			if parents = l.emitted(parents, partly); len(parents) == 0 {
				return
			}
		} else if ctx.Err() == nil && rejected(tidemill.KindOf(err)) {
			if len(parents) == 1 {
				l.refuse(parents[0], err)
				return
			}
			half := len(parents) / 2
			l.emit(ctx, parents[:half])
			l.emit(ctx, parents[half:])
			return
		}
		if !l.again(ctx, "write emitted messages", err, wrong) {
			for _, t := range parents {
				t.giveBack(l.e.traits.Delays, 0)
			}
			return
		}
	}
}

// writeEmitted is one call of Emits with all that the parents emit.
func (l *lane) writeEmitted(ctx context.Context, parents []*Task) (err error) {
	l.next = l.next[:0]
	for _, t := range parents {
		l.next = append(l.next, t.end.Next...)
	}
	defer clear(l.next)
	defer func() {
		if p := recover(); p != nil {
			err = panicked(l.e.p.Log, "emit", p)
		}
	}()
	return l.e.p.Emits.Write(ctx, l.next)
}

// emitted sorts the parents after a Partial. Parents without a failure are done, parents
// with a rejected message are refused, the others are returned to be repeated.
func (l *lane) emitted(parents []*Task, p *tidemill.Partial) []*Task {
	again, from := parents[:0], 0
	for _, t := range parents {
		to := from + len(t.end.Next)
		var failed, refused error
		for _, f := range p.Failed {
			if f.Index >= from && f.Index < to {
				failed = f.Err
				if rejected(tidemill.KindOf(f.Err)) {
					refused = f.Err
				}
			}
		}
		from = to
		switch {
		case refused != nil:
			l.refuse(t, refused)
		case failed != nil:
			again = append(again, t)
		default:
			t.dropEmitted()
		}
	}
	return again
}
