package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

func TestASessionAboutAFileThatIsGone(t *testing.T) {
	dir, files := t.TempDir(), tableprogress.Memory(tableprogress.Options{})
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	feed := func() *gdelt.Source {
		s, err := gdelt.NewFolder(dir, files, letters, gdelt.Options{Quiet: -1, Every: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const name = "20250323151500.export.CSV"
	put := func(content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("1\t\n2\t\nno id\n3\t\n")
	if err := feed().Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	source := feed() // after a crash
	s := newNewspaper(t, windows.Options{}, window.Options{})
	a := &windowsapi.API{Common: &answer.Common{}, Windows: s.sys, Files: []windowsapi.FileSource{{Name: "windows-files", Source: source}}}
	s.serve(admin.Parts{NoAuth: true, Common: a.Common, Rooms: only(windows.Name, a.Operations()), Letters: s.letters})
	s.types("window files", `
~FILE +BATCH +ROWS +PENDING +TROUBLE
~20250323151500.export.CSV +20250323151500 +3 +3 *
~windows-files, gdelt files of .*: 0 files read, 0 refused, 3 rows; 1 row without an id skipped\.
`)
	s.fails("window give-up "+name, "only one that cannot be read is given up")
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if n, err := source.Receive(ctx, []*tidemill.Message{{}}); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(n, err)
	}
	if status, out, errs := s.session.run(t.Context(), "", "window files"); status != 0 || !strings.Contains(out, "no such file") || errs != "" {
		t.Errorf("%d %s%s", status, out, errs)
	}
	for range 2 { // it changes nothing
		s.types("window give-up --dry-run "+name, "20250323151500.export.CSV would be given up: 3 rows would be lost.")
	}
	s.types("window give-up "+name, "20250323151500.export.CSV is given up: 3 rows lost.")
	s.types("window files", `
No file is being read.
~windows-files, gdelt files of .*: 1 file read, 0 refused, 3 rows; 1 row without an id skipped; 3 given up\.
`)
	s.types("window files --json", `~\{"feeds":\[\{"feed":"windows-files","from":"gdelt files of .*","files":\[\],"done":1,"refused":0,"rows":3,"idless_rows":1,"lost_rows":3,"unread":0\}\]\}`)
	s.fails("window give-up nix", "no file \"nix\" is in trouble")
	s.fails("window give-up --dry-run "+name, "is in trouble")
	put("no id\n")
	if err := source.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := s.session.run(t.Context(), "", "window files"); !strings.Contains(out, "; those refused are dead letters: `tidemill dead list --pipeline windows-files`.") {
		t.Errorf("with a file that is refused: %s", out)
	}
}

func TestASessionWithoutFiles(t *testing.T) {
	newNewspaper(t, windows.Options{}, window.Options{}).types("window files", "No files are read here: windows.files of the configuration says where they are.")
}

// What a pipe gets of a record is what was received: line ends, tabs, what is no UTF-8.
func TestRecordsOfAWindowAreShownByteForByte(t *testing.T) {
	n := newNewspaper(t, windows.Options{}, window.Options{})
	records := []window.Record{
		{Batch: batchOf("default", "b"), Kind: "event", ID: "1", Body: []byte("{\n\t\"globalEventId\": 1\r\n}")},
		{Batch: batchOf("default", "b"), Kind: "event", ID: "2", Body: []byte("{\"globalEventId\":2,\"actor1Name\":\"\xff\u0085\"}")},
	}
	if err := n.windows.Put(t.Context(), records, nil); err != nil {
		t.Fatal(err)
	}
	want := "\n\n" + string(records[0].Body) + "\n" + string(records[1].Body) + "\n"
	if status, out, errs := n.session.run(t.Context(), "", "window show b --records 0"); status != 0 || !strings.HasSuffix(out, want) {
		t.Errorf("%d %q%s; want %q at the end", status, out, errs, want)
	}
}
