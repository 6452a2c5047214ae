package main

import "syscall"

const noExec = 8 // ST_NOEXEC

// hasRoom reports whether a folder has this many free bytes, and allows programs.
func hasRoom(dir string, bytes uint64) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && st.Flags&noExec == 0 && st.Bavail*uint64(st.Bsize) >= bytes
}
