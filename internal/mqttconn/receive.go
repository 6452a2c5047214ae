package mqttconn

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
)

// A Delivery is a received message. Its bytes belong to the reader until it passes the Delivery
// to Receive again, which reuses the memory.
type Delivery struct {
	Topic, Payload []byte
	QoS            byte
	Retain         bool // published before the subscription
	Dup            bool // the broker sent it before
	Receipt        Receipt

	properties []byte
	buf        []byte
}

// User appends the user properties of MQTT 5 to dst; they point into the delivery.
func (d *Delivery) User(dst []tidemill.Field) []tidemill.Field {
	return appendUser(dst, d.properties)
}

// A Receipt acknowledges a delivery. It is valid for the connection that it came in on.
type Receipt struct {
	Session uint32 // counts the sessions at the broker: deliveries of an earlier one do not come again
	epoch   uint32
	id      uint16
	qos     byte
}

// ID is the packet id: an unacknowledged delivery that comes again in the same session has the
// same.
func (r Receipt) ID() uint16 { return r.id }

// Receive fills deliveries of into, in the order they came in, and returns how many. It waits
// for the first one. It returns early with an error when ctx ends or the client is closed.
// Deliveries stay unacknowledged until Ack: the broker sends at most Options.Inbox of them, and
// the rest waits at the broker.
//
// If a broker sends more (MQTT 3.1.1 has no limit, and some send all that waited in a session
// at once), the client stops reading until there is room. But while a caller waits for an
// answer to another request, the inbox grows, up to the 65,535 messages that packet ids allow.
func (c *Client) Receive(ctx context.Context, into []Delivery) (int, error) {
	return c.ReceiveOr(ctx, into, nil, nil)
}

// ReceiveOr is Receive, but returns 0 and no error when wake or due yields first.
func (c *Client) ReceiveOr(ctx context.Context, into []Delivery, wake <-chan struct{}, due <-chan time.Time) (int, error) {
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		c.mu.Lock()
		n, full := c.inbox.take(into)
		closing := c.closing
		c.mu.Unlock()
		if full {
			select {
			case c.room <- struct{}{}:
			default:
			}
		}
		switch {
		case n > 0:
			return n, nil
		case closing:
			return 0, errClosed
		}
		select {
		case <-c.arrive:
		case <-c.ended:
		case <-ctx.Done():
		case <-wake:
			return 0, nil
		case <-due:
			return 0, nil
		}
	}
}

// Ack tells the broker that deliveries are done, and returns how many of the receipts were
// valid. The others belong to a broken connection: the broker sends those messages again, if it
// kept the session.
func (c *Client) Ack(receipts ...Receipt) (good int) {
	c.mu.Lock()
	for i := range receipts {
		if c.ackOne(&receipts[i]) {
			good++
		}
	}
	l := c.link
	c.mu.Unlock()
	if good > 0 {
		l.signal()
	}
	return good
}

// AckEach is Ack, and appends to good which of the receipts were valid.
func (c *Client) AckEach(receipts []Receipt, good []bool) []bool {
	c.mu.Lock()
	for i := range receipts {
		good = append(good, c.ackOne(&receipts[i]))
	}
	l := c.link
	c.mu.Unlock()
	if l != nil {
		l.signal()
	}
	return good
}

// ackOne acknowledges one delivery, if its connection still exists; under mu.
func (c *Client) ackOne(r *Receipt) bool {
	if c.link == nil || r.epoch != c.epoch {
		return false
	}
	switch r.qos {
	case 1:
		c.out = appendAck(c.out, pubackBits, r.id)
	case 2:
		c.inbox.releasing[r.id] = true
		c.out = appendAck(c.out, pubrecBits, r.id)
	}
	return true
}

// accept puts a message into the inbox; false: it is full. Under mu.
func (c *Client) accept(l *link, in *incoming) bool {
	if in.qos == 2 && c.inbox.releasing[in.id] { // we have it: the broker does not know yet
		c.out = appendAck(c.out, pubrecBits, in.id)
		return true
	}
	if c.inbox.full() && !c.growInbox() {
		l.stalled.Store(true)
		return false
	}
	c.stats.Received++
	d := c.inbox.next()
	d.fill(in)
	d.Receipt = Receipt{Session: c.session, epoch: l.epoch, id: in.id, qos: in.qos}
	return true
}

// growInbox makes room while a caller waits for a broker's answer that may come behind the
// messages; under mu.
func (c *Client) growInbox() bool {
	return (len(c.requests.open) > 0 || c.inFlight > 0) && c.inbox.grow()
}

// unstall makes the reader check again whether the inbox may grow.
func (c *Client) unstall(l *link) {
	if l.stalled.Load() {
		select {
		case c.room <- struct{}{}:
		default:
		}
	}
}

// fill copies a message out of the read buffer.
func (d *Delivery) fill(in *incoming) {
	t, p, n := len(in.topic), len(in.properties), len(in.topic)+len(in.properties)+len(in.payload)
	if cap(d.buf) > keepBytes/16 && n < cap(d.buf)/4 { // a large message must not keep its memory in every slot of the ring
		d.buf = nil
	}
	b := append(append(append(d.buf[:0], in.topic...), in.properties...), in.payload...)
	d.buf, d.Topic, d.properties, d.Payload = b, b[:t:t], b[t:t+p:t+p], b[t+p:n:n]
	d.QoS, d.Retain, d.Dup = in.qos, in.retain, in.dup
}

// awaitRoom waits until the inbox has room.
func (c *Client) awaitRoom(ctx context.Context, l *link) error {
	defer l.stalled.Store(false)
	select {
	case <-c.room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
