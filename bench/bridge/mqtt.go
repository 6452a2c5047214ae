package bridge

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// First bytes of the packets in use, at QoS 1 if they have one.
const (
	connect   = 0x10
	connack   = 0x20
	publish   = 0x30 // and QoS in bits 1 and 2
	puback    = 0x40
	subscribe = 0x82
	suback    = 0x90
)

// link is the minimum of an MQTT 3.1.1 connection for the benchmark.
type link struct {
	conn net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
	used int // bytes of the packet that was read last, still in r
}

func dialBroker(addr, client string) (*link, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	l := &link{conn: c, r: bufio.NewReaderSize(c, 256<<10), w: bufio.NewWriterSize(c, 64<<10)}
	l.begin(connect, 12+len(client))
	l.put("\x00\x04MQTT\x04\x02\x00\x00") // 3.1.1, clean session, no keep-alive
	l.short(len(client))
	l.put(client)
	if err := l.w.Flush(); err != nil {
		return nil, err
	}
	head, body, err := l.packet()
	if err == nil && (head != connack || len(body) != 2 || body[1] != 0) {
		err = fmt.Errorf("the broker answers CONNECT with %x %x", head, body)
	}
	_, _ = l.r.Discard(l.used)
	l.used = 0
	return l, err
}

func (l *link) close() { _ = l.conn.Close() }

// begin writes the fixed header of a packet whose rest has n bytes. An error stays in the
// writer, and Flush returns it.
func (l *link) begin(head byte, n int) {
	b := append(l.w.AvailableBuffer(), head)
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	_, _ = l.w.Write(append(b, byte(n)))
}

func (l *link) put(s string) { _, _ = l.w.WriteString(s) }
func (l *link) short(n int) {
	_, _ = l.w.Write(binary.BigEndian.AppendUint16(l.w.AvailableBuffer(), uint16(n)))
}

// packet reads a packet; its body is valid until the next call.
func (l *link) packet() (head byte, body []byte, err error) {
	_, _ = l.r.Discard(l.used)
	l.used = 0
	if head, err = l.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n := 0
	for shift := 0; ; shift += 7 {
		b, err := l.r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		if shift == 21 {
			return 0, nil, fmt.Errorf("packet %x has no length", head)
		}
	}
	l.used = n
	body, err = l.r.Peek(n) // larger than the buffer is an error; no message here is
	return head, body, err
}

// nudge is how long a publisher with a full window waits until it has TCP acknowledge what it
// read: a broker without TCP_NODELAY holds its PUBACKs back until then, which TCP does by
// itself only after 40 ms.
const nudge = 200 * time.Microsecond

// publisher publishes to one topic at QoS 1 with a window of messages in flight. If the window
// is full it waits for an eighth of it, so that packets are sent in bulk.
type publisher struct {
	*link
	topic  string
	window int
	quick  bool // nudges
	timer  *time.Timer
	ended  chan struct{} // closed when no more PUBACKs are read

	mu   sync.Mutex // guards the rest
	room *sync.Cond
	free []uint16 // packet ids
	need int      // how many free ones a waiter needs
	sent int
	err  error
}

func newPublisher(addr, client, topic string, window int, quick bool) (*publisher, error) {
	l, err := dialBroker(addr, client)
	if err != nil {
		return nil, err
	}
	p := &publisher{link: l, topic: topic, window: window, quick: quick, ended: make(chan struct{})}
	p.room = sync.NewCond(&p.mu)
	for id := window; id > 0; id-- {
		p.free = append(p.free, uint16(id))
	}
	p.timer = time.AfterFunc(time.Hour, p.hurry)
	go func() {
		defer close(p.ended)
		err := p.acknowledged()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		p.room.Broadcast()
	}()
	return p, nil
}

func (p *publisher) close() {
	p.link.close()
	p.timer.Stop()
	<-p.ended
}

// hurry makes TCP acknowledge while the publisher waits.
func (p *publisher) hurry() {
	p.mu.Lock()
	waits := p.need > 0 && p.err == nil
	p.mu.Unlock()
	if waits {
		quickack(p.conn)
		p.timer.Reset(nudge)
	}
}

// wait flushes and returns when so many packet ids are free. mu is held.
func (p *publisher) wait(need int) error {
	if len(p.free) >= need {
		return p.err
	}
	p.mu.Unlock()
	err := p.w.Flush()
	p.mu.Lock()
	if err != nil {
		return err
	}
	p.need = need
	if p.quick {
		p.timer.Reset(nudge)
	}
	for len(p.free) < need && p.err == nil {
		p.room.Wait()
	}
	p.need = 0
	return p.err
}

// publish buffers a message, as soon as the window has room.
func (p *publisher) publish(payload []byte) error {
	p.mu.Lock()
	if len(p.free) == 0 {
		if err := p.wait(max(1, p.window/8)); err != nil {
			p.mu.Unlock()
			return err
		}
	}
	id := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.sent++
	p.mu.Unlock()
	p.begin(publish|1<<1, 2+len(p.topic)+2+len(payload))
	p.short(len(p.topic))
	p.put(p.topic)
	p.short(int(id))
	_, err := p.w.Write(payload)
	return err
}

// finish returns when everything published was acknowledged.
func (p *publisher) finish() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wait(p.window)
}

// acknowledged reads PUBACKs until the connection ends.
func (p *publisher) acknowledged() error {
	for {
		if _, err := p.r.Peek(4); err != nil {
			return err
		}
		b, _ := p.r.Peek(p.r.Buffered() &^ 3)
		p.mu.Lock()
		for i := 0; i < len(b); i += 4 {
			if b[i] != puback || b[i+1] != 2 {
				p.mu.Unlock()
				return fmt.Errorf("the broker sends a publisher %x", b[i:i+4])
			}
			p.free = append(p.free, binary.BigEndian.Uint16(b[i+2:]))
		}
		wake := p.need > 0 && len(p.free) >= p.need
		p.mu.Unlock()
		if wake {
			p.room.Signal()
		}
		_, _ = p.r.Discard(len(b))
	}
}

// subscriber receives what is published to topics.
type subscriber struct{ *link }

// newSubscriber returns when the broker has the subscriptions.
func newSubscriber(addr, client string, qos byte, filters ...string) (*subscriber, error) {
	l, err := dialBroker(addr, client)
	if err != nil {
		return nil, err
	}
	n := 2
	for _, f := range filters {
		n += 2 + len(f) + 1
	}
	l.begin(subscribe, n)
	l.short(1)
	for _, f := range filters {
		l.short(len(f))
		l.put(f)
		_ = l.w.WriteByte(qos)
	}
	if err := l.w.Flush(); err != nil {
		return nil, err
	}
	head, body, err := l.packet()
	if err == nil && (head != suback || len(body) != 2+len(filters) || body[2] > 2) {
		err = fmt.Errorf("the broker answers SUBSCRIBE with %x %x", head, body)
	}
	return &subscriber{l}, err
}

// more reports whether another whole message has arrived.
func (s *subscriber) more() bool {
	b, _ := s.r.Peek(s.r.Buffered())
	b = b[s.used:]
	n, digits := binary.Uvarint(b[min(1, len(b)):]) // MQTT writes lengths as Go does
	return digits > 0 && uint64(len(b)) >= 1+uint64(digits)+n
}

// next waits for a message and acknowledges it; the acknowledgement goes with those of the
// messages that came together with it. The slices are valid until the next call.
func (s *subscriber) next() (topic, payload []byte, err error) {
	if !s.more() {
		if err := s.w.Flush(); err != nil {
			return nil, nil, err
		}
	}
	head, body, err := s.packet()
	if err != nil {
		return nil, nil, err
	}
	if head&0xf0 != publish || len(body) < 2 {
		return nil, nil, fmt.Errorf("the broker sends a subscriber %x", head)
	}
	n := 2 + int(binary.BigEndian.Uint16(body))
	if qos := head >> 1 & 3; qos == 1 {
		if len(body) < n+2 {
			return nil, nil, io.ErrUnexpectedEOF
		}
		s.begin(puback, 2)
		_, _ = s.w.Write(body[n : n+2])
		return body[2:n], body[n+2:], nil
	}
	if len(body) < n {
		return nil, nil, io.ErrUnexpectedEOF
	}
	return body[2:n], body[n:], nil
}
