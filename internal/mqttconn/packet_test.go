package mqttconn

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

// A library must read what is written by hand, and the reverse.
func TestPublishAsALibraryReadsIt(t *testing.T) {
	for _, m := range []Message{
		{Topic: "a", Payload: []byte("p")},
		{Topic: "a/b", QoS: 1, Retain: true},
		{Topic: "ü", QoS: 2, Payload: bytes.Repeat([]byte("x"), 200_000)},
		{Topic: "t", QoS: 1, Payload: []byte{0}, Expiry: 1500 * time.Millisecond, ContentType: "text/plain",
			User: []tidemill.Field{{Name: []byte("a"), Value: []byte("1")}, {Name: []byte("a"), Value: nil}}},
	} {
		for _, version := range []byte{4, 5} {
			name := fmt.Sprintf("%s, MQTT %d", m.Topic, version)
			raw := appendPublish(nil, &m, 513, m.QoS > 0, version)
			body, size, _, err := cut(raw, 1<<28)
			if err != nil || size != len(raw) {
				t.Fatalf("%s: cut %d of %d bytes, %v", name, size, len(raw), err)
			}
			p := packets.Packet{ProtocolVersion: version}
			if err := p.FixedHeader.Decode(raw[0]); err != nil {
				t.Fatal(err)
			}
			p.FixedHeader.Remaining = len(body)
			if err := p.PublishDecode(bytes.Clone(body)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if p.TopicName != m.Topic || !bytes.Equal(p.Payload, m.Payload) || p.FixedHeader.Qos != m.QoS || p.FixedHeader.Retain != m.Retain ||
				m.QoS > 0 && p.PacketID != 513 {
				t.Errorf("%s: the library reads %+v", name, p)
			}
			if version == 5 && (p.Properties.ContentType != m.ContentType || len(p.Properties.User) != len(m.User) ||
				p.Properties.MessageExpiryInterval != seconds(m.Expiry)) {
				t.Errorf("%s: the library reads properties %+v", name, p.Properties)
			}
			in, err := parsePublish(raw[0], body, version)
			if err != nil || string(in.topic) != m.Topic || !bytes.Equal(in.payload, m.Payload) || in.qos != m.QoS || in.retain != m.Retain || in.dup != (m.QoS > 0) {
				t.Errorf("%s: read as %+v, %v", name, in, err)
			}
			user := appendUser(nil, in.properties)
			if version == 5 && fmt.Sprint(user) != fmt.Sprint(m.User) {
				t.Errorf("%s: user properties %s, want %s", name, user, m.User)
			}
		}
	}
}

// FuzzPackets feeds a client anything that a broker may send.
func FuzzPackets(f *testing.F) {
	m := Message{Topic: "t", Payload: []byte("p"), QoS: 2, User: []tidemill.Field{{Name: []byte("a"), Value: []byte("b")}}}
	for _, version := range []byte{4, 5} {
		f.Add(appendPublish(nil, &m, 7, false, version), version)
		for _, kind := range []byte{pubackBits, pubrecBits, pubrelBits, pubcompBits} {
			f.Add(appendAck(nil, kind, 1), version)
			f.Add([]byte{kind, 8, 0, 1, 0x87, 4, 0x1f, 0, 1, 'x'}, version)
		}
		f.Add([]byte{0x90, 3, 0xea, 0x61, 1, 0x90, 4, 0xea, 0x61, 0, 0x87, 0xb0, 2, 0xea, 0x61}, version)
		f.Add([]byte{0xD0, 0, 0xE0, 0, 0xE0, 1, 0x8b, 0xE0, 3, 0x8b, 1, 2}, version)
	}
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 0x7f}, byte(5))
	f.Fuzz(func(t *testing.T, raw []byte, version byte) {
		version = 4 + version%2
		c, err := prepare([]string{"x"}, Options{Version: version, Window: 10, Inbox: 5})
		if err != nil {
			t.Fatal(err)
		}
		l := &link{version: version, quota: 10, maxQoS: 2, retain: true, wake: make(chan struct{}, 1), buf: raw, to: len(raw)}
		b := &batch{msgs: messages(8, 2), left: 8, done: make(chan struct{}, 1)}
		b.msgs[0].QoS, b.msgs[1].QoS = 1, 1
		c.queue, c.waiting, c.link = []*batch{b}, 8, l
		c.requests.add(&request{what: "x", done: make(chan struct{})})
		c.pump()
		for {
			full, rare, err := c.takeSome(l)
			if rare {
				err = c.takeRare(l)
			}
			if full {
				into := make([]Delivery, 5)
				n, _ := c.Receive(t.Context(), into)
				for i := range into[:n] {
					into[i].User(nil)
					c.Ack(into[i].Receipt)
				}
			}
			if err != nil || !rare && !full {
				break
			}
		}
		if c.inFlight < 0 || c.inFlight+len(c.free) != 10 || b.left < 0 {
			t.Fatalf("%d in flight, %d ids free, %d messages left", c.inFlight, len(c.free), b.left)
		}
		// CONNACK is read elsewhere.
		if body, size, _, err := cut(raw, 1<<20); err == nil && size > 0 {
			_ = c.welcome(&link{version: version}, raw[0], body)
		}
	})
}

func TestAddresses(t *testing.T) {
	for raw, want := range map[string]Broker{
		"localhost":           {"localhost:1883", false},
		"tcp://h:1":           {"h:1", false},
		"mqtt://h":            {"h:1883", false},
		"ssl://h":             {"h:8883", true},
		"tls://h:1883":        {"h:1883", true},
		"mqtts://h":           {"h:8883", true},
		"tcp://h:8883":        {"h:8883", true},
		"tcp://[::1]:1883":    {"[::1]:1883", false},
		"TCP://10.0.0.1:1883": {"10.0.0.1:1883", false},
	} {
		if got, err := ParseBroker(raw); err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", raw, got, err, want)
		}
	}
	for _, raw := range []string{"", "tcp://", "http://h", "tcp://user:secret@h", "tcp://h/x", "tcp://h:0", "tcp://h:x", "tcp://h?x=1"} {
		if got, err := ParseBroker(raw); err == nil {
			t.Errorf("%q is taken as %+v", raw, got)
		} else if bytes.Contains([]byte(err.Error()), []byte("secret")) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestOptionsRefuseNonsense(t *testing.T) {
	for name, o := range map[string]Options{
		"a session without a name": {Session: time.Hour}, "version 3": {Version: 3}, "window": {Window: 70_000},
		"negative window": {Window: -1}, "inbox": {Inbox: 70_000}, "keep alive": {KeepAlive: time.Millisecond}, "time": {Write: -1},
		"client id": {ClientID: "\xff"}, "password alone in 3.1.1": {Version: 4, Password: tidemill.NewSecret("x")},
	} {
		if _, err := prepare([]string{"h"}, o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := prepare(nil, Options{}); err == nil {
		t.Error("no broker is taken")
	}
}
