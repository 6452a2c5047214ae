//go:build unix

package backup

import "os"

// syncFile has a file, or the entries of a folder, on disk.
func syncFile(path string) error {
	return opened(path, (*os.File).Sync)
}
