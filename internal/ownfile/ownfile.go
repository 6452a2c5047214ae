// Package ownfile opens files at names that others know, in folders where others may have put
// something before. Use it to open any file for writing whose name is not random.
package ownfile

import (
	"errors"
	"fmt"
	"os"
)

// ErrNotOurs says that a name is not a regular file: a link, a pipe, a device.
var ErrNotOurs = errors.New("is no regular file: remove it")

// Open is os.OpenFile for regular files alone. It follows no link at the end of the path, and
// does not wait for the other end of a pipe. Do not truncate with it: look first whose the
// content is.
func Open(path string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := open(path, flag, mode)
	if err != nil {
		if i, look := os.Lstat(path); look == nil && !i.Mode().IsRegular() {
			return nil, fmt.Errorf("%s %w", path, ErrNotOurs)
		}
		return nil, err
	}
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", path, ErrNotOurs)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
