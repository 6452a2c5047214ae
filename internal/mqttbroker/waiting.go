package mqttbroker

import (
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// perMessage is about how many bytes a waiting message needs in addition to its topic and
// payload.
const perMessage = 512

func costOf(p *packets.Packet) int { return len(p.Payload) + len(p.TopicName) + perMessage }

// backlog counts the bytes of messages at QoS 1 and 2 that wait for the acknowledgement of
// their subscribers, once for each subscriber. Its owner's mutex guards it.
type backlog struct {
	of    map[*mqtt.Client]map[uint16]int // by packet id, as the library keeps them
	bytes int64
}

// add counts a message; one that is sent again counts once.
func (b *backlog) add(cl *mqtt.Client, p *packets.Packet) {
	if p.FixedHeader.Type != packets.Publish {
		return
	}
	of := b.of[cl]
	if of == nil {
		of = map[uint16]int{}
		b.of[cl] = of
	}
	b.bytes += int64(costOf(p) - of[p.PacketID])
	of[p.PacketID] = costOf(p)
}

// remove notes that a packet id no longer waits.
func (b *backlog) remove(cl *mqtt.Client, id uint16) {
	of := b.of[cl]
	b.bytes -= int64(of[id])
	if delete(of, id); len(of) == 0 {
		delete(b.of, cl)
	}
}

// forget notes that nothing of a client waits.
func (b *backlog) forget(cl *mqtt.Client) {
	for _, n := range b.of[cl] {
		b.bytes -= int64(n)
	}
	delete(b.of, cl)
}

// count recounts a client's messages: the library moves messages from session to session, and
// drops some silently.
func (b *backlog) count(cl *mqtt.Client) {
	b.forget(cl)
	for _, p := range cl.State.Inflight.GetAll(false) {
		b.add(cl, &p)
	}
}
