package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Stage copies all files of a folder that is in use into another one, for Write. What skip says is
// skipped: a name below the folder, with slashes. A file that grows is copied as far as it goes when
// it is opened, and one that goes away meanwhile is skipped. leftOut are links and whatever else is
// no file.
func Stage(folder, into string, skip func(name string) bool) (leftOut []string, err error) {
	from, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	defer from.Close()
	to, err := os.OpenRoot(into)
	if err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	defer to.Close()
	err = fs.WalkDir(from.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) || name == ".":
			return nil
		case err != nil:
			return err
		case skip(name) && d.IsDir():
			return fs.SkipDir
		case skip(name):
			return nil
		case d.IsDir():
			return to.Mkdir(name, 0o700)
		case !d.Type().IsRegular():
			leftOut = append(leftOut, name)
			return nil
		}
		return copyFile(from, to, name)
	})
	if err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	return leftOut, nil
}

func copyFile(from, to *os.Root, name string) error {
	in, err := from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	i, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, i.Size())
	if errors.Is(err, io.EOF) { // it is shorter now
		err = nil
	}
	return errors.Join(err, out.Close())
}

// Sync has all files below a folder, and the folders, on disk.
func Sync(folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncFile(path)
	})
}
