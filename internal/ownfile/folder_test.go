//go:build unix

package ownfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhoMayWriteToAFolder(t *testing.T) {
	me := process{user: 1000, groups: []int{2000, 100}}
	for _, c := range []struct {
		name        string
		mode        os.FileMode
		user, group uint32
		want        string // in the error; empty: it is accepted
	}{
		{"made by us", 0o700, 1000, 100, ""},
		{"others may look", 0o755, 1000, 100, ""},
		{"root's", 0o755, 0, 0, ""},
		{"another user's", 0o700, 1001, 100, "another user's"},
		{"all may write", 0o777, 1000, 100, "chmod o-w"},
		{"all may write, each to what is theirs", 0o777 | os.ModeSticky, 0, 0, "chmod o-w"},
		{"all may write, with a group of ours", 0o777 | os.ModeSetgid, 0, 2000, "chmod o-w"},
		{"a group may write", 0o770, 1000, 100, "chmod g-w"},
		{"the user's own group may write, as umask 002 has it", 0o775, 1000, 1000, ""},
		{"root's group may write", 0o775, 1000, 0, ""},
		{"a volume for our group (fsGroup)", 0o775 | os.ModeSetgid, 0, 2000, ""},
		{"a volume for another group", 0o775 | os.ModeSetgid, 0, 3000, "chmod g-w"},
	} {
		err := me.refuses("/data", c.mode, c.user, c.group)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestAFolderOfAllIsRefused(t *testing.T) {
	dir := t.TempDir()
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o777: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := Folder(dir); (err == nil) != ok {
			t.Errorf("of mode %v: %v", mode, err)
		}
	}
	if err := Folder(filepath.Join(dir, "none")); err != nil {
		t.Errorf("one that is not there yet: %v", err)
	}
}
