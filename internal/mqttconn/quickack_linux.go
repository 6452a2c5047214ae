package mqttconn

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// quickack has the kernel acknowledge now what it has received. Errors cost only time.
func quickack(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
}
