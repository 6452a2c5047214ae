package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatAnotherSystemLacksIsFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.org/m\n\ngo 1.26\n",
		"all.go":       "package m\n\nfunc Everywhere() int { return 1 }\n",
		"unix_test.go": "//go:build unix\n\npackage m\n\nfunc here() int { return 2 }\n",
		"all_test.go":  "package m\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { t.Log(here(), Everywhere()) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(dir, "linux", []string{"./..."}); err != nil {
		t.Errorf("linux: %v", err)
	}
	err := check(dir, "windows", []string{"./..."})
	if err == nil || !strings.Contains(err.Error(), "undefined: here") || !strings.Contains(err.Error(), "not right for windows") || strings.Count(err.Error(), "undefined") != 1 {
		t.Errorf("windows: %v", err)
	}
	if err := check(dir, "windows", []string{"./nothing"}); err == nil {
		t.Error("a package that does not exist is right")
	}
}
