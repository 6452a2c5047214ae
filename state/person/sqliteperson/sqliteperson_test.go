package sqliteperson

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/persontest"
)

func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{
		"with the default caches":      {},
		"with caches that always miss": {Refs: 1, CacheMiB: 1},
	} {
		t.Run(name, func(t *testing.T) {
			persontest.Run(t, func(t *testing.T) persontest.Harness { return harness(t, o) })
		})
	}
}

func harness(t *testing.T, o Options) persontest.Harness {
	path := filepath.Join(t.TempDir(), "t.db")
	db, store := open(t, path, o)
	return persontest.Harness{
		Store: store,
		Reopen: func(t *testing.T) person.Store {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db, store = open(t, path, o)
			return store
		},
	}
}

func open(t testing.TB, path string, o Options) (*sqlitedb.DB, *Store) {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}
