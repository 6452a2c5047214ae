package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Names in a data folder.
const (
	Database = "tidemill.db" // with its lock and its log beside it

	copies    = "backup-copy"     // what a backup is made of, while it is made
	restoring = "restoring"       // what is being restored; nothing is opened as long as it is there
	before    = "before-restore-" // and when: what was there before
)

// notData says whether a name in a data folder is none of what a backup has.
func notData(name string) bool {
	return name == copies || name == restoring || name == Database+".lock" || strings.HasPrefix(name, before)
}

// Copied is a copy of a data folder at one instant.
type Copied struct {
	Folder  string
	LeftOut []string // links, and whatever else is no file
}

// Copy copies a data folder that this process has locked, with the database by copyDB: first the
// database, at one instant, and then what lies beside it. Close removes the copy.
func Copy(ctx context.Context, data string, copyDB func(ctx context.Context, to string) error) (_ *Copied, err error) {
	if err := Tidy(data); err != nil {
		return nil, err
	}
	c := &Copied{Folder: filepath.Join(data, copies)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := os.Mkdir(c.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	if err := copyDB(ctx, filepath.Join(c.Folder, Database)); err != nil {
		return nil, err
	}
	c.LeftOut, err = Stage(data, c.Folder, func(name string) bool {
		return notData(name) || strings.HasPrefix(name, Database)
	})
	return c, err
}

// Close removes the copy.
func (c *Copied) Close() error { return os.RemoveAll(c.Folder) }

// Tidy removes what a backup has left in a data folder whose process was killed.
func Tidy(data string) error {
	if err := os.RemoveAll(filepath.Join(data, copies)); err != nil {
		return fmt.Errorf("remove what a backup has left: %w", err)
	}
	return nil
}

// Usable says why the database of a data folder may not be opened: a restore has not ended.
func Usable(data string) error {
	path := filepath.Join(data, restoring)
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("a restore into %s has not ended: run `tidemill restore` again with --force, or remove %s if it had not begun to replace anything", data, path)
	}
	return nil
}

// Data are the names of what is in a data folder, if it is there: what a restore would replace.
func Data(data string) (names []string, err error) {
	all, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range all {
		if !notData(e.Name()) && e.Name() != "lost+found" {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Restored is a data folder that is being made, inside the one that it is to be. The process has its
// lock.
type Restored struct {
	Folder string // to be filled

	data string
}

// Restore begins to restore a data folder, which is there: until Close nothing opens its database.
func Restore(data string) (*Restored, error) {
	r := &Restored{filepath.Join(data, restoring), data}
	if err := errors.Join(os.RemoveAll(r.Folder), os.Mkdir(r.Folder, 0o700), syncFile(data)); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return r, nil
}

// Close gives up what was not put in place.
func (r *Restored) Close() error { return os.RemoveAll(r.Folder) }

// Put moves what is in the data folder aside, and what was restored into its place. aside is where
// the former is now; empty: there was nothing. A crash meanwhile leaves a folder that nothing opens,
// in which everything is still there.
func (r *Restored) Put(now time.Time) (aside string, err error) {
	if err := os.Remove(filepath.Join(r.Folder, Database+".lock")); err != nil && !errors.Is(err, fs.ErrNotExist) { // of the process that checked it
		return "", err
	}
	if err := Sync(r.Folder); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	old, err := Data(r.data)
	if err != nil {
		return "", err
	}
	if len(old) > 0 {
		aside = filepath.Join(r.data, before+now.UTC().Format("20060102T150405.000Z"))
		if err := os.Mkdir(aside, 0o700); err != nil {
			return "", err
		}
	}
	for _, name := range old {
		if err := os.Rename(filepath.Join(r.data, name), filepath.Join(aside, name)); err != nil {
			return aside, fmt.Errorf("move what was there aside: %w", err)
		}
	}
	made, err := os.ReadDir(r.Folder)
	if err != nil {
		return aside, err
	}
	for _, e := range made {
		if err := os.Rename(filepath.Join(r.Folder, e.Name()), filepath.Join(r.data, e.Name())); err != nil {
			return aside, fmt.Errorf("put what was restored in its place: %w", err)
		}
	}
	if aside != "" {
		err = syncFile(aside)
	}
	return aside, errors.Join(err, syncFile(r.data), os.Remove(r.Folder), syncFile(r.data))
}
