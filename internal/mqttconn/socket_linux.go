package mqttconn

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// quickack has the kernel acknowledge now what it has received. Errors cost only time.
func quickack(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
}

// wakeAt has the kernel wake a reader only when so many bytes wait for it. It says whether
// the kernel can.
func wakeAt(c syscall.RawConn, bytes int) bool {
	var cannot error
	err := c.Control(func(fd uintptr) {
		cannot = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes)
	})
	return err == nil && cannot == nil
}

// sleep sleeps for less than a millisecond, which the runtime's own timers do not where
// nothing else goes on: they round up to one.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // a signal may end it early
}
