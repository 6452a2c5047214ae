//go:build unix

package ownfile

import (
	"fmt"
	"os"
	"slices"
	"syscall"
)

// process is the calling process.
type process struct {
	user   uint32
	groups []int
}

func others(path string, i os.FileInfo) error {
	s, ok := i.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	more, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("look for the groups of this process: %w", err)
	}
	if os.Getpid() == 1 && mounted(path, s) {
		return nil
	}
	return process{uint32(os.Geteuid()), append(more, os.Getegid())}.refuses(path, i.Mode(), s.Uid, s.Gid)
}

// refuses is Folder for one of this mode, user and group.
func (p process) refuses(path string, mode os.FileMode, user, group uint32) error {
	switch own := group == 0 || group == p.user || mode&os.ModeSetgid != 0 && slices.Contains(p.groups, int(group)); {
	case user != 0 && user != p.user:
		return fmt.Errorf("the data folder %s is another user's (number %d), who could put files there: `chown -R %d %s`, or name another with --data", path, user, p.user, path)
	case mode.Perm()&0o002 != 0:
		return fmt.Errorf("all users may write to the data folder %s (mode %04o): `chmod o-w %s`, or name another with --data", path, mode.Perm(), path)
	case mode.Perm()&0o020 != 0 && !own:
		return fmt.Errorf("a group (number %d) may write to the data folder %s (mode %04o): `chmod g-w %s`, or, where it is there for this process alone, `chmod g+s %s` and run it in that group", group, path, mode.Perm(), path, path)
	}
	return nil
}

// mounted reports whether a folder is a mount point.
func mounted(path string, s *syscall.Stat_t) bool {
	var up syscall.Stat_t
	return syscall.Stat(path+"/..", &up) == nil && (up.Dev != s.Dev || up.Ino == s.Ino)
}
