package bridge

import "github.com/tidemill/tidemill"

// Rehearsed is what would become of an entry.
type Rehearsed struct {
	Fate    tidemill.Fate // Delivered: it is published; with an ack topic an ack has still to come
	Why     string        // of another fate; of None, why it would be tried again
	Topic   string
	Payload []byte
}

// Rehearse frames an entry and finds its topic, as it is published. Nothing is sent.
func (b *Bridge) Rehearse(m *tidemill.Message) Rehearsed {
	topic, err := b.topic.of(m)
	if err != nil {
		return Rehearsed{Fate: b.o.rules().Fate(tidemill.KindOf(err)), Why: err.Error()}
	}
	return Rehearsed{Fate: tidemill.Delivered, Topic: topic, Payload: appendMessage(nil, m)}
}
