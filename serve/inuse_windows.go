package serve

import "golang.org/x/sys/windows"

// errInUse is the system's word for an address that another program listens on.
const errInUse = windows.WSAEADDRINUSE
