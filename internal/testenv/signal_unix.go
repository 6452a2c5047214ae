//go:build unix

package testenv

import (
	"os"
	"syscall"
)

const (
	kill   = syscall.SIGKILL
	freeze = syscall.SIGSTOP
	thaw   = syscall.SIGCONT
)

// reserve takes a file for this process until release; false: another process has it.
func reserve(file string) (release func(), ok bool) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, false
	}
	return func() { _ = f.Close() }, true
}
