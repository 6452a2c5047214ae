//go:build unix

package process

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// before is the commit of the version before this one: that of the last release, or of what ran last
// before the first.
//
//go:embed before
var before string

// ErrNoHistory says that the checkout does not have the commit of the version before.
var ErrNoHistory = fmt.Errorf("this checkout has no commit %.12s: fetch its history", before)

// Before is the path of the version before this one, built once for all tests of a package.
var Before = sync.OnceValues(func() (string, error) {
	commit := strings.TrimSpace(before)
	if exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run() != nil {
		return "", ErrNoHistory
	}
	dir, err := os.MkdirTemp("", "tidemill-before")
	if err != nil {
		return "", err
	}
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	files := filepath.Join(dir, "files.tar")
	archive := exec.Command("git", "archive", "--output", files, commit)
	archive.Dir = strings.TrimSpace(string(top))
	if out, err := archive.CombinedOutput(); err != nil {
		return "", fmt.Errorf("read the files of %.12s: %w\n%s", commit, err, out)
	}
	if out, err := exec.Command("tar", "-xf", files, "-C", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the files of %.12s: %w\n%s", commit, err, out)
	}
	path := filepath.Join(dir, "tidemill")
	return path, build(dir, path)
})
