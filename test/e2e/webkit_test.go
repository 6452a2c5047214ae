//go:build e2e && webkit

package e2e

import (
	"path/filepath"
	"testing"
)

// TestTheConsoleInWebKit looks at every page in the engine of Safari, with script and without, and goes the way of an
// operator by keys alone and by forms alone. It is one of the checks of a release, by make webkit.
func TestTheConsoleInWebKit(t *testing.T) {
	found, err := filepath.Glob("/usr/lib/*/webkit2gtk-4.*/MiniBrowser")
	if err != nil || len(found) == 0 {
		t.Fatal("WebKit is needed: sh scripts/need.sh webkit")
	}
	in := newFilled(t)
	in.mended("console in WebKit", "webkit.mjs", []string{found[0], "http://" + in.Addr, in.Token(), purchase(8), purchase(16)}, 8, 16)
}
