//go:build unix

package serve

import "golang.org/x/sys/unix"

// errInUse is the system's word for an address that another program listens on.
const errInUse = unix.EADDRINUSE
