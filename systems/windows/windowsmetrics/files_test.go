package windowsmetrics_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/metrics/metricstest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
	"github.com/tidemill/tidemill/systems/windows/windowsmetrics"
)

func TestFilesOfWindows(t *testing.T) {
	dir, files := t.TempDir(), tableprogress.Memory(tableprogress.Options{})
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := gdelt.NewFolder(dir, files, letters, gdelt.Options{Quiet: -1, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"1.export.CSV": "1\t\n\t\n", "2.export.CSV": "2\t\nno id\nnone\n", "3.export.CSV.zip": "no zip", "4.export.CSV": "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := source.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "1.export.CSV")); err != nil {
		t.Fatal(err)
	}
	m := []*tidemill.Message{{}}
	if n, err := source.Receive(t.Context(), m); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	want := `tidemill_windows_files{pipeline="p",state="broken"} 1
tidemill_windows_files{pipeline="p",state="done"} 1
tidemill_windows_files{pipeline="p",state="open"} 1
tidemill_windows_files{pipeline="p",state="stuck"} 1
tidemill_windows_files_idless_rows_total{pipeline="p"} 2
`
	if got := metricstest.Series(metricstest.Scrape(t, windowsmetrics.NewFiles("p", source)), "tidemill_windows"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
