package sockets

import (
	"net"
	"time"
)

// Limit has the system keep about so many bytes at most that the client has not taken, and on Linux close the
// connection when it takes none of them for so long. Elsewhere that is left to the deadline of the next write
// that they block. Nil is not a connection of ours.
func (c *Conn) Limit(bytes int, within time.Duration) {
	if c == nil {
		return
	}
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(bytes) // else they are more: the connection is usable
		closeUntaken(tcp, within)
	}
}
