package mqttbroker

import (
	"strings"
	"sync"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

const (
	// maxLevels is how many levels a topic or filter may have: each needs memory.
	maxLevels = 100
	// maxSubscriptions are of one session.
	maxSubscriptions = 1000
	// perTopic is about how many bytes a retained message needs in addition to its own, and
	// perLevel how many each level of its topic needs.
	perTopic = 512
	perLevel = 512
)

// bounds limit what stays without a connection: sessions and retained messages. The library has
// no limits.
type bounds struct {
	server       *mqtt.Server
	sessions     int
	retained     int
	retainedSize int64
	refused      atomic.Int64 // sessions, retained messages and subscriptions

	mu   sync.Mutex     // guards what follows; held for work in memory only
	kept map[string]int // size of each retained message
	size int64          // of all
}

func newBounds(server *mqtt.Server, o Options) *bounds {
	return &bounds{server: server, sessions: o.Sessions, retained: o.Retained, retainedSize: o.RetainedSize, kept: map[string]int{}}
}

// ends reports whether a client's session ends with its connection.
func ends(cl *mqtt.Client) bool {
	if cl.Properties.ProtocolVersion < 5 {
		return cl.Properties.Clean
	}
	return cl.Properties.Props.SessionExpiryInterval == 0
}

// session reports whether the session of a client that has just logged in may be kept. If there
// are too many the client is told so and disconnected: messages that wait in other sessions
// were acknowledged.
func (b *bounds) session(cl *mqtt.Client) bool {
	if old, ok := b.server.Clients.Get(cl.ID); ends(cl) || ok && !ends(old) {
		return true
	}
	n := 0
	for _, one := range b.server.Clients.GetAll() {
		if one.Closed() || !ends(one) {
			n++
		}
	}
	if n < b.sessions {
		return true
	}
	b.refused.Add(1)
	code := packets.ErrQuotaExceeded
	if cl.Properties.ProtocolVersion < 5 {
		code = packets.ErrServerUnavailable
	}
	_ = b.server.SendConnack(cl, code, false, nil)
	cl.Stop(code)
	return false
}

// tooMuch reports whether a packet exceeds the allowed subscriptions or levels.
func tooMuch(cl *mqtt.Client, p *packets.Packet) bool {
	switch p.FixedHeader.Type {
	case packets.Publish:
		return levels(p.TopicName) > maxLevels
	case packets.Subscribe:
		if cl.State.Subscriptions.Len()+len(p.Filters) > maxSubscriptions {
			return true
		}
		for i := range p.Filters {
			if levels(p.Filters[i].Filter) > maxLevels {
				return true
			}
		}
	}
	return false
}

func levels(topic string) int { return strings.Count(topic, "/") + 1 }

// keep counts a message to be retained, or reports that it has no room. One without a payload
// removes the earlier one.
func (b *bounds) keep(topic string, payload int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, known := b.kept[topic]
	size := retainedSize(topic, payload)
	switch {
	case payload == 0:
		delete(b.kept, topic)
		b.size -= int64(before)
		return true
	case !known && len(b.kept) >= b.retained, b.size+int64(size-before) > b.retainedSize:
		b.refused.Add(1)
		return false
	}
	b.kept[topic] = size
	b.size += int64(size - before)
	return true
}

func retainedSize(topic string, payload int) int {
	return payload + len(topic) + perTopic + levels(topic)*perLevel
}

// forget notes that a retained message is gone.
func (b *bounds) forget(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size -= int64(b.kept[topic])
	delete(b.kept, topic)
}

// recount counts the retained messages anew.
func (b *bounds) recount() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.size = map[string]int{}, 0
	for topic, p := range b.server.Topics.Retained.GetAll() {
		if !own(topic) {
			b.kept[topic] = retainedSize(topic, len(p.Payload))
			b.size += int64(b.kept[topic])
		}
	}
}

// will makes a client's will sendable: the library does not check it as other messages. Its
// delay ends with the session.
func (b *bounds) will(cl *mqtt.Client, w mqtt.Will) mqtt.Will {
	if ends(cl) {
		cl.Properties.Will.WillDelayInterval = 0
	} else if cl.Properties.ProtocolVersion == 5 {
		cl.Properties.Will.WillDelayInterval = min(cl.Properties.Will.WillDelayInterval, cl.Properties.Props.SessionExpiryInterval)
	}
	if own(w.TopicName) || levels(w.TopicName) > maxLevels || !mqtt.IsValidFilter(w.TopicName, true) {
		return mqtt.Will{} // to no topic: it is never sent
	}
	if w.Retain && !b.keep(w.TopicName, len(w.Payload)) {
		w.Retain = false
	}
	return w
}

// own reports whether a topic is the broker's own.
func own(topic string) bool { return strings.HasPrefix(topic, "$") }

// ofBroker reports whether a filter, shared or not, is for the broker's own topics.
func ofBroker(filter string) bool {
	if first, rest, ok := strings.Cut(filter, "/"); ok && strings.EqualFold(first, mqtt.SharePrefix) {
		_, filter, _ = strings.Cut(rest, "/")
	}
	first, _, _ := strings.Cut(filter, "/")
	return first == mqtt.SysPrefix
}
