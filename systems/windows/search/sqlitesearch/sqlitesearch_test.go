package sqlitesearch

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/searchtest"
)

func open(t testing.TB) *sqlitedb.DB {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func store(t testing.TB, db *sqlitedb.DB, o Options, schemas ...*search.Schema) *Store {
	t.Helper()
	s, err := New(db, o, schemas...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	searchtest.Run(t, func(t *testing.T, schemas ...*search.Schema) searchtest.Harness {
		db := open(t)
		again := func() search.Store { return store(t, db, Options{}, schemas...) }
		return searchtest.Harness{Store: again(), Reopen: again}
	})
}
