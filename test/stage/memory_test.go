package main

import (
	"slices"
	"testing"
)

func TestFilesOfTestsAreInMemoryWhereThereIsRoom(t *testing.T) {
	has := hasRoom(memory, leastInMem)
	for _, c := range []struct {
		name string
		env  []string
		want bool
	}{
		{"no TMPDIR", []string{"HOME=/root"}, has},
		{"an empty TMPDIR", []string{"TMPDIR="}, has},
		{"a TMPDIR that somebody set", []string{"TMPDIR=/var/tmp"}, false},
	} {
		got := inMemory(c.env)
		if is := slices.Contains(got, "TMPDIR="+memory+"/tidemill-tests"); is != c.want {
			t.Errorf("%s: %v: in memory %t, want %t", c.name, got, is, c.want)
		}
		if c.want && !isSet(got, "GOTMPDIR") {
			t.Errorf("%s: %v has no GOTMPDIR: what is compiled belongs on disk", c.name, got)
		}
	}
	if hasRoom(memory, 1<<62) {
		t.Error("a folder has room for 4 EiB")
	}
}
