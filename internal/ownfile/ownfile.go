// Package ownfile opens files that the process makes at names that others know, in folders where
// somebody else may have put something there before. Use it wherever a file is opened to be
// written and its name is not random.
package ownfile

import (
	"errors"
	"fmt"
	"os"
)

// ErrNotOurs says that there is something else than a file at a name: a link, a pipe, a device.
var ErrNotOurs = errors.New("is no regular file: remove it")

// Open is os.OpenFile for regular files alone. It follows no link at the end of the path, and
// waits for nobody who would open the other end of a pipe. Do not have it truncate: look first
// whose the content is.
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
