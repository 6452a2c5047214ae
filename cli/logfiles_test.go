package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems"
)

func TestTheLogInFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	c, err := systems.All().Settings().Load(config.Layers{Flags: map[string]string{"log_files.folder": folder, "log.level": "warn"}})
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	log, end, err := logTo(&c.LogFiles, c.Log, command.Env{Table: systems.All(), Err: &errs}, c.Log.Slog())
	if err != nil {
		t.Fatal(err)
	}
	log.Info("below the level")
	log.Warn("a warning", "eventId", "e1")
	log.Error("an error", "error", errors.New("broken"))
	if err := end(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 2 {
		t.Fatalf("files %v, %v; want one of errors and one of warnings", entries, err)
	}
	for n, want := range []string{`"msg":"an error","error":"broken"}`, `"msg":"a warning","eventId":"e1"}`} {
		if b, err := os.ReadFile(filepath.Join(folder, entries[n].Name())); err != nil || !strings.HasSuffix(string(b), want+"\n") {
			t.Errorf("%s has %s, %v", entries[n].Name(), b, err)
		}
	}
	if s := errs.String(); !strings.Contains(s, `msg="a warning"`) || !strings.Contains(s, `msg="an error"`) || strings.Contains(s, "below") {
		t.Errorf("on standard error: %s", s)
	}
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.LogFiles.Folder = filepath.Join(folder, "file")
	if _, _, err := logTo(&c.LogFiles, c.Log, command.Env{Table: systems.All(), Err: &errs}, c.Log.Slog()); err == nil || !strings.Contains(err.Error(), c.LogFiles.Folder) {
		t.Errorf("a folder that is a file: %v", err)
	}
}
