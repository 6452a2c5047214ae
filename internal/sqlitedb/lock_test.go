//go:build unix

package sqlitedb_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/ownfile"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Anyone who could once write to the folder may have left a link there, or another file.
func TestWhatIsInTheWayOfTheDatabaseIsLeftAlone(t *testing.T) {
	const precious = "precious\n"
	for what, put := range map[string]func(db, theirs string) error{
		"a link for a lock":         func(db, theirs string) error { return os.Symlink(theirs, db+".lock") },
		"a link for a database":     func(db, theirs string) error { return os.Symlink(theirs, db) },
		"another name for the lock": func(db, theirs string) error { return os.Link(theirs, db+".lock") },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			db, theirs := filepath.Join(dir, "tidemill.db"), filepath.Join(t.TempDir(), "theirs")
			if err := errors.Join(os.WriteFile(theirs, []byte(precious), 0o600), put(db, theirs)); err != nil {
				t.Fatal(err)
			}
			d, err := sqlitedb.Open(t.Context(), db, sqlitedb.Options{})
			if err == nil {
				_ = d.Close()
				t.Error("it is opened")
			}
			if what != "another name for the lock" && !errors.Is(err, ownfile.ErrNotOurs) {
				t.Errorf("%v, want %v", err, ownfile.ErrNotOurs)
			}
			if got, err := os.ReadFile(theirs); err != nil || string(got) != precious {
				t.Errorf("the other file has %q now (%v)", got, err)
			}
		})
	}
}

func TestTheLockOfTheLastProcessIsTaken(t *testing.T) {
	db := filepath.Join(t.TempDir(), "tidemill.db")
	if err := os.WriteFile(db+".lock", []byte("process 1234567890123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := sqlitedb.Open(t.Context(), db, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
