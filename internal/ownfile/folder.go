package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Folder refuses a folder in which others can put files: one that all may write to, one of
// another user than root and our own, and one that a group may write to, unless that is root's,
// the user's own (of the same number), or one of ours that the folder passes on (set-group-ID,
// as orchestrators make volumes for a group). A missing folder is fine. So is a volume of the
// first process of a container: no other process can write to it.
func Folder(path string) error {
	i, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the data folder: %w", err)
	}
	return others(path, i)
}
