package sqlitedb

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/tidemill/tidemill/internal/ownfile"
)

// lockFile takes the lock that keeps a second process out of the database. The system holds it,
// so it is free again when the process is gone, however that ended.
func lockFile(path string) (*os.File, error) {
	f, err := ownfile.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if err != nil {
		_ = f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return nil, &LockedError{Path: strings.TrimSuffix(path, ".lock"), Holder: "another process"}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
