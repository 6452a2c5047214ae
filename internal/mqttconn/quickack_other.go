//go:build !linux

package mqttconn

import "syscall"

// quickack does nothing where the system has no such option.
func quickack(syscall.RawConn) {}
