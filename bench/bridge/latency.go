package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// receiver is the subscriber: it counts entries as they arrive, and when.
type receiver struct {
	sub     *subscriber
	arrived []time.Duration // by number, since from; 0 is not yet
	from    time.Time
	n       atomic.Int64  // that arrived
	come    chan struct{} // capacity 1: n has changed
	ended   chan struct{} // closed when nothing more is received
	err     error         // why; read after ended
}

func receive(on *broker, topic string, from time.Time, entries int) (*receiver, error) {
	sub, err := newSubscriber(on.addr(), "bench-receiver", 1, topic)
	if err != nil {
		return nil, err
	}
	r := &receiver{sub: sub, arrived: make([]time.Duration, entries), from: from, come: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = r.run()
	}()
	return r, nil
}

func (r *receiver) close() {
	r.sub.close()
	<-r.ended
}

func (r *receiver) run() error {
	for {
		_, message, err := r.sub.next()
		if err != nil {
			return err
		}
		now := time.Since(r.from)
		i, err := sequence(message)
		switch {
		case err != nil:
			return err
		case i < 0 || i >= len(r.arrived):
			return fmt.Errorf("a message about entry %d, which there is none of", i)
		case r.arrived[i] != 0:
			return fmt.Errorf("entry %d came twice", i)
		}
		r.arrived[i] = now
		r.n.Add(1)
		select {
		case r.come <- struct{}{}:
		default: // pending already
		}
	}
}

// until waits until so many entries have arrived.
func (r *receiver) until(ctx context.Context, n int) error {
	for deadline := time.After(30 * time.Second); r.n.Load() < int64(n); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ended:
			return r.err
		case <-deadline:
			return fmt.Errorf("%d entries arrived of %d", r.n.Load(), n)
		case <-r.come:
		}
	}
	return nil
}

// offer calls send for numbers from 1 on at the moment each is due, and flush after those that
// were due together. A late one does not shift the others.
func offer(ctx context.Context, from time.Time, due []time.Duration, send func(i int) error, flush func() error) error {
	for i := 1; i < len(due); {
		now := time.Since(from)
		if wait := due[i] - now; wait > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
				continue
			}
		}
		for ; i < len(due) && due[i] <= now; i++ {
			if err := send(i); err != nil {
				return err
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// latency measures the time from the moment when an entry is due until a subscriber of the
// broker has its message. start begins to bridge and returns how to end it.
func (b *bench) latency(on *broker, start func(context.Context, place) (stop func() error, err error)) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) (err error) {
		at := place{redis: b.redis.Addr("redis"), stream: b.name(), broker: on, topic: "bench/latency"}
		if err := b.prepare(ctx, at.stream, ""); err != nil {
			return err
		}
		entries := 1 + int(b.rate*b.seconds) // number 0 shows that everything is connected
		from := time.Now()
		in, err := receive(on, at.topic, from, entries)
		if err != nil {
			return err
		}
		defer in.close()
		stop, err := start(ctx, at)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		out, err := dialRedis(at.redis)
		if err != nil {
			return err
		}
		defer out.close()
		write := func(i int) error {
			out.command(5)
			for _, word := range [][]byte{[]byte("XADD"), []byte(at.stream), []byte("*"), []byte("payload"), payload(i)} {
				out.arg(word)
			}
			return nil
		}
		written := make(chan error, 1)
		go func() {
			for range entries {
				if _, err := out.text(nil); err != nil {
					written <- err
					return
				}
			}
			written <- nil
		}()
		if err := errors.Join(write(0), out.flush(), in.until(ctx, 1)); err != nil {
			return err
		}
		due, begin := make([]time.Duration, entries), time.Since(from)+100*time.Millisecond
		for i := 1; i < entries; i++ {
			due[i] = begin + time.Duration(float64(i)/b.rate*float64(time.Second))
		}
		if err := offer(ctx, from, due, write, out.flush); err != nil {
			return err
		}
		if err := errors.Join(<-written, in.until(ctx, entries)); err != nil {
			return err
		}
		for i := 1; i < entries; i++ {
			r.Late = append(r.Late, in.arrived[i]-due[i])
		}
		r.Messages, r.Seconds = entries, b.seconds
		published, err := on.took(entries)
		if err == nil && published != entries {
			err = fmt.Errorf("%d messages were published, not %d", published, entries)
		}
		return err
	}
}

// running starts a contender in the form for latency.
func running(c contender) func(context.Context, place) (func() error, error) {
	return func(ctx context.Context, at place) (func() error, error) {
		p, err := c.start(ctx, at)
		if err != nil {
			return nil, err
		}
		return p.Stop, nil
	}
}

// byHand is the least that a bridge can be: it reads entries, publishes them, and acknowledges
// and deletes them with the next read, without waiting for the broker's answer.
func byHand(_ context.Context, at place) (stop func() error, err error) {
	p, err := dialRedis(at.redis)
	if err != nil {
		return nil, err
	}
	pub, err := newPublisher(at.broker.addr(), "by-hand", at.topic, 1000, at.broker.quick)
	if err != nil {
		p.close()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		for in := new(batch); ; {
			done := len(in.entries)
			if done > 0 {
				p.each(in.entries, "XACK", at.stream, group)
				p.each(in.entries, "XDEL", at.stream)
			}
			p.send("XREADGROUP", "GROUP", group, "hand", "COUNT", "1000", "BLOCK", "0", "STREAMS", at.stream, ">")
			err := p.flush()
			for i := 0; err == nil && done > 0 && i < 2; i++ {
				_, err = p.reply()
			}
			if err == nil {
				err = p.stream(in)
			}
			for i := 0; err == nil && i < len(in.entries); i++ {
				err = pub.publish(in.entries[i].payload)
			}
			if err == nil {
				err = pub.w.Flush()
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	return func() error {
		p.close()
		pub.close()
		<-ended // it ends by being closed, which is not an error
		return nil
	}, nil
}
