package testenv

import (
	"flag"
	"testing"
)

// Fewer has a test of random cases, by package rapid, run so many of them, unless a number was asked
// for: where each step is a round trip, or waits for a disk.
func Fewer(t testing.TB, checks string) {
	t.Helper()
	const usual = "100"
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == usual {
		t.Cleanup(func() { _ = flag.Set("rapid.checks", usual) })
		_ = flag.Set("rapid.checks", checks)
	}
}
