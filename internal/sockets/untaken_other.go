//go:build !linux

package sockets

import (
	"net"
	"time"
)

func closeUntaken(*net.TCPConn, time.Duration) {}
