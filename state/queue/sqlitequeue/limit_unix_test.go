//go:build unix

package sqlitequeue

import (
	"os"
	"strconv"
	"syscall"
)

// fileLimit is how large a child's files may grow.
const fileLimit = "TIDEMILL_QUEUE_LIMIT"

func limitFiles() {
	if n, err := strconv.ParseUint(os.Getenv(fileLimit), 10, 64); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
	}
}
