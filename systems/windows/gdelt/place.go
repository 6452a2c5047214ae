package gdelt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// entry is one file that a place lists.
type entry struct {
	name string
	from string // its URL, where it has one
	size int64  // as listed; -1: not known
	md5  string // as listed, in hex; empty: not known
}

// place is where files come from.
type place interface {
	// String names the place in dead letters and logs.
	String() string
	// list calls have with files of accepted names, in any order, until have returns an error.
	list(ctx context.Context, have func(entry) error) error
	// look says what a listed file looks like now; nil where only fetching can tell.
	look(name string) (fs.FileInfo, error)
	// fetch brings a file to this machine and returns its path. A *Damage: it is broken.
	fetch(ctx context.Context, e entry) (path string, err error)
	// remove removes a file that is done.
	remove(name string) error
	// keeps reports whether files stay where they are until somebody removes them.
	keeps() bool
	// tidy removes all files but those whose names are needed.
	tidy(needed func(name string) bool) error
}

// folder is a place on this machine.
type folder struct {
	dir     string
	log     *slog.Logger
	strange atomic.Int64 // entries with names of files that are not regular files, such as links, at the last listing
}

func (f *folder) String() string { return f.dir }

func (f *folder) keeps() bool { return true }

func (f *folder) tidy(func(string) bool) error { return nil }

// listStep is how many entries of a folder are read at a time.
const listStep = 512

func (f *folder) list(ctx context.Context, have func(entry) error) error {
	dir, err := os.Open(f.dir)
	if err != nil {
		return fmt.Errorf("look for files: %w", err)
	}
	defer func() { _ = dir.Close() }()
	strange := int64(0)
	for {
		entries, err := dir.ReadDir(listStep)
		for _, e := range entries {
			if _, ours := ParseName(e.Name()); !ours || e.IsDir() {
				continue
			}
			if !e.Type().IsRegular() { // the target of a link may belong to somebody else
				strange++
				continue
			}
			if err := have(entry{name: e.Name(), size: -1}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if f.strange.Swap(strange) == 0 && strange > 0 {
				// Logged when the folder of files has links, pipes or the like; once.
				// To do: put the files themselves there.
				f.log.WarnContext(ctx, "links, and what else is no regular file, are not read", "folder", f.dir, "count", strange)
			}
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("look for files: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

func (f *folder) look(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(filepath.Join(f.dir, name))
	if err == nil && !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return info, err
}

func (f *folder) fetch(_ context.Context, e entry) (string, error) {
	return filepath.Join(f.dir, e.name), nil
}

func (f *folder) remove(name string) error {
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a file that is done: %w", err)
	}
	return nil
}

// sight is what a file looked like.
type sight struct {
	size  int64
	mod   time.Time
	since time.Time // since when it looks so
}
