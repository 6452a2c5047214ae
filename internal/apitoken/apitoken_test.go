package apitoken_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/apitoken"
)

func TestATokenIsMadeOnceForItsOwnerAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "data")
	if _, err := apitoken.Read(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder: %v, want %v", err, fs.ErrNotExist)
	}
	first, err := apitoken.Keep(folder)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(first.Reveal()); n < 26 {
		t.Errorf("the token has %d characters", n)
	}
	for name, want := range map[string]fs.FileMode{".": 0o700, apitoken.File: 0o600} {
		if i, err := os.Stat(filepath.Join(folder, name)); err != nil || i.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v (%v)", name, i.Mode().Perm(), want, err)
		}
	}
	for name, get := range map[string]func(string) (tidemill.Secret, error){"Keep": apitoken.Keep, "Read": apitoken.Read} {
		if again, err := get(folder); err != nil || !again.Equal(first) {
			t.Errorf("%s again is another one, or %v", name, err)
		}
	}
	if other, err := apitoken.Keep(t.TempDir()); err != nil || other.Equal(first) {
		t.Errorf("another folder has the same token (%v)", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, want the token alone (%v)", left, err)
	}
}

func TestATokenThatCannotBeKeptIsSaidSo(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.Symlink("nowhere/at/all", folder); err != nil {
		t.Fatal(err)
	}
	if got, err := apitoken.Keep(folder); !errors.Is(err, apitoken.ErrNotKept) || !got.IsZero() {
		t.Errorf("in a folder that cannot be made: %v", err)
	}
}

func TestAllThatMakeATokenAtOnceHaveTheSame(t *testing.T) {
	folder := t.TempDir()
	var g sync.WaitGroup
	got := make([]tidemill.Secret, 16)
	for n := range got {
		g.Go(func() {
			var err error
			if got[n], err = apitoken.Keep(folder); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	for _, one := range got {
		if !one.Equal(got[0]) || one.IsZero() {
			t.Fatal("they have different ones")
		}
	}
}

func TestATokenThatOthersMayKnowIsRefused(t *testing.T) {
	const good = "0123456789abcdef\n"
	for _, c := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"its group can read it", func(p string) error { return file(p, good, 0o640) }, "others can open"},
		{"all can read it", func(p string) error { return file(p, good, 0o604) }, "others can open"},
		{"others can write it", func(p string) error { return file(p, good, 0o602) }, "others can open"},
		{"it is a link", func(p string) error {
			return errors.Join(file(p+".other", good, 0o600), os.Symlink(p+".other", p))
		}, "is no file"},
		{"it is a folder", func(p string) error { return os.Mkdir(p, 0o700) }, "is no file"},
		{"it is empty", func(p string) error { return file(p, "\n", 0o600) }, "holds none"},
		{"it is short", func(p string) error { return file(p, "0123456789abcde\n", 0o600) }, "holds none"},
		{"it is two", func(p string) error { return file(p, good+good, 0o600) }, "holds none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, apitoken.File)
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			for name, get := range map[string]func(string) (tidemill.Secret, error){"Keep": apitoken.Keep, "Read": apitoken.Read} {
				got, err := get(folder)
				if err == nil || !got.IsZero() || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "abcde") {
					t.Errorf("%s = %v, want an error that has %q and %s", name, err, c.want, path)
				}
			}
		})
	}
}

// file writes a file with this mode, whatever the umask is.
func file(path, text string, mode fs.FileMode) error {
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode))
}
