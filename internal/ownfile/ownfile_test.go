//go:build unix

package ownfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemill/tidemill/internal/ownfile"
)

func TestWhatIsNoFileIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(path("theirs"), []byte("precious"), 0o600),
		os.Symlink(path("theirs"), path("link")),
		os.Symlink(path("nothing"), path("dangling")),
		unix.Mkfifo(path("pipe"), 0o600),
		os.Mkdir(path("folder"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "dangling", "pipe", "folder"} {
		for _, flag := range []int{os.O_RDWR | os.O_CREATE, os.O_WRONLY | os.O_CREATE | os.O_APPEND, os.O_RDONLY} {
			f, err := ownfile.Open(path(name), flag, 0o600)
			if !errors.Is(err, ownfile.ErrNotOurs) || !strings.Contains(err.Error(), path(name)) {
				t.Errorf("%s, flags %#x: %v, want %v", name, flag, err, ownfile.ErrNotOurs)
			}
			if err == nil {
				_ = f.Close()
			}
		}
	}
	if _, err := os.Lstat(path("nothing")); err == nil {
		t.Error("what a link led to was made")
	}
	for range 2 {
		f, err := ownfile.Open(path("new"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
