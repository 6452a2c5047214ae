package mqttconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

// A Subscription is a topic filter and the highest wanted QoS.
type Subscription struct {
	Filter string // with wildcards + and #; $share/<group>/<filter> shares with other clients
	QoS    byte
}

// request is a SUBSCRIBE or UNSUBSCRIBE that waits for its answer.
type request struct {
	what  string
	again bool // made by the client itself on a new connection
	err   error
	done  chan struct{}
}

// Subscribe subscribes and waits for the broker's answer. From then on every connection begins
// with the same subscriptions; Receive reads what comes in. If one is refused, none is kept.
func (c *Client) Subscribe(ctx context.Context, subs ...Subscription) error {
	if len(subs) == 0 {
		return nil
	}
	var names []string
	for _, s := range subs {
		if err := CheckFilter(s.Filter); err != nil {
			return err
		}
		if s.QoS > 2 {
			return tidemill.Fail(tidemill.Validation, "QoS of the subscription to %q is %d: want 0, 1 or 2", s.Filter, s.QoS)
		}
		names = append(names, s.Filter)
	}
	what := "the subscription to " + strings.Join(names, ", ")
	return c.ask(ctx, what, func(l *link, id uint16) ([]byte, error) { return subscribePacket(l, id, subs, false) }, func() {
		for _, s := range subs {
			c.subs = append(slices.DeleteFunc(c.subs, func(o Subscription) bool { return o.Filter == s.Filter }), s)
		}
	})
}

// Unsubscribe ends subscriptions and waits for the broker's answer. Messages that came in
// before can still be read.
func (c *Client) Unsubscribe(ctx context.Context, filters ...string) error {
	if len(filters) == 0 {
		return nil
	}
	return c.ask(ctx, "to end the subscription to "+strings.Join(filters, ", "), func(l *link, id uint16) ([]byte, error) {
		p := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe, Qos: 1}, ProtocolVersion: l.version, PacketID: id}
		for _, f := range filters {
			p.Filters = append(p.Filters, packets.Subscription{Filter: f})
		}
		var b bytes.Buffer
		err := p.UnsubscribeEncode(&b)
		return b.Bytes(), err
	}, func() {
		c.subs = slices.DeleteFunc(c.subs, func(s Subscription) bool { return slices.Contains(filters, s.Filter) })
	})
}

func subscribePacket(l *link, id uint16, subs []Subscription, again bool) ([]byte, error) {
	p := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, ProtocolVersion: l.version, PacketID: id}
	for _, s := range subs {
		f := packets.Subscription{Filter: s.Filter, Qos: s.QoS}
		if again {
			f.RetainHandling = 1 // retained messages come only if the subscription is new to the broker
		}
		p.Filters = append(p.Filters, f)
	}
	var b bytes.Buffer
	err := p.SubscribeEncode(&b)
	return b.Bytes(), err
}

// ask sends a request and waits for its answer, on the next connection if this one breaks. keep
// is called under mu when the answer is success.
func (c *Client) ask(ctx context.Context, what string, encode func(*link, uint16) ([]byte, error), keep func()) error {
	for {
		if err := c.Wait(ctx); err != nil {
			return err
		}
		r := &request{what: what, done: make(chan struct{})}
		c.mu.Lock()
		l := c.link
		if l == nil {
			c.mu.Unlock()
			continue
		}
		id := c.requests.add(r)
		packet, err := encode(l, id)
		if err != nil {
			c.requests.end(id)
			c.mu.Unlock()
			return fmt.Errorf("encode %s: %w", what, err)
		}
		c.out = append(c.out, packet...)
		c.mu.Unlock()
		l.signal()
		c.unstall(l)
		select {
		case <-r.done:
		case <-ctx.Done():
			c.mu.Lock()
			c.requests.end(id)
			c.mu.Unlock()
			return endOf(ctx, "the MQTT broker does not answer "+what)
		}
		if errors.Is(r.err, errRequestLost) {
			continue
		}
		if r.err == nil {
			c.mu.Lock()
			keep()
			c.mu.Unlock()
		}
		return r.err
	}
}

// requests are those that wait for their answers, by packet id. Their ids are above those of
// messages. The client's mu guards them.
type requests struct {
	open   map[uint16]*request
	lastID uint16
}

// add gives a request an id.
func (q *requests) add(r *request) uint16 {
	for {
		if q.lastID++; q.lastID <= maxWindow { // it wrapped around
			q.lastID = maxWindow + 1
		}
		if q.open[q.lastID] == nil {
			q.open[q.lastID] = r
			return q.lastID
		}
	}
}

// end returns the request of an id, which waits no longer; nil: none does.
func (q *requests) end(id uint16) *request {
	r := q.open[id]
	delete(q.open, id)
	return r
}

var errRequestLost = errors.New("the connection broke")

// fail ends requests that will not be answered.
func (q *requests) fail() {
	for id, r := range q.open {
		delete(q.open, id)
		if !r.again {
			r.err = errRequestLost
			close(r.done)
		}
	}
}

// resubscribe makes the subscriptions of earlier connections again; under mu. A surviving
// session of MQTT 3.1.1 has them, and would repeat retained messages.
func (c *Client) resubscribe(l *link) {
	if len(c.subs) == 0 || l.present && l.version < 5 {
		return
	}
	r := &request{what: "to renew subscriptions", again: true}
	if packet, err := subscribePacket(l, c.requests.add(r), c.subs, true); err == nil { // it was encoded before
		c.out = append(c.out, packet...)
	}
}

// answered ends a request. If a subscription is not renewed, the connection ends: without it
// nothing would seem to come in.
func (c *Client) answered(id uint16, codes []byte, text string) error {
	c.mu.Lock()
	r := c.requests.end(id)
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	for _, code := range codes {
		if code >= firstError {
			r.err = refusal(r.what, code, c.redact(text))
			if code == firstError { // MQTT 3.1.1 says no more
				r.err = tidemill.Fail(tidemill.Credentials, "%w", errors.Unwrap(r.err))
			}
			break
		}
	}
	if r.again {
		return r.err
	}
	close(r.done)
	return nil
}
