//go:build unix

package bridgetest

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/tidwall/gjson"
)

// broker is an MQTT broker that remembers what it saw, and does what a test tells it. It
// is the receiver too: it answers messages with acks.
type broker struct {
	t        testing.TB
	listener net.Listener
	URL      string

	mu     sync.Mutex // guards all below
	deaf   bool       // takes connections, and says nothing
	slams  bool       // ends connections without a word
	old    bool       // speaks MQTT 3.1.1 alone
	stuck  bool       // reads nothing after SUBSCRIBE and CONNECT
	silent bool       // keeps acknowledgements back
	code   func(published) byte
	far    func(id string) string // the ack to a message; empty: none

	dialled  []time.Time
	hellos   []packets.Packet
	got      []published
	subs     []packets.Subscription
	pings    int
	partings int // connections that ended
	back     []func()
	unacked  int
	most     int // unacknowledged at once
	conns    map[*session]bool
}

// published is a message that the broker got.
type published struct {
	Topic, Payload, Client string
	QoS                    byte
	Retain                 bool
	At                     time.Time
}

// ID is the entry's that the message is made of.
func (p published) ID() string { return gjson.Get(p.Payload, "redis.payload.id").String() }

// session is one connection.
type session struct {
	b       *broker
	conn    net.Conn
	version byte
	client  string
	topics  []string
	mu      sync.Mutex // of writes
}

// newBroker starts one, by TLS where there is a config.
func newBroker(t testing.TB, config *tls.Config) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, listener: l, URL: "tcp://" + l.Addr().String(), conns: map[*session]bool{}}
	if config != nil {
		b.listener, b.URL = tls.NewListener(l, config), "tls://"+l.Addr().String()
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := b.listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.serve(&session{b: b, conn: conn, version: 5}) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.cut()
		serving.Wait()
	})
	return b
}

// set changes what it does.
func (b *broker) set(do func()) { b.mu.Lock(); defer b.mu.Unlock(); do() }

// cut ends all connections.
func (b *broker) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.conns {
		_ = s.conn.Close()
	}
}

// speak lets a silent broker say what it kept back.
func (b *broker) speak() {
	b.mu.Lock()
	b.silent = false
	back := b.back
	b.back = nil
	b.mu.Unlock()
	for _, say := range back {
		say()
	}
}

func (b *broker) serve(s *session) {
	b.mu.Lock()
	b.conns[s] = true
	b.dialled = append(b.dialled, time.Now())
	slams := b.slams
	b.mu.Unlock()
	defer func() {
		_ = s.conn.Close()
		b.mu.Lock()
		delete(b.conns, s)
		b.partings++
		b.mu.Unlock()
	}()
	if slams {
		return
	}
	in := bufio.NewReader(s.conn)
	for {
		first, err := in.ReadByte()
		if err != nil {
			return
		}
		n, err := binary.ReadUvarint(in)
		if err != nil || n > 1<<28 {
			return
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		if !s.take(first, body) {
			return
		}
		b.mu.Lock()
		stuck := b.stuck && first>>4 == packets.Publish
		b.mu.Unlock()
		if stuck { // reads no more, until the other one has enough
			<-s.ended()
			return
		}
	}
}

// ended tells that the other side closed a connection that is not read.
func (s *session) ended() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C { // writing is the only way to learn of it without reading
			if err := s.send([]byte{0xD0, 0}); err != nil {
				return
			}
		}
	}()
	return done
}

// take works on one packet; false ends the connection.
func (s *session) take(first byte, body []byte) bool {
	b := s.b
	pk := packets.Packet{ProtocolVersion: s.version, FixedHeader: packets.FixedHeader{Type: first >> 4, Remaining: len(body),
		Dup: first&8 != 0, Qos: first >> 1 & 3, Retain: first&1 != 0}}
	switch pk.FixedHeader.Type {
	case packets.Connect:
		if err := pk.ConnectDecode(body); err != nil {
			b.t.Errorf("CONNECT: %v", err)
			return false
		}
		b.mu.Lock()
		b.hellos = append(b.hellos, pk)
		deaf, old := b.deaf, b.old
		b.mu.Unlock()
		switch s.version, s.client = pk.ProtocolVersion, pk.Connect.ClientIdentifier; {
		case deaf:
			return true
		case old && s.version > 4:
			_ = s.send([]byte{0x20, 2, 0, 1})
			return false
		case s.version > 4:
			return s.send([]byte{0x20, 3, 0, 0, 0}) == nil
		}
		return s.send([]byte{0x20, 2, 0, 0}) == nil
	case packets.Subscribe:
		if err := pk.SubscribeDecode(body); err != nil {
			b.t.Errorf("SUBSCRIBE: %v", err)
			return false
		}
		b.mu.Lock()
		b.subs = append(b.subs, pk.Filters...)
		for _, f := range pk.Filters {
			s.topics = append(s.topics, f.Filter)
		}
		b.mu.Unlock()
		return s.answer(0x90, pk.PacketID, pk.Filters[0].Qos) == nil
	case packets.Unsubscribe:
		id := binary.BigEndian.Uint16(body)
		b.mu.Lock()
		s.topics = nil
		b.mu.Unlock()
		return s.answer(0xB0, id, 0) == nil
	case packets.Publish:
		if err := pk.PublishDecode(body); err != nil {
			b.t.Errorf("PUBLISH: %v", err)
			return false
		}
		s.publish(pk)
	case packets.Pubrel:
		return s.send([]byte{0x70, 2, body[0], body[1]}) == nil
	case packets.Pingreq:
		b.mu.Lock()
		b.pings++
		b.mu.Unlock()
		return s.send([]byte{0xD0, 0}) == nil
	case packets.Disconnect:
		return false
	}
	return true
}

// publish takes a message, and acknowledges and answers it as the broker is told.
func (s *session) publish(pk packets.Packet) {
	b := s.b
	p := published{pk.TopicName, string(pk.Payload), s.client, pk.FixedHeader.Qos, pk.FixedHeader.Retain, time.Now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, p)
	b.unacked++
	b.most = max(b.most, b.unacked)
	code := byte(0)
	if b.code != nil {
		code = b.code(p)
	}
	ack := func() {
		b.set(func() { b.unacked-- })
		switch {
		case p.QoS == 0:
		case p.QoS == 1 || code >= 0x80:
			_ = s.acknowledge(0x30+p.QoS<<4, pk.PacketID, code)
		default:
			_ = s.acknowledge(0x50, pk.PacketID, 0)
		}
	}
	if b.silent && p.QoS > 0 {
		b.back = append(b.back, ack)
		return
	}
	answer := ""
	if id := p.ID(); b.far != nil && code == 0 && id != "" {
		answer = b.far(id)
	}
	go func() {
		ack()
		if answer != "" {
			b.say(answer)
		}
	}()
}

// say publishes an ack, as it is, to whoever subscribed to a topic.
func (b *broker) say(ack string) {
	b.mu.Lock()
	var to []*session
	topics := map[*session]string{}
	for s := range b.conns {
		if len(s.topics) > 0 {
			to, topics[s] = append(to, s), s.topics[0]
		}
	}
	b.mu.Unlock()
	for _, s := range to {
		body := append(binary.BigEndian.AppendUint16(nil, uint16(len(topics[s]))), topics[s]...)
		if s.version > 4 {
			body = append(body, 0)
		}
		body = append(body, ack...)
		_ = s.send(append(binary.AppendUvarint([]byte{0x30}, uint64(len(body))), body...))
	}
}

func (s *session) send(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.conn.Write(p)
	return err
}

// answer is SUBACK or UNSUBACK.
func (s *session) answer(kind byte, id uint16, code byte) error {
	body := []byte{byte(id >> 8), byte(id)}
	if s.version > 4 {
		body = append(body, 0)
	}
	if kind == 0x90 || s.version > 4 {
		body = append(body, code)
	}
	return s.send(append([]byte{kind, byte(len(body))}, body...))
}

func (s *session) acknowledge(kind byte, id uint16, code byte) error {
	if code == 0 || s.version < 5 {
		return s.send([]byte{kind, 2, byte(id >> 8), byte(id)})
	}
	return s.send([]byte{kind, 3, byte(id >> 8), byte(id), code})
}

// messages are those made of entries.
func (b *broker) messages() []published {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.got), func(p published) bool { return p.ID() == "" })
}

// letters are those for the dead.
func (b *broker) letters() []published {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.got), func(p published) bool { return !strings.Contains(p.Payload, `"original_message"`) })
}

// distinct is how many entries came in.
func (b *broker) distinct() int {
	seen := map[string]bool{}
	for _, p := range b.messages() {
		seen[p.ID()] = true
	}
	return len(seen)
}

// look reads a number under the lock.
func (b *broker) look(n *int) int { b.mu.Lock(); defer b.mu.Unlock(); return *n }

func (b *broker) dials() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.dialled)
}

// hello is the first CONNECT that came in.
func (b *broker) hello() packets.Packet {
	b.t.Helper()
	var first packets.Packet
	eventually(b.t, "somebody connects", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.hellos) == 0 {
			return false
		}
		first = b.hellos[0]
		return true
	})
	return first
}

// yes and no are acks.
func yes(id string) string { return `{"id":"` + id + `","ack":true}` }
func no(id string) string  { return `{"id":"` + id + `","ack":false}` }
