//go:build unix

package sqlitedb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemill/tidemill/internal/ownfile"
)

// lockFile takes the lock that keeps a second process out of the database. The kernel holds it,
// so it is free again when the process is gone, however that ended.
func lockFile(path string) (*os.File, error) {
	f, err := ownfile.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, holderMost))
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{Path: strings.TrimSuffix(path, ".lock"), Holder: strings.TrimSpace(string(holder))}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := sign(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// holderMost is how many bytes of the holder's line are read.
const holderMost = 64

// holderIs begins the line that the holder of a lock writes.
const holderIs = "process "

// sign writes who has the lock, over its last holder's line and over nothing else.
func sign(f *os.File) error {
	was, err := io.ReadAll(io.LimitReader(f, holderMost))
	if err != nil {
		return err
	}
	if len(was) > 0 && !strings.HasPrefix(string(was), holderIs) {
		return errors.New("it is something else than a lock: move it away")
	}
	if err := f.Truncate(0); err == nil { // only people need it
		_, _ = f.WriteAt(fmt.Appendf(nil, "%s%d\n", holderIs, os.Getpid()), 0)
	}
	return nil
}
