// Package mqttsink delivers messages to an MQTT broker. Use it where devices or other
// systems read from topics.
//
//	clients, err := mqttconn.OpenSeveral(ctx, 1, brokers, mqttconn.Options{ClientID: "bridge"})
//	sink, err := mqttsink.New(clients, mqttsink.Options{QoS: mqttsink.AtLeastOnce})
//
// A message is delivered when the broker has acknowledged it: at QoS 1 by PUBACK, at QoS 2
// by PUBCOMP. At QoS 0 it is delivered when it is written to the socket, which promises
// nothing. An acknowledgement is the broker's, never the device's: if delivered has to mean
// the receiver, have the receiver acknowledge on its own topic.
package mqttsink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttconn"
)

// QoS is how surely a message arrives at the broker.
type QoS uint8

// The qualities of service. The zero value is AtLeastOnce, not QoS 0: leaving the field out
// loses no messages.
const (
	AtLeastOnce QoS = iota // QoS 1
	ExactlyOnce            // QoS 2, as far as mqttconn says
	AtMostOnce             // QoS 0: written to the socket
)

// ParseQoS reads MQTT's number of a QoS.
func ParseQoS(n int) (QoS, error) {
	switch n {
	case 0:
		return AtMostOnce, nil
	case 1:
		return AtLeastOnce, nil
	case 2:
		return ExactlyOnce, nil
	}
	return 0, fmt.Errorf("QoS is %d: want 0, 1 or 2", n)
}

var wire = [...]byte{AtLeastOnce: 1, ExactlyOnce: 2, AtMostOnce: 0}

// Options tune a sink; the zero value is ready to use.
type Options struct {
	// Topic of a message; nil means its To. An error fails the message. Data must not
	// choose topic levels: +, # and NUL are refused whatever Topic returns.
	Topic   func(*tidemill.Message) (string, error)
	QoS     QoS
	Retain  bool          // the broker keeps the last message of each topic
	Headers bool          // a message's Header becomes user properties, in MQTT 5; they must be UTF-8. Its Trace always does
	Expiry  time.Duration // how long the broker may keep a message for an absent receiver, in MQTT 5; 0: for ever
}

// Sink is a tidemill.Sink. Its Write may be called from several goroutines: they use the
// clients and their windows in turns, and none waits for another's acknowledgements.
type Sink struct {
	clients []*mqttconn.Client
	o       Options
	next    atomic.Uint32
	memory  sync.Pool // of *outgoing
}

// New makes a sink of connected clients, one or more. Use several where one connection does
// not saturate the broker, or its window is small. The sink does not close them.
func New(clients []*mqttconn.Client, o Options) (*Sink, error) {
	switch {
	case len(clients) == 0:
		return nil, errors.New("mqtt sink: it needs a client")
	case int(o.QoS) >= len(wire):
		return nil, fmt.Errorf("mqtt sink: QoS %d is none of AtLeastOnce, ExactlyOnce and AtMostOnce", o.QoS)
	case o.Expiry < 0:
		return nil, errors.New("mqtt sink: Expiry must not be negative")
	}
	if o.Topic == nil {
		o.Topic = func(m *tidemill.Message) (string, error) { return m.To, nil }
	}
	return &Sink{clients: clients, o: o, memory: sync.Pool{New: func() any { return new(outgoing) }}}, nil
}

// outgoing is the memory of one Write.
type outgoing struct {
	messages []mqttconn.Message
	index    []int // of the message in the batch, where some were left out
}

// Write publishes the batch in order and waits for the broker's acknowledgements. Nil means
// that it has all of them; a *tidemill.Partial names the others. The order also holds from
// one Write to the next, if one follows the other.
func (s *Sink) Write(ctx context.Context, batch []*tidemill.Message) error {
	o := s.memory.Get().(*outgoing)
	defer func() {
		clear(o.messages[:cap(o.messages)]) // keep nothing of the batch
		s.memory.Put(o)
	}()
	o.messages, o.index = o.messages[:0], o.index[:0]
	var failed []tidemill.Failed
	for i, m := range batch {
		topic, err := s.o.Topic(m)
		if err != nil {
			failed = append(failed, tidemill.Failed{Index: i, Err: err})
			continue
		}
		out := mqttconn.Message{Topic: topic, Payload: m.Payload, QoS: wire[s.o.QoS], Retain: s.o.Retain, Expiry: s.o.Expiry}
		if s.o.Headers {
			out.User = m.Header
		}
		out.User = m.Trace.Put(out.User)
		o.messages = append(o.messages, out)
		o.index = append(o.index, i)
	}
	err := s.client().Publish(ctx, o.messages)
	if len(failed) == 0 {
		return err
	}
	return join(failed, err, o.index)
}

// client is the next connected one, or just the next.
func (s *Sink) client() *mqttconn.Client {
	n := len(s.clients)
	first := int(s.next.Add(1)) % n
	for i := range n {
		c := s.clients[(first+i)%n]
		if up, _ := c.Up(); up {
			return c
		}
	}
	return s.clients[first]
}

// join makes one Partial of the messages without a topic and the client's errors about the
// others.
func join(failed []tidemill.Failed, err error, index []int) error {
	partly, ok := errors.AsType[*tidemill.Partial](err)
	switch {
	case ok:
		for _, f := range partly.Failed {
			failed = append(failed, tidemill.Failed{Index: index[f.Index], Err: f.Err})
		}
	case err != nil:
		for _, i := range index {
			failed = append(failed, tidemill.Failed{Index: i, Err: err})
		}
	}
	return &tidemill.Partial{Failed: failed}
}
