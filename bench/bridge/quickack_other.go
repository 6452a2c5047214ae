//go:build !linux

package main

import "net"

// quickack does nothing here: CPU time and memory are read as Linux tells them, too.
func quickack(net.Conn) {}
