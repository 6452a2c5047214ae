package windowssystem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

func TestAFileThatCannotBeReadAnyMoreIsSaid(t *testing.T) {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, err := gdelt.NewFolder(dir, tableprogress.Memory(tableprogress.Options{}), letters, gdelt.Options{Quiet: -1, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.export.CSV", "2.export.CSV"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("1\t\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := source.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	feed := windowsapi.FileSource{Name: filesIntake, Source: source}
	if f := checkFiles(t.Context(), feed); f.Verdict != preflight.OK || f.Detail != "2 are being read" {
		t.Errorf("%+v", f)
	}
	if err := os.Remove(filepath.Join(dir, "1.export.CSV")); err != nil {
		t.Fatal(err)
	}
	if n, err := source.Receive(t.Context(), []*tidemill.Message{{}}); n != 1 || err != nil { // of the other
		t.Fatal(n, err)
	}
	if f := checkFiles(t.Context(), feed); f.Verdict != preflight.Warn || !strings.Contains(f.Detail, "1 of its rows have not ended") || !strings.HasSuffix(f.Advice, "window give-up 1.export.CSV") {
		t.Errorf("%+v", f)
	}
}
