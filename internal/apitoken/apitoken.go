// Package apitoken keeps the API's token, if none is set, in a file of the data folder. Anyone
// who may read that file may operate the instance, as its command line does.
package apitoken

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tidemill/tidemill"
)

// File is the name of the file in the data folder.
const File = "api.token"

// least is how many characters a token has at least. Those made here have 26, of 130 bits.
const least = 16

// ErrNotKept says that a token cannot be written into the folder.
var ErrNotKept = errors.New("the API's token cannot be kept")

// Keep returns the token in a folder. It makes the folder, for its owner alone, and a random
// token if they are missing. If several callers make one at once all return the same.
// ErrNotKept: there is no token, and none can be written.
func Keep(folder string) (tidemill.Secret, error) {
	t, err := Read(folder)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if err := write(folder, rand.Text()); err != nil {
		return tidemill.Secret{}, fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return Read(folder)
}

// write makes the file, whole or not at all, unless it exists by now.
func write(folder, token string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, File+".*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // once linked it has its final name too
	_, err = f.WriteString(token + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), filepath.Join(folder, File)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Read returns the token in a folder: fs.ErrNotExist if it has none. It refuses a file that
// others than its owner can read or write, a link, and anything that is not a token.
func Read(folder string) (tidemill.Secret, error) {
	path := filepath.Join(folder, File)
	token, err := read(path)
	if err != nil {
		return tidemill.Secret{}, fmt.Errorf("the API's token: %w", err)
	}
	text := strings.TrimSpace(token)
	if len(text) < least || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return tidemill.Secret{}, fmt.Errorf("the API's token: %s holds none: remove it, the next start makes one", path)
	}
	return tidemill.NewSecret(text), nil
}

func read(path string) (string, error) {
	if i, err := os.Lstat(path); err != nil {
		return "", err
	} else if !i.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file: remove it, the next start makes one", path)
	}
	f, err := os.OpenInRoot(filepath.Dir(path), filepath.Base(path)) // a link made meanwhile cannot lead elsewhere
	if err != nil {
		return "", err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return "", err
	}
	if mode := i.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" { // Windows has no such modes
		return "", fmt.Errorf("others can open %s (mode %04o): remove it, the next start makes another; or `chmod 600` where nobody has read it", path, mode)
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return string(b), err
}
