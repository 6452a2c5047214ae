//go:build unix

package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// heavy makes a data folder with many bytes that cannot be compressed.
func heavy(t *testing.T, data string) {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), system.DatabasePath(data), sqlitedb.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), "ballast", []string{"CREATE TABLE ballast(b BLOB)"}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<20)
	for range 64 {
		_, _ = rand.Read(b)
		if err := db.Write(context.Background(), func(tx *sqlitedb.Tx) error {
			_, err := tx.Exec("INSERT INTO ballast VALUES(?)", b)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// once waits for something that a process does.
func once(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is never so: %s", what)
		}
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("it had ended before it was killed: %v", err)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.Exited() {
		t.Errorf("it had ended before it was killed: %v", cmd.ProcessState)
	}
}

func TestABackupThatIsKilledLeavesNoHalfFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	heavy(t, filepath.Join(dir, "d"))
	partly := func() int64 {
		found, _ := filepath.Glob(filepath.Join(dir, "whole.part-*"))
		for _, f := range found {
			if i, err := os.Stat(f); err == nil {
				return i.Size()
			}
		}
		return 0
	}
	cmd := programIn(t, dir, "backup", "whole", "--data", "d")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	once(t, "a part of the archive is written", func() bool { return partly() > 1<<20 })
	kill(t, cmd)
	if _, err := os.Stat(filepath.Join(dir, "whole")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file under the final name: %v", err)
	}
	must(t, dir, "backup", "whole", "--data", "d")
	must(t, dir, "restore", "whole", "--data", "r")
}

func TestARestoreThatIsKilledReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	heavy(t, filepath.Join(dir, "d"))
	must(t, dir, "backup", "whole", "--data", "d", "--no-verify")
	whole, err := os.ReadFile(filepath.Join(dir, "whole"))
	if err != nil {
		t.Fatal(err)
	}
	halfway := func(data string, more ...string) {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := programIn(t, dir, append([]string{"restore", "-", "--data", data}, more...)...)
		cmd.Stdin = in
		if err := errors.Join(cmd.Start(), in.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(whole[:len(whole)/2]); err != nil {
			t.Fatal(err)
		}
		once(t, "a part is unpacked", func() bool {
			i, err := os.Stat(filepath.Join(dir, data, "restoring", "tidemill.db"))
			return err == nil && i.Size() > 1<<20
		})
		kill(t, cmd)
	}
	halfway("new")
	fails(t, dir, "a restore into new has not ended", "status", "--data", "new")
	must(t, dir, "restore", "whole", "--data", "new")
	must(t, dir, "audit", "--data", "new")

	before, err := os.ReadFile(filepath.Join(dir, "new", "tidemill.db"))
	if err != nil {
		t.Fatal(err)
	}
	halfway("new", "--force")
	if now, err := os.ReadFile(filepath.Join(dir, "new", "tidemill.db")); err != nil || !bytes.Equal(now, before) {
		t.Errorf("what was there has changed: %v", err)
	}
	fails(t, dir, "a restore into new has not ended", "status", "--data", "new")
	if out := must(t, dir, "restore", "whole", "--data", "new", "--force"); !strings.Contains(out, "before-restore-") {
		t.Errorf("it moved nothing aside: %s", out)
	}
	must(t, dir, "audit", "--data", "new")
}
