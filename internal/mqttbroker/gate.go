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
	"github.com/mochi-mqtt/server/v2/system"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sockets"
)

// gate admits users, and messages that have room. The library would acknowledge a message first
// and drop it if a subscriber's queue is full.
type gate struct {
	mqtt.HookBase
	server   *mqtt.Server
	users    map[string]tidemill.Secret
	queue    int
	bytes    int64
	largest  uint32
	admin    string
	bounds   *bounds
	patience time.Duration
	held     atomic.Int64
	refused  atomic.Int64

	mu      sync.Mutex    // guards what follows
	freed   chan struct{} // closed and replaced when a subscriber acknowledged or went
	waits   bool          // a publisher waits for it
	over    bool
	taken   map[string]int      // by subscriber: messages between OnPublish and OnPublished
	by      map[string][]string // by publisher: the subscribers of its message
	sized   map[string]int64    // by publisher: the bytes of its message, for all subscribers
	sizes   int64               // of all publishers
	waiting backlog
}

func newGate(server *mqtt.Server, o Options) *gate {
	return &gate{server: server, users: o.Users, queue: o.Queue, bytes: o.Waiting, admin: o.Admin, bounds: newBounds(server, o), largest: uint32(o.Packet), patience: o.Patience, freed: make(chan struct{}),
		taken: map[string]int{}, by: map[string][]string{}, sized: map[string]int64{}, waiting: backlog{of: map[*mqtt.Client]map[uint16]int{}}}
}

// ID names the hook in the library's log.
func (g *gate) ID() string { return "gate" }

// Provides reports which of the library's hooks it implements.
func (g *gate) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnPublish, mqtt.OnQosComplete, mqtt.OnQosDropped, mqtt.OnDisconnect, mqtt.OnPacketEncode,
		mqtt.OnSessionEstablish, mqtt.OnSessionEstablished, mqtt.OnPublished, mqtt.OnPacketRead, mqtt.OnQosPublish, mqtt.OnRetainedExpired,
		mqtt.OnWill, mqtt.OnClientExpired, mqtt.OnSysInfoTick}, b) >= 0
}

// OnConnectAuthenticate admits a client with the password of a user, or any client if there are
// no users. Either way its session must have room.
func (g *gate) OnConnectAuthenticate(cl *mqtt.Client, p packets.Packet) bool {
	return g.knows(&p) && g.bounds.session(cl)
}

func (g *gate) knows(p *packets.Packet) bool {
	if len(g.users) == 0 {
		return true
	}
	want, known := g.users[string(p.Connect.Username)]
	// Of one length, so that the time reveals nothing.
	a, b := sha256.Sum256(p.Connect.Password), sha256.Sum256([]byte(want.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && known
}

// OnACLCheck allows a logged-in client everything, except writing the broker's own topics, and
// reading them, which is for the administrator.
func (g *gate) OnACLCheck(cl *mqtt.Client, topic string, write bool) bool {
	if write {
		return !own(topic)
	}
	return !ofBroker(topic) || g.admin != "" && string(cl.Properties.Username) == g.admin
}

// OnPacketRead ends the connection of a client that exceeds the limits.
func (g *gate) OnPacketRead(cl *mqtt.Client, p packets.Packet) (packets.Packet, error) {
	if !tooMuch(cl, &p) {
		return p, nil
	}
	g.bounds.refused.Add(1)
	_ = g.server.DisconnectClient(cl, packets.ErrQuotaExceeded)
	return p, packets.ErrRejectPacket
}

// OnSessionEstablish and OnSessionEstablished switch off the library's own send quota, at both
// moments when it is set: with it, every packet of a client searches the client's queue under a
// lock taken twice, which deadlocks with a writer in between. The gate enforces the client's
// receive maximum instead. From here on the client is logged in.
func (g *gate) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	cl.State.Inflight.ResetSendQuota(0)
	if c, ok := cl.Net.Conn.(*begun); ok {
		c.Vouch()
		c.Mark(sockets.Busy)
	}
}

// OnSessionEstablished is the second of these moments.
func (g *gate) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	cl.State.Inflight.ResetSendQuota(0)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting.count(cl)
}

// OnPublish holds a message at QoS 1 or 2 back until all its subscribers have room, and
// keeps that room until OnPublished. One that cannot be retained is refused, or at QoS 0 not
// retained.
func (g *gate) OnPublish(cl *mqtt.Client, p packets.Packet) (packets.Packet, error) {
	if p.FixedHeader.Qos > 0 {
		if err := g.room(cl, &p); err != nil {
			return p, err
		}
	}
	switch {
	case !p.FixedHeader.Retain, g.bounds.keep(p.TopicName, len(p.Payload)):
		return p, nil
	case p.FixedHeader.Qos == 0:
		p.FixedHeader.Retain = false
		return p, nil
	}
	g.mu.Lock()
	g.release(cl.ID)
	g.mu.Unlock()
	return p, g.refuse(cl)
}

// room waits until a message has room, and reserves it.
func (g *gate) room(cl *mqtt.Client, p *packets.Packet) error {
	var timer *time.Timer
	for {
		freed, own, ok := g.reserve(p, cl.ID)
		if ok {
			return nil
		}
		if freed == nil || own { // at the end; or because holding it back would also hold back its acknowledgements
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
		if _, _, ok := g.reserve(p, cl.ID); ok {
			return nil
		}
		break
	}
	g.refused.Add(1)
	return g.refuse(cl)
}

// OnPublished releases the reserved room: the message is in it.
func (g *gate) OnPublished(cl *mqtt.Client, _ packets.Packet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release(cl.ID)
}

// refuse tells the publisher: by the acknowledgement's reason in MQTT 5, else by ending the
// connection.
func (g *gate) refuse(cl *mqtt.Client) error {
	if cl.Properties.ProtocolVersion < 5 {
		_ = g.server.DisconnectClient(cl, packets.ErrQuotaExceeded)
		return packets.ErrRejectPacket
	}
	return packets.ErrQuotaExceeded
}

// reserve reserves room for one message at every subscriber of its topic, and within the limit
// for all. If there is none, it returns a channel that is closed when that may have changed,
// nil at the end, and whether the full subscriber is the publisher itself.
func (g *gate) reserve(p *packets.Packet, publisher string) (freed <-chan struct{}, own, ok bool) {
	subs := g.server.Topics.Subscribers(p.TopicName)
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
	g.release(publisher) // left over from a message that an error stopped
	for _, id := range ids {
		if !g.takes(id, publisher) {
			if g.over {
				return nil, false, false
			}
			g.waits = true
			return g.freed, id == publisher, false
		}
	}
	need := int64(len(ids) * costOf(p))
	if all := g.waiting.bytes + g.sizes; all > 0 && need > 0 && all+need > g.bytes { // a single message may be larger
		if g.over {
			return nil, false, false
		}
		g.waits = true
		return g.freed, false, false
	}
	for _, id := range ids {
		g.taken[id]++
	}
	if len(ids) > 0 {
		g.by[publisher], g.sized[publisher] = ids, need
		g.sizes += need
	}
	return nil, false, true
}

// release releases what was reserved for a publisher; under mu.
func (g *gate) release(publisher string) {
	for _, id := range g.by[publisher] {
		if g.taken[id]--; g.taken[id] == 0 {
			delete(g.taken, id)
		}
	}
	g.sizes -= g.sized[publisher]
	delete(g.by, publisher)
	delete(g.sized, publisher)
}

// takes reports whether a subscriber has room for one more message; under mu.
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

// OnQosPublish counts a message that waits for its acknowledgement.
func (g *gate) OnQosPublish(cl *mqtt.Client, p packets.Packet, _ int64, _ int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting.add(cl, &p)
}

// OnQosComplete notes that a client acknowledged.
func (g *gate) OnQosComplete(cl *mqtt.Client, p packets.Packet) { g.settled(cl, &p) }

// OnQosDropped notes that a client's messages were dropped.
func (g *gate) OnQosDropped(cl *mqtt.Client, p packets.Packet) { g.settled(cl, &p) }

func (g *gate) settled(cl *mqtt.Client, p *packets.Packet) {
	g.mu.Lock()
	g.waiting.remove(cl, p.PacketID)
	g.mu.Unlock()
	g.wake()
}

// OnWill makes a will sendable.
func (g *gate) OnWill(cl *mqtt.Client, w mqtt.Will) (mqtt.Will, error) {
	return g.bounds.will(cl, w), nil
}

// OnRetainedExpired notes that a retained message is gone.
func (g *gate) OnRetainedExpired(topic string) { g.bounds.forget(topic) }

// OnClientExpired removes a session's subscriptions, which the library leaves.
func (g *gate) OnClientExpired(cl *mqtt.Client) {
	if now, ok := g.server.Clients.Get(cl.ID); ok && now == cl {
		g.server.UnsubscribeClient(cl)
	}
	g.mu.Lock()
	g.waiting.forget(cl)
	g.mu.Unlock()
	g.wake()
}

// OnSysInfoTick recounts all waiting and retained messages from time to time: the library drops
// some of them silently.
func (g *gate) OnSysInfoTick(*system.Info) {
	g.bounds.recount()
	clients := g.server.Clients.GetAll()
	g.mu.Lock()
	g.waiting = backlog{of: map[*mqtt.Client]map[uint16]int{}}
	for _, cl := range clients {
		g.waiting.count(cl)
	}
	g.mu.Unlock()
	g.wake()
}

// inMemory are the bytes that wait, and the retained ones.
func (g *gate) inMemory() (waiting, retained int64) {
	g.mu.Lock()
	waiting = g.waiting.bytes
	g.mu.Unlock()
	g.bounds.mu.Lock()
	defer g.bounds.mu.Unlock()
	return waiting, g.bounds.size
}

// OnDisconnect notes that a client went: an absent one may queue more.
func (g *gate) OnDisconnect(cl *mqtt.Client, _ error, _ bool) {
	g.mu.Lock()
	if cl.IsTakenOver() {
		g.waiting.forget(cl)
	} else {
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

// end ends all waits.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.over = true
		close(g.freed)
	}
}
