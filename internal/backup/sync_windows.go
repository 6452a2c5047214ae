package backup

import (
	"errors"
	"os"
)

// syncFile has a file on disk. The entries of a folder are there with it.
func syncFile(path string) error {
	i, err := os.Stat(path)
	if err != nil || i.IsDir() {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
