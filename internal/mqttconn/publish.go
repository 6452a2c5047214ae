package mqttconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
)

// A Message is to be published. Publish keeps nothing of it after it has returned.
type Message struct {
	Topic   string
	Payload []byte
	QoS     byte // 0, 1 or 2
	Retain  bool

	// Of MQTT 5; MQTT 3.1.1 leaves them out.
	Expiry      time.Duration // how long the broker may keep it for an absent subscriber; 0: for ever
	ContentType string
	User        []tidemill.Field // user properties: names and values are UTF-8
}

// batch is one call of Publish. Except for done it belongs to its client.
type batch struct {
	msgs   []Message
	next   int // the first message that was not sent
	left   int // messages that have not ended
	failed []tidemill.Failed
	broken bool // a message in flight was lost: the unsent ones are not sent any more
	done   chan struct{}
	link   *batch // in the list of those that ended
}

// sent is a message at QoS 0 being written to the socket.
type sent struct {
	b *batch
	i int
}

// Publish sends the messages in order and waits until the broker has acknowledged each, at QoS
// 0 until they are written. It returns nil if all were, a *tidemill.Partial that names the
// others, or one error for all. Batches of several callers take turns.
//
// When ctx ends it returns at once. The outcome of messages in flight then stays unknown: their
// error is tidemill.Unknown if a deadline passed.
func (c *Client) Publish(ctx context.Context, msgs []Message) error {
	if len(msgs) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return endOf(ctx, "not sent to the MQTT broker")
	}
	b := c.batches.Get().(*batch)
	b.msgs, b.next, b.left, b.broken = msgs, 0, len(msgs), false
	c.mu.Lock()
	if err := c.refuses(); err != nil {
		c.mu.Unlock()
		b.msgs = nil
		c.batches.Put(b)
		return err
	}
	c.queue = append(c.queue, b)
	c.waiting += len(msgs)
	c.pump()
	l := c.link
	ready := c.takeReady()
	c.mu.Unlock()
	tell(ready)
	if l != nil {
		l.signal()
		c.unstall(l)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		c.abandon(ctx, b)
		<-b.done
	}
	err := b.result()
	b.msgs, b.failed = nil, nil
	c.batches.Put(b)
	return err
}

// endOf is the error of a context that ended.
func endOf(ctx context.Context, what string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%s: %w: %w", what, err, cause)
}

// refuses says why nothing more is accepted; under mu.
func (c *Client) refuses() error {
	switch {
	case c.closing:
		return errClosed
	case c.link == nil && (c.given || c.why != nil && tidemill.KindOf(c.why) == tidemill.Credentials):
		return away(c.why)
	}
	return nil
}

// result is what Publish returns.
func (b *batch) result() error {
	if len(b.failed) == 0 {
		return nil
	}
	first := b.failed[0].Err
	if len(b.failed) == len(b.msgs) && !slices.ContainsFunc(b.failed, func(f tidemill.Failed) bool { return f.Err != first }) {
		return first
	}
	slices.SortFunc(b.failed, func(x, y tidemill.Failed) int { return cmp.Compare(x.Index, y.Index) })
	return &tidemill.Partial{Failed: b.failed}
}

// turn is how many messages of a batch are sent before it is another batch's turn.
const turn = 64

// pump encodes what may be sent now; under mu. After the window was full it waits until a part
// of it is free, so that packets are sent, and acknowledged, in bulk.
func (c *Client) pump() {
	l := c.link
	if l == nil || len(c.queue) == 0 {
		return
	}
	if first := c.queue[0]; c.inFlight > 0 && first.msgs[first.next].QoS > 0 {
		quota, bulk := l.limit(first.msgs[first.next].QoS)
		if quota-c.inFlight < min(c.waiting, bulk) {
			return
		}
	}
	for len(c.queue) > 0 && len(c.out) < outFull {
		b := c.queue[0]
		for n := 0; n < turn && b.next < len(b.msgs) && len(c.out) < outFull; n++ {
			m := &b.msgs[b.next]
			if quota, _ := l.limit(m.QoS); m.QoS > 0 && c.inFlight >= quota {
				return
			}
			c.send(l, b, b.next, m)
			b.next++
			c.waiting--
		}
		switch {
		case b.next == len(b.msgs):
			c.queue = slices.Delete(c.queue, 0, 1)
		case len(c.queue) > 1:
			c.queue = append(slices.Delete(c.queue, 0, 1), b)
		}
	}
}

// send encodes one message, or fails it; under mu.
func (c *Client) send(l *link, b *batch, i int, m *Message) {
	if err := c.unfit(l, m); err != nil {
		c.stats.Refused++
		c.endOne(b, i, err)
		return
	}
	c.stats.Sent++
	if m.QoS == 0 {
		c.out = appendPublish(c.out, m, 0, false, l.version)
		c.zero = append(c.zero, sent{b, i})
		return
	}
	id := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.inFlight++
	c.seq++
	s := &c.slots[id]
	if s.unknown {
		c.out = appendAck(c.out, pubrelBits, id)
	}
	*s = slot{b: b, i: i, state: waitsPuback, seq: c.seq}
	if m.QoS == 2 {
		s.state = waitsPubrec
	}
	c.out = appendPublish(c.out, m, id, false, l.version)
}

// unfit says why a message cannot be sent to this broker.
func (c *Client) unfit(l *link, m *Message) error {
	if m.Topic != c.topic || m.Topic == "" {
		if err := CheckTopic(m.Topic); err != nil {
			return err
		}
		c.topic = m.Topic
	}
	switch {
	case m.QoS > 2:
		return tidemill.Fail(tidemill.Validation, "QoS is %d: want 0, 1 or 2", m.QoS)
	case m.QoS > l.maxQoS:
		return tidemill.Fail(tidemill.Credentials, "the MQTT broker takes QoS %d at most, this message has %d: lower it", l.maxQoS, m.QoS)
	case m.Retain && !l.retain:
		return tidemill.Fail(tidemill.Credentials, "the MQTT broker keeps no retained messages: do not ask for them")
	}
	if l.version >= 5 {
		if len(m.ContentType) > 65_535 || !utf8.ValidString(m.ContentType) {
			return tidemill.Fail(tidemill.Validation, "the content type is not UTF-8 of at most 65,535 bytes")
		}
		for i := range m.User {
			f := &m.User[i]
			if len(f.Name) > 65_535 || len(f.Value) > 65_535 || !utf8.Valid(f.Name) || !utf8.Valid(f.Value) {
				return tidemill.Fail(tidemill.Validation, "user property %.100q is not UTF-8 of at most 65,535 bytes", f.Name)
			}
		}
	}
	n, _ := m.size(l.version)
	if size := 1 + varintSize(n) + n; n > 1<<28-1 || l.largest > 0 && size > l.largest {
		most := 1<<28 - 1
		if l.largest > 0 {
			most = l.largest
		}
		return tidemill.Fail(tidemill.Validation, "the packet has %d bytes, the MQTT broker takes at most %d", size, most)
	}
	return nil
}

// endOne ends one message of a batch; under mu.
func (c *Client) endOne(b *batch, i int, err error) {
	if err != nil {
		b.failed = append(b.failed, tidemill.Failed{Index: i, Err: err})
	} else {
		c.stats.Acked++
	}
	if b.left--; b.left == 0 {
		b.link, c.ready = c.ready, b
	}
}

// takeReady returns the batches that have ended; under mu.
func (c *Client) takeReady() *batch {
	b := c.ready
	c.ready = nil
	return b
}

// tell wakes their callers; without mu.
func tell(ready *batch) {
	for ready != nil {
		b := ready
		ready, b.link = b.link, nil
		b.done <- struct{}{}
	}
}

// failRest ends the unsent messages of a batch; under mu.
func (c *Client) failRest(b *batch, err error) {
	i := slices.Index(c.queue, b)
	if i < 0 {
		return
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	for ; b.next < len(b.msgs); b.next++ {
		c.waiting--
		c.endOne(b, b.next, err)
	}
}

// endZero ends the messages at QoS 0 that were not written; under mu.
func (c *Client) endZero(err error) {
	for _, list := range [][]sent{c.writing, c.zero} {
		for _, s := range list {
			c.endOne(s.b, s.i, err)
		}
		clear(list)
	}
	c.writing, c.zero = c.writing[:0], c.zero[:0]
}

// abandon ends a batch whose caller no longer waits. Messages in flight keep their packet ids
// until the broker answers.
func (c *Client) abandon(ctx context.Context, b *batch) {
	unsent := endOf(ctx, "not sent to the MQTT broker")
	flying := endOf(ctx, "not acknowledged by the MQTT broker")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		flying = &tidemill.Error{Kind: tidemill.Unknown, Err: flying}
	}
	c.mu.Lock()
	c.failRest(b, unsent)
	for _, list := range []*[]sent{&c.writing, &c.zero} {
		*list = slices.DeleteFunc(*list, func(s sent) bool {
			if s.b == b {
				c.endOne(b, s.i, flying)
			}
			return s.b == b
		})
	}
	for id := range c.slots {
		if s := &c.slots[id]; s.b == b {
			c.endOne(b, s.i, flying)
			s.b = nil
		}
	}
	ready := c.takeReady()
	c.mu.Unlock()
	tell(ready)
}
