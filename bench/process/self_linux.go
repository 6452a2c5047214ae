package process

import (
	"syscall"
	"time"
)

// Self is user and system time so far of this process, to the microsecond.
func Self() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
