package mqttbroker

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

// gate lets in users, and messages for which there is room. The library would acknowledge
// a message first and drop it where a subscriber's queue is full.
type gate struct {
	mqtt.HookBase
	server   *mqtt.Server
	users    map[string]tidemill.Secret
	queue    int
	largest  uint32
	patience time.Duration
	held     atomic.Int64
	refused  atomic.Int64

	mu    sync.Mutex    // guards what follows
	freed chan struct{} // closed and made anew when a subscriber acknowledged or went
	waits bool          // a publisher waits for it
	over  bool
	taken map[string]int      // by subscriber: messages between OnPublish and OnPublished
	by    map[string][]string // by publisher: the subscribers of its message
}

func newGate(server *mqtt.Server, o Options) *gate {
	return &gate{server: server, users: o.Users, queue: o.Queue, largest: uint32(o.Packet), patience: o.Patience, freed: make(chan struct{}),
		taken: map[string]int{}, by: map[string][]string{}}
}

// ID names the hook in the library's log.
func (g *gate) ID() string { return "gate" }

// Provides says which of the library's hooks it is.
func (g *gate) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnPublish, mqtt.OnQosComplete, mqtt.OnQosDropped, mqtt.OnDisconnect, mqtt.OnPacketEncode,
		mqtt.OnSessionEstablish, mqtt.OnSessionEstablished, mqtt.OnPublished}, b) >= 0
}

// OnConnectAuthenticate lets in whoever has the password of a user; where there are no
// users, everybody.
func (g *gate) OnConnectAuthenticate(_ *mqtt.Client, p packets.Packet) bool {
	if len(g.users) == 0 {
		return true
	}
	want, known := g.users[string(p.Connect.Username)]
	// Of one length, so that the time says nothing.
	a, b := sha256.Sum256(p.Connect.Password), sha256.Sum256([]byte(want.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && known
}

// OnACLCheck lets whoever is in do everything, but for writing what is the broker's own.
func (g *gate) OnACLCheck(_ *mqtt.Client, topic string, write bool) bool {
	return !write || len(topic) == 0 || topic[0] != '$'
}

// OnSessionEstablish and OnSessionEstablished switch the library's own send quota off, at
// both moments when it is set: with it, every packet of a client searches the client's
// queue under a lock that it takes twice, which deadlocks with a writer between. The gate
// keeps to the client's receive maximum instead.
func (g *gate) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	cl.State.Inflight.ResetSendQuota(0)
}

// OnSessionEstablished is the second of these moments.
func (g *gate) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	cl.State.Inflight.ResetSendQuota(0)
}

// OnPublish holds a message at QoS 1 or 2 back until all its subscribers have room, and
// keeps that room until OnPublished.
func (g *gate) OnPublish(cl *mqtt.Client, p packets.Packet) (packets.Packet, error) {
	if p.FixedHeader.Qos == 0 {
		return p, nil
	}
	var timer *time.Timer
	for {
		freed, own, ok := g.reserve(p.TopicName, cl.ID)
		if ok {
			return p, nil
		}
		if freed == nil || own { // at the end; or to hold it back would hold back its acknowledgements too
			break
		}
		if timer == nil {
			g.held.Add(1)
			timer = time.NewTimer(g.patience)
			defer timer.Stop()
		}
		select {
		case <-freed:
			continue
		case <-timer.C:
		}
		if _, _, ok := g.reserve(p.TopicName, cl.ID); ok {
			return p, nil
		}
		break
	}
	g.refused.Add(1)
	return p, g.refuse(cl, p)
}

// OnPublished gives the reserved room back: the message is in it.
func (g *gate) OnPublished(cl *mqtt.Client, _ packets.Packet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release(cl.ID)
}

// refuse makes the publisher know: by the acknowledgement's reason in MQTT 5, else by
// ending the connection.
func (g *gate) refuse(cl *mqtt.Client, p packets.Packet) error {
	if cl.Properties.ProtocolVersion < 5 {
		_ = g.server.DisconnectClient(cl, packets.ErrQuotaExceeded)
		return packets.ErrRejectPacket
	}
	return packets.ErrQuotaExceeded
}

// reserve takes room for one message at every subscriber of a topic. Where one has none, it
// returns a channel that is closed when that may have changed, nil at the end, and says
// whether that one is the publisher itself.
func (g *gate) reserve(topic, publisher string) (freed <-chan struct{}, own, ok bool) {
	subs := g.server.Topics.Subscribers(topic)
	ids := make([]string, 0, len(subs.Subscriptions))
	for id, sub := range subs.Subscriptions {
		if sub.Qos > 0 {
			ids = append(ids, id)
		}
	}
	for _, group := range subs.Shared { // the library chooses one of the group
		for id, sub := range group {
			if sub.Qos > 0 {
				ids = append(ids, id)
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release(publisher) // what an error kept from being published
	for _, id := range ids {
		if !g.takes(id, publisher) {
			if g.over {
				return nil, false, false
			}
			g.waits = true
			return g.freed, id == publisher, false
		}
	}
	for _, id := range ids {
		g.taken[id]++
	}
	if len(ids) > 0 {
		g.by[publisher] = ids
	}
	return nil, false, true
}

// release gives back what was reserved for a publisher; under mu.
func (g *gate) release(publisher string) {
	for _, id := range g.by[publisher] {
		if g.taken[id]--; g.taken[id] == 0 {
			delete(g.taken, id)
		}
	}
	delete(g.by, publisher)
}

// takes says whether a subscriber can take one message more; under mu.
func (g *gate) takes(id, publisher string) bool {
	cl, ok := g.server.Clients.Get(id)
	if !ok {
		return true
	}
	most := g.queue
	if n := int(cl.Properties.Props.ReceiveMaximum); n > 0 && id != publisher && !cl.Closed() {
		most = min(most, n)
	}
	return cl.State.Inflight.Len()+g.taken[id] < most
}

// OnPacketEncode tells clients the largest packet, which the library does not.
func (g *gate) OnPacketEncode(_ *mqtt.Client, p packets.Packet) packets.Packet {
	if p.FixedHeader.Type == packets.Connack {
		p.Properties.MaximumPacketSize = g.largest
	}
	return p
}

// OnQosComplete notes that a client acknowledged.
func (g *gate) OnQosComplete(*mqtt.Client, packets.Packet) { g.wake() }

// OnQosDropped notes that a client's messages were let go.
func (g *gate) OnQosDropped(*mqtt.Client, packets.Packet) { g.wake() }

// OnDisconnect notes that a client went: one that is away may queue more.
func (g *gate) OnDisconnect(cl *mqtt.Client, _ error, _ bool) {
	g.mu.Lock()
	if !cl.IsTakenOver() {
		g.release(cl.ID)
	}
	g.mu.Unlock()
	g.wake()
}

func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waits && !g.over {
		g.waits = false
		close(g.freed)
		g.freed = make(chan struct{})
	}
}

// end lets everybody go.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.over = true
		close(g.freed)
	}
}
