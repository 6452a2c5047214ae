package httpguard

import (
	"net"
	"sync/atomic"
)

// counted is a connection that counts the bytes written to it.
type counted struct {
	net.Conn
	written atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// Written is how many bytes were written to a connection of a Guard, including those of TLS.
// After a failure it tells a request that was sent from one that was not.
func Written(c net.Conn) (n int64, known bool) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if k, ok := c.(*counted); ok {
		return k.written.Load(), true
	}
	return 0, false
}
