package sqlitedbtest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// RefusesNewer holds that a store opens its own tables again, and refuses those that a newer
// program has written: it would not keep what it does not know.
func RefusesNewer[T any](t *testing.T, open func(context.Context, *sqlitedb.DB) (T, error)) {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for range 2 {
		if _, err := open(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("UPDATE tidemill_schema SET version=version+1")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), db); err == nil {
		t.Error("tables of a newer program were opened")
	}
}
