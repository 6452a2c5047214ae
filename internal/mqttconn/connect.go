package mqttconn

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

// link is one connection and what its broker allows.
type link struct {
	broker    Broker
	conn      net.Conn
	raw       syscall.RawConn // of the TCP connection; nil if it has none
	plain     bool            // without TLS
	version   byte
	present   bool // the broker still has our session
	quota     int  // most in flight: the smaller of our window and its receive maximum
	receive   int  // its receive maximum
	largest   int  // largest packet that it accepts; 0: no limit
	maxQoS    byte
	retain    bool
	wildcards bool
	shared    bool
	keepAlive time.Duration
	client    string // our id at the broker

	epoch   uint32
	wake    chan struct{} // of one: something to write
	buf     []byte        // read but not processed: buf[from:to]
	from    int
	to      int
	reads   atomic.Uint32 // to see that it is alive
	writes  atomic.Uint32
	stalled atomic.Bool // nothing is read because the inbox is full
}

// quota3 bounds messages at QoS 2 in flight in MQTT 3.1.1, which has no receive maximum: a
// stock Mosquitto accepts 20 and breaks the connection at the next.
const quota3 = 20

// limit is how many messages may be in flight, and how many slots must be free before a writer
// that waited for room goes on: an eighth, or a quarter of few.
func (l *link) limit(qos byte) (quota, bulk int) {
	quota = l.quota
	if qos == 2 && l.version < 5 {
		quota = min(quota, quota3)
	}
	part := 8
	if quota <= small {
		part = 4
	}
	return quota, max(1, quota/part)
}

// signal wakes the writer.
func (l *link) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

const readBuffer = 64 << 10

// connect dials and exchanges CONNECT and CONNACK. If no version is set, a broker that refuses
// MQTT 5 is asked for 3.1.1; for this connection only, because a broker that is shutting down
// also closes without an answer.
func (c *Client) connect(ctx context.Context, b Broker) (*link, error) {
	l, err := c.connectAs(ctx, b, cmp.Or(c.o.Version, 5))
	if e, ok := errors.AsType[*versionError](err); ok && c.o.Version == 0 && e.tried == 5 {
		l, err = c.connectAs(ctx, b, 4)
	}
	if err == nil {
		return l, nil
	}
	if e, ok := errors.AsType[*tidemill.Error](err); ok {
		return nil, tidemill.Fail(e.Kind, "connect to %s: %w", b.Addr, err)
	}
	return nil, tidemill.Fail(tidemill.Transient, "connect to %s: %w", b.Addr, err)
}

// versionError says that a broker does not accept the version.
type versionError struct {
	tried byte
	err   error
}

func (e *versionError) Error() string { return e.err.Error() }
func (e *versionError) Unwrap() error { return e.err }

func (c *Client) connectAs(ctx context.Context, b Broker, version byte) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Connect)
	defer cancel()
	conn, err := c.o.Dial(ctx, b.Addr)
	if err != nil {
		return nil, err
	}
	l := &link{broker: b, conn: conn, version: version, wake: make(chan struct{}, 1), buf: make([]byte, readBuffer),
		maxQoS: 2, retain: true, wildcards: true, shared: true, keepAlive: c.o.KeepAlive, client: c.o.ClientID, receive: math.MaxUint16}
	if tcp, ok := conn.(*net.TCPConn); ok {
		l.raw, _ = tcp.SyscallConn()
		l.plain = !b.TLS
	}
	// The end of ctx ends reads and writes too.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err = c.handshake(ctx, l); err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = l.conn.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, err
	}
	return l, nil
}

func (c *Client) handshake(ctx context.Context, l *link) error {
	if l.broker.TLS {
		config := c.o.TLS.Clone()
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(l.broker.Addr)
		}
		t := tls.Client(l.conn, config)
		if err := t.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		l.conn = t
	}
	hello, err := c.hello(l.version)
	if err != nil {
		return err
	}
	if _, err := l.conn.Write(hello); err != nil {
		return fmt.Errorf("send CONNECT: %w", err)
	}
	for {
		body, size, need, err := cut(l.buf[:l.to], c.o.MaxPacket)
		if err != nil {
			return err
		}
		if size > 0 {
			first := l.buf[0]
			l.from = size
			return c.welcome(l, first, body)
		}
		if need > len(l.buf) {
			l.buf = append(l.buf[:l.to], make([]byte, need)...)
		}
		n, err := l.conn.Read(l.buf[l.to:])
		l.to += n
		if err != nil && n == 0 {
			return noAnswer(err, l.version)
		}
	}
}

// noAnswer is for a broker that closes instead of answering, as some do if they do not accept
// the version, or want TLS.
func noAnswer(err error, version byte) error {
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it closed the connection without an answer: is it an MQTT broker, and does it want TLS (tls://)? (%w)", err)
		return &versionError{version, err}
	}
	return fmt.Errorf("wait for its answer: %w", err)
}

// hello is the CONNECT packet.
func (c *Client) hello(version byte) ([]byte, error) {
	p := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: version,
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), ClientIdentifier: c.o.ClientID, Keepalive: uint16(c.o.KeepAlive / time.Second),
			Clean: c.o.Session == 0, UsernameFlag: c.o.User != "", Username: []byte(c.o.User),
			PasswordFlag: !c.o.Password.IsZero(), Password: []byte(c.o.Password.Reveal()),
		},
	}
	if version >= 5 {
		p.Properties = packets.Properties{
			ReceiveMaximum: uint16(c.o.Inbox), MaximumPacketSize: uint32(c.o.MaxPacket),
			SessionExpiryInterval: seconds(c.o.Session), SessionExpiryIntervalFlag: c.o.Session > 0,
		}
	}
	var b bytes.Buffer
	if err := p.ConnectEncode(&b); err != nil {
		return nil, fmt.Errorf("encode CONNECT: %w", err)
	}
	return b.Bytes(), nil
}

// seconds rounds up to the unit of times in MQTT.
func seconds(d time.Duration) uint32 {
	return uint32(min((d+time.Second-1)/time.Second, math.MaxUint32))
}

// welcome reads CONNACK.
func (c *Client) welcome(l *link, first byte, body []byte) error {
	p := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack, Remaining: len(body)}, ProtocolVersion: l.version}
	if first>>4 != packets.Connack || len(body) < 2 {
		return fmt.Errorf("%w instead of CONNACK: is it an MQTT broker?", errMalformed)
	}
	// A broker that does not know our version answers in its own, without properties.
	if len(body) == 2 {
		p.ProtocolVersion = 4
	}
	if err := p.ConnackDecode(bytes.Clone(body)); err != nil {
		return fmt.Errorf("%w: CONNACK: %w", errMalformed, err)
	}
	if code := p.ReasonCode; code != 0 {
		if c3, ok := codes3[code]; ok {
			code = c3
		}
		err := refusal("us", code, c.redact(p.Properties.ReasonString))
		if code == codeVersion {
			return &versionError{l.version, err}
		}
		return err
	}
	if p.ProtocolVersion != l.version {
		return fmt.Errorf("%w: CONNACK without properties", errMalformed)
	}
	l.present = p.SessionPresent && c.o.Session > 0
	l.take(&p.Properties)
	l.quota = min(c.o.Window, l.receive)
	return nil
}

// take reads the broker's limits.
func (l *link) take(p *packets.Properties) {
	if p.ReceiveMaximum > 0 {
		l.receive = int(p.ReceiveMaximum)
	}
	if p.MaximumPacketSize > 0 {
		l.largest = int(p.MaximumPacketSize)
	}
	if p.MaximumQosFlag {
		l.maxQoS = p.MaximumQos
	}
	if p.RetainAvailableFlag {
		l.retain = p.RetainAvailable == 1
	}
	if p.WildcardSubAvailableFlag {
		l.wildcards = p.WildcardSubAvailable == 1
	}
	if p.SharedSubAvailableFlag {
		l.shared = p.SharedSubAvailable == 1
	}
	if p.ServerKeepAliveFlag {
		l.keepAlive = time.Duration(p.ServerKeepAlive) * time.Second
	}
	if p.AssignedClientID != "" {
		l.client = p.AssignedClientID
	}
}

// redact removes the password from a broker's text.
func (c *Client) redact(s string) string {
	if c.o.Password.IsZero() {
		return s
	}
	return strings.ReplaceAll(s, c.o.Password.Reveal(), c.o.Password.String())
}
