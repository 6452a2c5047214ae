package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

// framed is what an entry decodes to. It holds nothing: the entry is framed when it is
// published.
type framed struct{}

// decode ends entries without tries left: the subscriber refused them, or a process died before
// it could end them as dead.
func (b *Bridge) decode(m *tidemill.Message, _ *framed) error {
	if m.Tries >= b.o.attempts() {
		return tidemill.Fail(tidemill.Business, "%d of %d tries failed", m.Tries, b.o.attempts())
	}
	return nil
}

// stages are the stages of the pipeline, which has one.
func (b *Bridge) stages(acks bool) []flow.Stage[framed] {
	return []flow.Stage[framed]{{Name: "publish", Do: b.publish(acks), Repeat: true, Timeout: b.o.Processing}}
}

// publish makes the stage: it frames messages and sends them to the broker. What the broker has
// is delivered, or waits for the subscriber's ack.
func (b *Bridge) publish(acks bool) func(context.Context, []*flow.Item[framed]) error {
	write := flow.To(tidemill.Sink(b.sink()), func(it *flow.Item[framed], out *tidemill.Message) (err error) {
		out.ID = it.ID
		if out.To, err = b.topic.of(&it.Message); err != nil {
			return err
		}
		out.Payload = appendMessage(out.Payload, &it.Message)
		return nil
	})
	return func(ctx context.Context, batch []*flow.Item[framed]) error {
		began := b.o.Now()
		if acks {
			b.remember(batch)
		}
		err := write(ctx, batch)
		b.stats.processing.observe(b.o.Now().Sub(began), len(batch))
		var failed []tidemill.Failed
		if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
			failed = partly.Failed
		} else if err != nil {
			b.stats.mqtt.Add(1)
			return b.blame(err)
		}
		var not []bool // published, by index
		if len(failed) > 0 {
			not = make([]bool, len(batch))
			for k := range failed {
				not[failed[k].Index] = true
				failed[k].Err = b.blame(failed[k].Err)
			}
		}
		published := uint64(0)
		for i, it := range batch {
			if not != nil && not[i] || !it.Live() { // or it could not be framed
				continue
			}
			published++
			if acks {
				it.Defer()
				if it.Handed >= ManyTimes {
					b.unanswered.published(it.ID, it.Handed, it.Tries, began)
				}
			}
		}
		b.stats.published.Add(published)
		if len(failed) == 0 {
			return nil
		}
		b.stats.mqtt.Add(uint64(len(failed)))
		return &tidemill.Partial{Failed: failed}
	}
}

// blame says what an error means: without a connection the cause is the broker, whatever the
// error says.
func (b *Bridge) blame(err error) error {
	if b.p.Up != nil && !b.p.Up() && tidemill.KindOf(err) != tidemill.Validation {
		return tidemill.Fail(tidemill.Transient, "the broker is away: %w", err)
	}
	return err
}

// remember notes for the acks of a batch how often an entry failed before, and when it was
// published.
func (b *Bridge) remember(batch []*flow.Item[framed]) {
	now := b.o.Now()
	for _, it := range batch {
		if it.Tries > 0 {
			b.known.note(it.ID, it.Tries)
		}
		b.stats.sent(it.ID, now)
		b.answers.published(it.ID, it.Trace)
	}
}

// sink is the sink of Parts, with limited calls at once, and timed.
func (b *Bridge) sink() sinkFunc {
	return func(ctx context.Context, batch []*tidemill.Message) error {
		if b.calls != nil { // waiting for a slot is not a failure
			select {
			case b.calls <- struct{}{}:
				defer func() { <-b.calls }()
			case <-ctx.Done():
				return tidemill.Fail(tidemill.Transient, "waited for a call of the breaker's to end: %w", context.Cause(ctx))
			}
		}
		began := b.o.Now()
		err := b.p.Sink.Write(ctx, batch)
		b.stats.publishing.observe(b.o.Now().Sub(began), len(batch))
		return err
	}
}

type sinkFunc func(context.Context, []*tidemill.Message) error

func (f sinkFunc) Write(ctx context.Context, batch []*tidemill.Message) error { return f(ctx, batch) }

// settled counts the source's answers.
func (b *Bridge) settled(ends []tidemill.Settlement) {
	s := &b.stats
	now := time.Time{}
	for i := range ends {
		e := &ends[i]
		outside := e.Mark == tidemill.Mark{}
		if outside {
			b.answers.settled(e, b.o.Now)
		}
		if e.Outcome == tidemill.Applied && e.End != tidemill.Left {
			b.unanswered.answered(e.ID)
		}
		switch {
		case !outside && e.Outcome == tidemill.Applied && e.End == tidemill.Done && e.Fate == tidemill.Dead:
			s.dead.Add(1)
		case !outside && e.Outcome == tidemill.Applied && e.End == tidemill.Done:
			s.acked.Add(1)
		case !outside:
		case e.Outcome == tidemill.Stale:
			s.unknown.Add(1)
		case e.End == tidemill.Again:
			s.refused.Add(1)
		default:
			s.acked.Add(1)
			if now.IsZero() {
				now = b.o.Now()
			}
			s.back(e.ID, now)
		}
	}
}
