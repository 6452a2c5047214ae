// Package golden holds what tests print against files that people read.
package golden

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the files that tests compare with: read the change before you commit it")

// Update says whether files are written.
func Update() bool { return *update }

// Same wants a file to have these bytes. With -update it writes them.
func Same(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, got) {
		t.Errorf("%s has something else (%v): go test -run %s -update writes it; read the change\n%s", file, err, t.Name(), differs(is, got))
	}
}

// differs shows the first line that differs.
func differs(is, got []byte) []byte {
	is, got = append(is, '\n'), append(got, '\n')
	for {
		a, b := bytes.IndexByte(is, '\n'), bytes.IndexByte(got, '\n')
		if a < 0 || b < 0 || !bytes.Equal(is[:a], got[:b]) {
			return []byte("has  " + string(is[:max(a, 0)]) + "\nwant " + string(got[:max(b, 0)]))
		}
		is, got = is[a+1:], got[b+1:]
	}
}
