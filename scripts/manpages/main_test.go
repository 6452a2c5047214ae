package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPagesAndCompletions(t *testing.T) {
	folder, again := t.TempDir(), t.TempDir()
	for _, f := range []string{folder, again} {
		if err := write(f, "1.2.3", "2026-11-26T10:00:00+01:00"); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]string{
		"man/tidemill.1":            {`.TH "TIDEMILL" "1" "Nov 2026" "Tidemill 1.2.3"`, "  tidemill send events.ndjson       some events", "\\fBtidemill-run(1)"},
		"man/tidemill-dead-list.1":  {"List dead letters.", "--reason", "\n  tidemill dead list --site shop --since 24h\n"},
		"man/tidemill-completion.1": {"<shell>", "Fish, once:            tidemill completion fish > "},
		"completions/tidemill.bash": {"__start_tidemill"},
		"completions/_tidemill":     {"#compdef tidemill"},
		"completions/tidemill.fish": {"complete -c tidemill"},
		"completions/tidemill.ps1":  {"Register-ArgumentCompleter"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s has no %q:\n%s", name, w, text)
			}
		}
		if other, err := os.ReadFile(filepath.Join(again, name)); err != nil || !bytes.Equal(text, other) {
			t.Errorf("%s differs the second time (%v)", name, err)
		}
	}
}

func TestArgumentsThatAreWrong(t *testing.T) {
	if write("", "1", "2026-11-26T00:00:00Z") == nil || write(t.TempDir(), "1", "yesterday") == nil {
		t.Error("no folder and no date are taken")
	}
}
