//go:build unix

package ownfile

import (
	"os"

	"golang.org/x/sys/unix"
)

func open(path string, flag int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
}
