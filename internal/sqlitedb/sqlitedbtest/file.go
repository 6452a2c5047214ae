package sqlitedbtest

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// File is a database in a file of a test's own, which is opened again and again, as by one process
// after the other. It is closed at the end of the test.
type File struct {
	t    testing.TB
	path string
	o    sqlitedb.Options
	db   *sqlitedb.DB
}

// NewFile makes a file that is not open yet.
func NewFile(t testing.TB, o sqlitedb.Options) *File {
	f := &File{t: t, path: filepath.Join(t.TempDir(), "t.db"), o: o}
	t.Cleanup(f.Close)
	return f
}

// Open closes the database if it is open, and opens it.
func (f *File) Open() *sqlitedb.DB {
	f.t.Helper()
	f.Close()
	db, err := sqlitedb.Open(f.t.Context(), f.path, f.o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.db = db
	return db
}

// DB is the open database.
func (f *File) DB() *sqlitedb.DB { return f.db }

// Close closes the database if it is open.
func (f *File) Close() {
	f.t.Helper()
	if f.db == nil {
		return
	}
	if err := f.db.Close(); err != nil {
		f.t.Errorf("close: %v", err)
	}
	f.db = nil
}
