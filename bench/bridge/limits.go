package bridge

import (
	"bytes"
	"context"
	"fmt"
	"os"
)

// limitDrain reads, acknowledges and deletes all entries, 1,000 at a time, and does nothing
// else: the commands that end a batch go with the read of the next.
func (b *bench) limitDrain(ctx context.Context, r *result) error {
	stream := b.name()
	if err := b.prepare(ctx, stream, template); err != nil {
		return err
	}
	p, err := dialRedis(b.redis.Addr("redis"))
	if err != nil {
		return err
	}
	defer p.close()
	from := b.look(os.Getpid(), 0, nil)
	for got, in := 0, new(batch); ; {
		done := len(in.entries)
		if done > 0 {
			p.each(in.entries, "XACK", stream, group)
			p.each(in.entries, "XDEL", stream)
		}
		p.send("XREADGROUP", "GROUP", group, "limit", "COUNT", "1000", "STREAMS", stream, ">")
		if err := p.flush(); err != nil {
			return err
		}
		if done > 0 {
			for range 2 {
				n, err := p.reply()
				if err == nil && n != done {
					err = fmt.Errorf("%d of %d entries acknowledged or deleted", n, done)
				}
				if err != nil {
					return err
				}
			}
		}
		if err := p.stream(in); err != nil {
			return err
		}
		if got += len(in.entries); len(in.entries) == 0 {
			if got != b.entries {
				return fmt.Errorf("%d entries read of %d", got, b.entries)
			}
			break
		}
	}
	r.fill(b.entries, from, b.look(os.Getpid(), 0, nil))
	st, err := b.state(ctx, stream)
	if err == nil && (st.entries != 0 || st.pending != 0) {
		err = fmt.Errorf("%d entries are left, %d pending", st.entries, st.pending)
	}
	if err != nil {
		return err
	}
	return b.ctl.Do(ctx, b.ctl.B().Del().Key(stream).Build()).Error()
}

// bridged is a message of an entry's size, as a bridge publishes it.
func bridged(i int) []byte {
	return fmt.Appendf(nil, `{"message":{"payload":%s},"redis":{"payload":{"id":"1700000000000-%d"}}}`, payload(7), i)
}

// limitPublish publishes as many messages of an entry's size at QoS 1 with 1,000 in flight,
// and does nothing else.
func (b *bench) limitPublish(on *broker) func(context.Context, *result) error {
	return func(_ context.Context, r *result) error {
		p, err := newPublisher(on.addr(), "limit", "bench/telemetry", 1000, on.quick)
		if err != nil {
			return err
		}
		defer p.close()
		message := bridged(0)
		from := b.look(os.Getpid(), 0, on)
		for range b.entries {
			if err := p.publish(message); err != nil {
				return err
			}
		}
		if err := p.finish(); err != nil {
			return err
		}
		r.fill(b.entries, from, b.look(os.Getpid(), 0, on))
		published, err := on.took(b.entries)
		if err == nil && published != b.entries {
			err = fmt.Errorf("%d messages were published, not %d", published, b.entries)
		}
		return err
	}
}

// limitAnswered publishes likewise to a receiver that acknowledges, and hears its acks: what broker and
// receiver cost a bridge that keeps nothing.
func (b *bench) limitAnswered(on *broker, side far) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) error {
		at := place{broker: on, topic: "bench/telemetry", acks: "bench/telemetry/acks"}
		hears, err := newSubscriber(on.addr(), "limit-acks", 1, at.acks)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, hears.close)()
		defer hears.close()
		a, err := b.startFarSide(ctx, at, side)
		if err != nil {
			return err
		}
		defer a.Stop()
		p, err := newPublisher(on.addr(), "limit", at.topic, 1000, on.quick)
		if err != nil {
			return err
		}
		defer p.close()
		heard := make(chan error, 1)
		go func() { heard <- hears.hear(b.entries) }()
		from := b.look(os.Getpid(), a.PID(), on)
		for i := range b.entries {
			if err := p.publish(bridged(i)); err != nil {
				return err
			}
		}
		if err := p.finish(); err != nil {
			return err
		}
		if err := <-heard; err != nil {
			return err
		}
		r.fill(b.entries, from, b.look(os.Getpid(), a.PID(), on))
		h, err := a.heard()
		if err != nil {
			return err
		}
		published, err := on.took(b.entries + h.Acks)
		if err == nil && (published != b.entries+h.Acks || h.Entries != b.entries) {
			err = fmt.Errorf("%d messages were published, the receiver heard of %d entries and sent %d acks; want %d entries", published, h.Entries, h.Acks, b.entries)
		}
		return err
	}
}

// hear returns when so many ids were acknowledged.
func (s *subscriber) hear(ids int) error {
	for n := 0; n < ids; {
		_, ack, err := s.next()
		if err != nil {
			return err
		}
		n += bytes.Count(ack, []byte("-")) // one in each id
	}
	return s.w.Flush()
}
