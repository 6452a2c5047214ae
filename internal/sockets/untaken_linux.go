package sockets

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// closeUntaken has a connection closed whose bytes are not acknowledged for so long, or cannot be sent because
// the client's window is closed: tcp(7), TCP_USER_TIMEOUT.
func closeUntaken(c *net.TCPConn, within time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(within.Milliseconds()))
	})
}
