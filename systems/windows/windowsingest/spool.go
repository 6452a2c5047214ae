package windowsingest

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemill/tidemill/serve/request"
)

// spooled is how files are called that are being taken; what is behind it is random.
const spooled = "tidemill-upload-"

// tidy makes the folder for files, if it is the ingest API's own, and removes what a process that
// died has left in it.
func tidy(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder for files: %w", err)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for files that were left: %w", err)
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), spooled) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a file that was left: %w", err)
		}
	}
	return nil
}

// spool writes the body into a file of its own, which whoever asked is to remove. An error is
// the disk's.
func (x *exchange) spool() (path string, p *request.Problem, err error) {
	f, err := os.CreateTemp(x.h.o.Spool, spooled+"*")
	if err != nil {
		return "", nil, err
	}
	path = f.Name()
	l := &x.h.o.Limits
	n, wrong, err := request.Copy(f, x.W, x.R, int64(l.File), l.FileTime)
	err = errors.Join(err, f.Close())
	switch {
	case err != nil:
	case wrong != nil:
		p = wrong
	case n == 0:
		p = request.Refuse(http.StatusBadRequest, "empty", "the body is empty; a file is wanted")
	default:
		return path, nil, nil
	}
	return "", p, errors.Join(err, os.Remove(path))
}
