package mqttconn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

// peer is the broker's end of one connection, played by a test.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   []byte
}

// script plays a broker: connection n gets script n; there are no more connections than
// scripts.
func script(t *testing.T, o Options, scripts ...func(*peer)) *Client {
	t.Helper()
	n := 0
	o.Dial = func(context.Context, string) (net.Conn, error) {
		if n == len(scripts) {
			return nil, errors.New("nobody there")
		}
		play := scripts[n]
		n++
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			p := &peer{t: t, conn: theirs}
			if first, _ := p.next(); first>>4 != packets.Connect {
				return // closed before it began
			}
			play(p)
		}()
		return ours, nil
	}
	if o.Rand == nil {
		o.Rand = func() float64 { return 1 }
	}
	c, err := Start([]string{"tcp://broker"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.abort)
	return c
}

// next reads one packet; its first byte is 0 at the end.
func (p *peer) next() (first byte, body []byte) {
	for {
		if body, size, _, err := cut(p.in, 1<<28); err != nil {
			p.t.Error(err)
			return 0, nil
		} else if size > 0 {
			first, body = p.in[0], bytes.Clone(body)
			p.in = p.in[size:]
			return first, body
		}
		b := make([]byte, 4096)
		n, err := p.conn.Read(b)
		p.in = append(p.in, b[:n]...)
		if err != nil && n == 0 {
			return 0, nil
		}
	}
}

// publish reads one PUBLISH.
func (p *peer) publish() incoming {
	first, body := p.next()
	if first>>4 != packets.Publish {
		p.t.Errorf("the client sent %02x %x, want PUBLISH", first, body)
		return incoming{}
	}
	in, err := parsePublish(first, body, 5)
	if err != nil {
		p.t.Error(err)
	}
	return in
}

// ack reads one acknowledgement of this kind and returns its id.
func (p *peer) ack(kind byte) uint16 {
	first, body := p.next()
	for first == pingreqBits {
		first, body = p.next()
	}
	if first != kind {
		p.t.Errorf("the client sent %02x %x, want %02x", first, body, kind)
		return 0
	}
	return binary.BigEndian.Uint16(body)
}

func (p *peer) send(b ...byte) { _, _ = p.conn.Write(b) }

func (p *peer) sendAck(kind byte, id uint16, code byte) {
	p.send(kind, 3, byte(id>>8), byte(id), code)
}

func (p *peer) welcome(present bool, props packets.Properties) {
	var b bytes.Buffer
	k := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, ProtocolVersion: 5, SessionPresent: present, Properties: props}
	if err := k.ConnackEncode(&b); err != nil {
		p.t.Error(err)
	}
	p.send(b.Bytes()...)
}

func (p *peer) deliver(id uint16, dup bool, qos byte, payload string) {
	p.send(appendPublish(nil, &Message{Topic: "in", Payload: []byte(payload), QoS: qos}, id, dup, 5)...)
}

// drain reads until the end, or until the client disconnects.
func (p *peer) drain() {
	for {
		if first, _ := p.next(); first == 0 || first>>4 == packets.Disconnect {
			return
		}
	}
}

func messages(n int, qos byte) []Message {
	out := make([]Message, n)
	for i := range out {
		out[i] = Message{Topic: "t", Payload: []byte{byte('0' + i)}, QoS: qos}
	}
	return out
}

// kindsOf are the error kinds of n messages.
func kindsOf(err error, n int) []tidemill.Kind {
	out := make([]tidemill.Kind, n)
	partly, ok := errors.AsType[*tidemill.Partial](err)
	for i := range out {
		if err != nil && !ok {
			out[i] = tidemill.KindOf(err)
		}
	}
	if ok {
		for _, f := range partly.Failed {
			out[f.Index] = tidemill.KindOf(f.Err)
		}
	}
	return out
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond) // in a bubble, or bounded: a counter does not notify
	}
	t.Fatal("it does not come to this: " + what)
}
