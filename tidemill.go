// Package tidemill defines the terms that every other package uses: messages, how each of
// them ends, where they come from and where they go, and the books that account for them.
// It imports the standard library only.
//
// A [Source] hands out [Message]s and is told by a [Settlement] how each delivery ended.
// The engine (package flow) owns everything between: batches, order, retry, dead letters. A
// [Sink] makes messages durable at a destination. [Books] prove that nothing is missing:
//
//	accepted = delivered + skipped + dead + in flight (+ lost at the source)
//
// To read on: package flow runs a source through work; package systems/analytics is a whole
// system made of these parts; state/queue is a buffer that is a sink on one side and a
// source on the other.
package tidemill

import "time"

// A Message is one event. The engine owns it and its memory: a source fills it in Receive,
// and no code keeps it, or any slice of it, after its settlement.
type Message struct {
	ID       string    // its name at the source; the same at every redelivery
	Tenant   string    // the tenant that it belongs to; empty: none in particular
	Type     string    // what it is, in the producer's words
	To       string    // outgoing: topic, queue or index; incoming: where it came from
	Key      []byte    // messages of one key are worked on in order; empty: no order
	Payload  []byte    // as received, never modified; a source appends to Payload[:0] or points to its own memory
	Header   []Field   // flat, reused; no promise about order or uniqueness
	Time     time.Time // when it happened, or where that is not known, when it was accepted
	At       time.Time // not to be handed out before; zero: at once
	Priority uint8     // 0 is the lowest; the source decides what it means
	Tries    int       // failed tries, which the source remembers for us
	Handed   int       // how often it was handed out, this time included; the source's count
	Mark     Mark      // position and lease, for the source only
	Trace    *Trace    // under which what is made of it goes on; the engine sets it; nil: it is not followed
}

// Field is one header: a name and a value, bytes as received.
type Field struct{ Name, Value []byte }

// Get returns the first header of that name, or nil.
func (m *Message) Get(name string) []byte {
	for i := range m.Header {
		if string(m.Header[i].Name) == name {
			return m.Header[i].Value
		}
	}
	return nil
}

// Mark is the source's own note on a delivery: the message's position, and the lease under
// which it was handed out. Plain numbers, so that it costs no allocation and can be
// compared.
type Mark struct {
	Shard  uint32 // partition, slot or queue
	Epoch  uint32 // lease: a settlement under an older one is Stale
	Hi, Lo uint64 // position: one per acceptance, the same at every redelivery
}

// At says whether two marks name the same position, whatever their leases.
func (m Mark) At(o Mark) bool { return m.Shard == o.Shard && m.Hi == o.Hi && m.Lo == o.Lo }
