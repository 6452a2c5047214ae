// Package mqttconn is a connection to an MQTT broker, 5 or 3.1.1, for heavy publishers and
// readers: sinks, sources and the acknowledgements of a bridge.
//
//	c, err := mqttconn.Open(ctx, []string{"tcp://localhost:1883"}, mqttconn.Options{ClientID: "bridge"})
//	err = c.Publish(ctx, []mqttconn.Message{{Topic: "devices/7", Payload: p, QoS: 1}})
//	err = c.Subscribe(ctx, mqttconn.Subscription{Filter: "acks", QoS: 1})
//	n, err := c.Receive(ctx, into)
//
// A batch is one call: its messages share writes, acknowledgements are read in bulk, and
// no message costs a goroutine. Callers share the window of messages in flight in turns.
//
// # What holds when a connection breaks
//
// The client connects again by itself and makes its subscriptions again before it sends
// anything else. Options.Session decides what happens to messages that were published and not
// acknowledged:
//
//   - Zero (a clean session): it is reported at once as tidemill.Unknown. The broker may
//     have it, so publishing it again may double it, at QoS 2 too.
//   - Above zero, and the broker still has the session: it is sent again under its packet
//     id as long as its caller waits. At QoS 2 the broker then takes it exactly once. A
//     caller that stopped waiting is told Unknown, and its packet id is released before it
//     is used again, so that no later message is taken for the earlier one.
//   - Above zero, but the broker forgot the session: Unknown, as in the first case.
//
// At QoS 0 success means that the message was written to the socket, and promises nothing.
// An MQTT 3.1.1 broker cannot refuse a message: one that its rules forbid is acknowledged
// and dropped, or the connection is closed.
//
// Some brokers confuse the packet ids of both directions: use one client to publish and another
// one to subscribe if both are busy.
package mqttconn
