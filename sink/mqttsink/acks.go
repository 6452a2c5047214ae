package mqttsink

import (
	"context"
	"time"
)

// Acks are what the receiver publishes about messages that it got, on its own topic. A
// bridge listens to them.
type Acks struct {
	client   *Client
	filter   Subscription
	into     []Delivery
	receipts []receipt
	over     bool // nothing more comes: read the rest without waiting
}

// NewAcks makes the acks of a topic. Nothing else may Receive from the client.
func NewAcks(client *Client, topic string, qos int) *Acks {
	return &Acks{client: client, filter: Subscription{Filter: topic, QoS: byte(qos)}, into: make([]Delivery, atOnce)}
}

// atOnce is how many payloads are read together.
const atOnce = 256

// Subscribe makes sure that acks come in from now on. It waits for the broker.
func (a *Acks) Subscribe(ctx context.Context) error { return a.client.Subscribe(ctx, a.filter) }

// Receive waits for payloads and calls each with every one; the bytes belong to each until
// it returns. It acknowledges them to the broker at once: if an ack is lost with this
// process its message stays unacknowledged, and is published again.
func (a *Acks) Receive(ctx context.Context, each func([]byte)) error {
	var now <-chan time.Time
	if a.over {
		passed := make(chan time.Time)
		close(passed)
		now, ctx = passed, context.WithoutCancel(ctx)
	}
	n, err := a.client.ReceiveOr(ctx, a.into, nil, now)
	a.receipts = a.receipts[:0]
	for k := range a.into[:n] {
		each(a.into[k].Payload)
		a.receipts = append(a.receipts, a.into[k].Receipt)
	}
	if n > 0 {
		a.client.Ack(a.receipts...)
	}
	return err
}

// Unsubscribe ends the subscription. Acks that came in before are still received, without
// waiting.
func (a *Acks) Unsubscribe(ctx context.Context) error {
	a.over = true
	return a.client.Unsubscribe(ctx, a.filter.Filter)
}
