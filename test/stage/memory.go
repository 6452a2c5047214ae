package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	memory     = "/dev/shm"
	leastInMem = 8 << 30 // bytes; a whole `make test` used 3 GiB
)

// inMemory returns an environment in which tests have their files in memory, if it has the room
// and TMPDIR is not set: most of the time of tests on SQLite is the disk's, and a disk that
// pauses for seconds makes servers miss their deadlines. Compiled and downloaded files stay on
// disk.
func inMemory(env []string) []string {
	if isSet(env, "TMPDIR") || !hasRoom(memory, leastInMem) {
		return env
	}
	dir := filepath.Join(memory, "tidemill-tests")
	if os.MkdirAll(dir, 0o755) != nil || os.Chmod(dir, 0o755) != nil {
		return env
	}
	env = append(slices.Clone(env), "TMPDIR="+dir)
	for name, value := range map[string]string{
		"GOTMPDIR":       os.TempDir(),
		"SERVICES_CACHE": filepath.Join(os.TempDir(), "tidemill-services", "cache"),
	} {
		if !isSet(env, name) {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func isSet(env []string, name string) bool {
	return slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") && e != name+"=" })
}
