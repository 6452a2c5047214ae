//go:build unix

package system

import "golang.org/x/sys/unix"

// FreeSpace is how many bytes an unprivileged program can still write below path.
func FreeSpace(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
