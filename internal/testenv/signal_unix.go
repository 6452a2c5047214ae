//go:build unix

package testenv

import "syscall"

const (
	kill   = syscall.SIGKILL
	freeze = syscall.SIGSTOP
	thaw   = syscall.SIGCONT
)
