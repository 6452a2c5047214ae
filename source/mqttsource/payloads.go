package mqttsource

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/mqttconn"
)

// Payloads reads what comes in on a topic, and nothing else of it, in batches: the lean way
// for acknowledgements from a far side. What was read counts as worked on when Read is
// called again, and is acknowledged to the broker then: whoever is slow makes the broker
// wait, at the client's Inbox, and nothing is dropped in between.
type Payloads struct {
	client   *mqttconn.Client
	filter   string
	into     []mqttconn.Delivery
	receipts []mqttconn.Receipt
}

// ReadPayloads subscribes; it has returned before the first message can be missed. The
// client must not be used for anything else that receives. Without a Session, what comes
// in while the connection is broken is gone.
func ReadPayloads(ctx context.Context, c *mqttconn.Client, filter string, qos byte) (*Payloads, error) {
	if err := c.Subscribe(ctx, mqttconn.Subscription{Filter: filter, QoS: qos}); err != nil {
		return nil, fmt.Errorf("read payloads of %q: %w", filter, err)
	}
	return &Payloads{client: c, filter: filter}, nil
}

// Read acknowledges what the last Read returned, waits for payloads and fills into with
// them, oldest first. They are good until the next Read. It returns early with an error
// when ctx ends or the client is closed.
func (p *Payloads) Read(ctx context.Context, into [][]byte) (int, error) {
	p.done()
	for len(p.into) < len(into) {
		p.into = append(p.into, mqttconn.Delivery{})
	}
	n, err := p.client.Receive(ctx, p.into[:len(into)])
	for i := range n {
		into[i] = p.into[i].Payload
		p.receipts = append(p.receipts, p.into[i].Receipt)
	}
	return n, err
}

// done acknowledges.
func (p *Payloads) done() {
	if len(p.receipts) > 0 {
		p.client.Ack(p.receipts...)
		p.receipts = p.receipts[:0]
	}
}

// Stop ends the subscription and acknowledges what the last Read returned. What came in
// before can still be read.
func (p *Payloads) Stop(ctx context.Context) error {
	p.done()
	return p.client.Unsubscribe(ctx, p.filter)
}
