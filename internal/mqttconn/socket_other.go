//go:build !linux

package mqttconn

import (
	"syscall"
	"time"
)

// quickack does nothing: the system has no such option.
func quickack(syscall.RawConn) {}

// wakeAt reports that the system cannot.
func wakeAt(syscall.RawConn, int) bool { return false }

// nanosleep does not sleep: the system's timers are too coarse.
func nanosleep(time.Duration) {}
