package httpsink

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/httpguard"
)

// connected watches the connection of a request, to know after a failure whether the
// request may have been written. When net/http tries again on a new connection, because an
// idle one was gone before anything was written, the watch starts over.
type connected struct {
	mu    sync.Mutex
	conn  net.Conn // guarded by mu; nil: none yet
	fresh bool     // guarded by mu; no request had it before
	start int64    // guarded by mu; bytes that were written to it before
}

func (c *connected) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { c.begin(nil, false) },
		GotConn: func(i httptrace.GotConnInfo) { c.begin(i.Conn, !i.Reused) },
	}
}

func (c *connected) begin(conn net.Conn, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.fresh, c.start = conn, fresh, 0
	if n, ok := httpguard.Written(conn); ok {
		c.start = n
	}
}

// leastRequest: our requests are never shorter; what TLS writes to end a connection is
// (some 30 bytes).
const leastRequest = 64

// written says whether the request may have been written, as far as can be known: not
// without a connection, nor where too few bytes for a request were written to it. On HTTP/2
// others write to the connection, too.
func (c *connected) written() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return false
	}
	n, known := httpguard.Written(c.conn)
	if t, ok := c.conn.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol == "h2" {
		known = false
	}
	return !known || n-c.start >= leastRequest
}

// certificateRefused says whether the server wants a client certificate, or another one
// than ours. TLS reports it by an alert, which has no error type. With TLS 1.3 it comes
// after the handshake, and net/http may report only that the connection ended.
func (c *connected) certificateRefused(err error) bool {
	if refusedCertificate(err) {
		return true
	}
	c.mu.Lock()
	conn, ok := c.conn.(*tls.Conn)
	ok = ok && c.fresh
	c.mu.Unlock()
	if !ok || conn.ConnectionState().NegotiatedProtocol == "h2" {
		return false
	}
	_ = conn.SetReadDeadline(time.Unix(1, 0)) // no waiting
	_, err = conn.Read(make([]byte, 1))       // the connection is over; it remembers why
	return refusedCertificate(err)
}

func refusedCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}
