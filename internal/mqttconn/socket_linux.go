package mqttconn

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// quickack makes the kernel acknowledge now what it has received. Errors cost only time.
func quickack(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
}

// wakeAt makes the kernel wake a reader only at so many waiting bytes. It reports whether the
// kernel can.
func wakeAt(c syscall.RawConn, bytes int) bool {
	var cannot error
	err := c.Control(func(fd uintptr) {
		cannot = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes)
	})
	return err == nil && cannot == nil
}

// nanosleep sleeps for less than a millisecond. The runtime's own timers round up to one if nothing
// else runs.
func nanosleep(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // a signal may end it early
}
