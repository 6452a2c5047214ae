package mqttconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

const (
	outFull   = 64 << 10 // encoded and not written: beyond it nothing is encoded, so that memory stays bounded
	outBroken = 4 << 20  // the broker floods us with packets that need answers and does not read
	keepBytes = 1 << 20  // larger buffers are released
)

// serve reads and writes until the connection breaks or ctx ends.
func (c *Client) serve(ctx context.Context, l *link) error {
	stopping := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	nudge := c.nudger(l)
	var writer sync.WaitGroup
	writer.Go(func() {
		cancel(c.write(ctx, l))
		if stopping.Err() == nil || !c.goodbye(l) {
			_ = l.conn.Close() // which ends the reader
		}
	})
	cancel(c.read(ctx, l, nudge))
	if stopping.Err() == nil {
		_ = l.conn.Close() // which ends a write
	}
	writer.Wait()
	_ = l.conn.Close()
	nudge.stop()
	return context.Cause(ctx)
}

// write writes what is encoded, until ctx ends.
func (c *Client) write(ctx context.Context, l *link) error {
	var signs <-chan time.Time // never, if the broker wants none
	if l.keepAlive > 0 {
		t := time.NewTicker(l.keepAlive / 2)
		defer t.Stop()
		signs = t.C
	}
	var alive signsOfLife
	var buf []byte
	for {
		select {
		case <-l.wake:
		case <-signs:
			ping, err := alive.look(l)
			if err != nil {
				return err
			}
			if ping {
				c.mu.Lock()
				c.out = append(c.out, pingreqBits, 0)
				c.mu.Unlock()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for {
			buf = c.swap(buf)
			if len(buf) == 0 {
				break
			}
			l.writes.Add(1)
			_ = l.conn.SetWriteDeadline(time.Now().Add(c.o.Write))
			if _, err := l.conn.Write(buf); err != nil {
				err = fmt.Errorf("write to the MQTT broker: %w", err)
				c.wrote(tidemill.Fail(tidemill.Unknown, "%w", err))
				return err
			}
			c.wrote(nil)
		}
	}
}

// swap returns what is to be written and reuses the memory of buf.
func (c *Client) swap(buf []byte) []byte {
	if cap(buf) > keepBytes {
		buf = nil
	}
	c.mu.Lock()
	buf, c.out = c.out, buf[:0]
	c.zero, c.writing = c.writing[:0], c.zero
	if len(buf) > 0 {
		c.stats.Writes++
		c.pump()
	}
	ready := c.takeReady()
	c.mu.Unlock()
	tell(ready)
	return buf
}

// wrote ends the messages at QoS 0 that were in a write.
func (c *Client) wrote(err error) {
	c.mu.Lock()
	for _, s := range c.writing {
		c.endOne(s.b, s.i, err)
	}
	clear(c.writing)
	c.writing = c.writing[:0]
	if c.closing {
		c.notify()
	}
	ready := c.takeReady()
	c.mu.Unlock()
	tell(ready)
}

// goodbye writes the rest and DISCONNECT, and lets the reader go on until the broker closes the
// connection: closing it with unread bytes would make TCP discard what the broker has not read
// yet.
func (c *Client) goodbye(l *link) bool {
	buf := c.swap(nil)
	p := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ProtocolVersion: l.version}
	var b bytes.Buffer
	b.Write(buf)
	_ = p.DisconnectEncode(&b) // it cannot fail
	late := time.Now().Add(min(c.o.Write, time.Second))
	_ = l.conn.SetDeadline(late)
	_, err := l.conn.Write(b.Bytes())
	if err != nil {
		err = tidemill.Fail(tidemill.Unknown, "write to the MQTT broker: %w", err)
	}
	c.wrote(err)
	return err == nil
}

// signsOfLife checks twice in each KeepAlive whether the broker is alive.
type signsOfLife struct {
	reads, writes uint32
	asked         bool // and nothing came since
}

func (s *signsOfLife) look(l *link) (ping bool, err error) {
	reads, writes := l.reads.Load(), l.writes.Load()
	silent, idle := reads == s.reads, writes == s.writes
	s.reads, s.writes = reads, writes
	switch {
	case l.stalled.Load(): // an answer may lie unread
		s.asked = false
		return idle, nil
	case silent && s.asked:
		return false, fmt.Errorf("the MQTT broker shows no sign of life within %v", l.keepAlive)
	}
	s.asked = silent || idle
	return s.asked, nil
}

// read reads until the connection breaks.
func (c *Client) read(ctx context.Context, l *link, n *nudger) error {
	g := newGatherer(l)
	defer g.enough()
	for {
		inFlight, err := c.take(ctx, l, n)
		if err != nil {
			return err
		}
		if l.from > 0 {
			l.to = copy(l.buf, l.buf[l.from:l.to])
			l.from = 0
		}
		if _, _, need, _ := cut(l.buf[:l.to], c.o.MaxPacket); need > len(l.buf) {
			l.buf = append(make([]byte, 0, need), l.buf[:l.to]...)[:need]
		} else if len(l.buf) > keepBytes && need <= readBuffer && l.to <= readBuffer {
			l.buf = append(make([]byte, 0, readBuffer), l.buf[:l.to]...)[:readBuffer]
		}
		g.await(inFlight)
		got, err := l.conn.Read(l.buf[l.to:])
		l.to += got
		l.reads.Add(1)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the MQTT broker closed the connection")
			}
			return err
		}
	}
}

// take processes all completely read packets together, and returns how many messages are in
// flight after that.
func (c *Client) take(ctx context.Context, l *link, n *nudger) (inFlight int, err error) {
	for {
		c.mu.Lock()
		full, rare, err := c.takeSome(l)
		c.stats.Reads++
		c.pump()
		if len(c.out) > outBroken && err == nil {
			err = errors.New("the MQTT broker sends much and reads nothing")
		}
		writes, waits, came := len(c.out) > 0, c.waiting > 0, c.inbox.came
		inFlight = c.inFlight
		c.inbox.came = false
		if c.closing {
			c.notify()
		}
		ready := c.takeReady()
		c.mu.Unlock()
		tell(ready)
		if came {
			select {
			case c.arrive <- struct{}{}:
			default:
			}
		}
		if writes {
			l.signal()
		} else if inFlight > 0 {
			n.later(inFlight, waits)
		}
		switch {
		case err != nil:
			return inFlight, err
		case rare:
			if err := c.takeRare(l); err != nil {
				return inFlight, err
			}
		case full:
			if err := c.awaitRoom(ctx, l); err != nil {
				return inFlight, err
			}
		default:
			return inFlight, nil
		}
	}
}

// takeSome processes the read packets, until none is complete, the inbox is full, or one is
// rare; under mu.
func (c *Client) takeSome(l *link) (full, rare bool, err error) {
	for {
		body, size, _, err := cut(l.buf[l.from:l.to], c.o.MaxPacket)
		if err != nil || size == 0 {
			return false, false, err
		}
		first := l.buf[l.from]
		if first>>4 == publishBits>>4 {
			in, err := parsePublish(first, body, l.version)
			if err != nil {
				return false, false, err
			}
			if !c.accept(l, &in) {
				return true, false, nil
			}
			l.from += size
			continue
		}
		switch first {
		case pubackBits, pubrecBits, pubrelBits, pubcompBits:
			a, err := parseAck(body, l.version)
			if err != nil {
				return false, false, err
			}
			c.acked(l, first, a, body)
		default:
			return false, true, nil
		}
		l.from += size
	}
}

// takeRare processes the packet that stopped takeSome.
func (c *Client) takeRare(l *link) error {
	first := l.buf[l.from]
	body, size, _, err := cut(l.buf[l.from:l.to], c.o.MaxPacket)
	if err != nil {
		return err
	}
	l.from += size
	p := packets.Packet{ProtocolVersion: l.version}
	if err := p.FixedHeader.Decode(first); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	p.FixedHeader.Remaining = len(body)
	body = bytes.Clone(body)
	switch p.FixedHeader.Type {
	case packets.Pingresp:
		return nil
	case packets.Suback:
		if err = p.SubackDecode(body); err == nil {
			return c.answered(p.PacketID, p.ReasonCodes, p.Properties.ReasonString)
		}
	case packets.Unsuback:
		if err = p.UnsubackDecode(body); err == nil {
			return c.answered(p.PacketID, p.ReasonCodes, p.Properties.ReasonString)
		}
	case packets.Disconnect:
		if len(body) == 0 {
			return errors.New("the MQTT broker ended the connection")
		}
		if len(body) == 1 { // properties may be left out
			return refusal("to go on", body[0], "")
		}
		if err = p.DisconnectDecode(body); err == nil {
			return refusal("to go on", p.ReasonCode, c.redact(p.Properties.ReasonString))
		}
	default:
		return fmt.Errorf("%w: one of type %d", errMalformed, p.FixedHeader.Type)
	}
	return fmt.Errorf("%w: type %d: %w", errMalformed, p.FixedHeader.Type, err)
}
