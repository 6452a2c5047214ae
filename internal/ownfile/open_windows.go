package ownfile

import (
	"fmt"
	"os"
)

// open looks before it opens: links are for administrators on Windows.
func open(path string, flag int, mode os.FileMode) (*os.File, error) {
	if i, err := os.Lstat(path); err == nil && !i.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %w", path, ErrNotOurs)
	}
	return os.OpenFile(path, flag, mode)
}
